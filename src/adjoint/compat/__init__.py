"""What exists only for the sake of PyTorch's names, from one table of them: nothing but the top imports it.

Modules, in reading order:

- `module_alias`: Modules that are no files: PyTorch's name of a module whose contents live elsewhere, and a part that
  is absent.
- `namespace`: PyTorch's names and where each is here: the one table from which `compat` makes modules that are no
  files.
- `renamed_modules`: Modules of version 0.1 that have other names now: pickles and checkpoints written then name them.
- `torch_function`: `adjoint.overrides`: other classes' answer to functions of tensors, PyTorch's protocol
  `__torch_function__`.
- `unsupported_dtypes`: Element types that PyTorch has and no tensor can hold here: they can be named, compared and
  put in tables.
- `absent_device`: Functions of a device that is not there: questions have answers, orders and handles raise.
- `finder`: The finder that serves `compat.namespace`: `import adjoint.nn.utils.rnn` and `adjoint.nn.utils.rnn` find
  its rows.
- `functions`: PyTorch's functions and methods that other functions here do better.
- `run`: PyTorch programs on adjoint, unmodified: `python -m adjoint.run script.py args…`, and `stand_in()` from
  Python.
- `stubs`: PyTorch's modules that have no counterpart here, as far as programs ask them.
- `lazy_table`: Names of adjoint.compat that load their modules on demand: made by tools/lazy_names.py, not to be
  edited.
"""
