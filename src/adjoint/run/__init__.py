"""PyTorch programs on adjoint, unmodified: `python -m adjoint.run script.py args…`, and `stand_in()` from Python.

Nothing is installed and nothing is written: `import torch` means adjoint in this process, and in those that it starts
with `multiprocessing`.
"""

from __future__ import annotations

from adjoint.run.finder import stand_in

__all__ = ["stand_in"]
