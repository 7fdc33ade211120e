"""PyTorch's modules that have no counterpart here, as far as programs ask them.

Modules, in reading order:

- `autograd`: Older names of `torch.autograd`: `Variable`, and how PyTorch's internals preserve versions of tensors.
- `c_module`: `adjoint._C`: names of PyTorch's C++ part and of its dispatcher that programs use to register ops.
- `devices`: Accelerators, of which there are none: questions have answers, orders raise.
- `distributed`: `adjoint.distributed`: the group of processes that a program is part of, which has one member here.
- `dynamo`: `adjoint._dynamo`: PyTorch's tracer, where programs set it up.
- `functorch`: Modules apart from their parameters, as tuples: the names by which programs written for functorch know
  them.
- `futures`: `adjoint.futures`: results that come later, which a thread gives and others wait for.
- `hub`: `adjoint.hub`: files of parameters that PyTorch has downloaded before.
- `internal_utils`: `adjoint._utils`: PyTorch's private functions of lists of tensors, and those that pickles call to
  rebuild tensors.
- `multiprocessing`: `adjoint.multiprocessing`: Python's, whose queues and processes take tensors.
- `nn`: Parts of `torch.nn` that exist for programs alone.
- `pytree`: `adjoint.utils._pytree`: nests of lists, tuples and dicts as trees, under the names by which programs
  import them.
- `random`: `adjoint.random`: the default generator's functions under the name of their module.
- `sparse_adam`: SparseAdam, for gradients that name few of a parameter's rows: there are none such here.
- `utils`: Parts of `torch.utils` that exist for programs alone.
- `version`: `adjoint.version` and `adjoint.__config__`: the version of PyTorch that is followed, and how adjoint was
  built.
- `jit`: `adjoint.jit`: PyTorch's compiler of a part of Python.
- `annotations`: Names of types that programs annotate with: `adjoint.types`, `adjoint.nn.common_types`,
  `adjoint.jit.annotations`.
"""
