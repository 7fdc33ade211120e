"""PyTorch's names that nothing else here needs, from one table; only the top imports this package.

Modules, in reading order:

- `module_alias`: Modules without files: aliases of other modules under PyTorch's name, and absent parts of PyTorch.
- `namespace`: Table of PyTorch's names and their homes here, from which `compat` makes modules without files.
- `renamed_modules`: Modules of version 0.1 that have other names now: pickles and checkpoints written then name them.
- `torch_function`: `adjoint.overrides`: PyTorch's protocol `__torch_function__`, by which classes override functions
  of tensors.
- `unsupported_dtypes`: Dtypes of PyTorch that no tensor can have here: they can be named, compared and stored in
  tables.
- `absent_device`: Functions of an absent device: questions have answers, orders and handles raise.
- `finder`: Finder that serves `compat.namespace`: `import adjoint.nn.utils.rnn` and `adjoint.nn.utils.rnn` find its
  rows.
- `functions`: PyTorch's functions and methods that other functions here do better.
- `run`: PyTorch programs on adjoint, unmodified: `python -m adjoint.run script.py args…`, and `stand_in()` from
  Python.
- `stubs`: Stand-ins for modules of PyTorch without a counterpart here.
- `lazy_table`: Names of adjoint.compat that load their modules on demand: made by tools/lazy_names.py, not to be
  edited.
- `fx`: `adjoint.fx`, which is `torch.fx`: functions and modules as graphs of calls that can be read and changed.
- `overridable_functions`: Tables of the functions that `__torch_function__` overrides, as `adjoint.overrides` gives
  them to programs.
- `distributed_names`: Table of the names below PyTorch's `torch.distributed` and their homes here, in the form of
  `namespace`.
"""
