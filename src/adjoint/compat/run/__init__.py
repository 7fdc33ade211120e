"""PyTorch programs on adjoint, unmodified: `python -m adjoint.run script.py args…`, and `stand_in()` from Python.

Nothing is installed and nothing is written: `import torch` means adjoint in this process, and in those that it starts
with `multiprocessing`.

Modules, in reading order:

- `foreign_torch_function`: Overrides by classes that are not tensors: once one defines `__torch_function__`,
  functions and methods ask it.
- `missing_names`: Errors for names of `torch` that are absent: the name, the line that asked, and where to read on.
- `version`: Version of PyTorch that programs read and compare.
- `import_hook`: The import hook that makes `import torch` mean adjoint: a finder of `torch` and its submodules,
  before all others.
- `script_runner`: Runner of programs: `__main__`, `sys.argv`, `sys.path` and tracebacks are as Python itself would
  make them.
- `spawn_child`: Main module of a process that `multiprocessing` spawned, in which `import torch` means adjoint too.
"""

from __future__ import annotations

from adjoint.compat.run.import_hook import stand_in

__all__ = ["stand_in"]
