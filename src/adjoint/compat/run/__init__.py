"""PyTorch programs on adjoint, unmodified: `python -m adjoint.run script.py args…`, and `stand_in()` from Python.

Nothing is installed and nothing is written: `import torch` means adjoint in this process, and in those that it starts
with `multiprocessing`.

Modules, in reading order:

- `foreign_torch_function`: Classes that are no tensors and have `__torch_function__`: from the first one on functions
  and methods ask them too.
- `missing_names`: What a program asked of `torch` that is not here: its name, the line that asked, and where to read
  on.
- `version`: The version that programs for PyTorch read and compare.
- `import_hook`: `import torch` means adjoint: a finder which comes before all others, and knows `torch` and what is
  below it.
- `script_runner`: Run a program as Python itself would: its `__main__`, `sys.argv`, `sys.path`, and tracebacks that
  begin in it.
- `spawn_child`: The program's main module in a process that `multiprocessing` spawned: `import torch` is adjoint's
  there too.
"""

from __future__ import annotations

from adjoint.compat.run.import_hook import stand_in

__all__ = ["stand_in"]
