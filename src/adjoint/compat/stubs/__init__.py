"""Stand-ins for modules of PyTorch without a counterpart here.

Modules, in reading order:

- `autograd`: Older names of `torch.autograd`: `Variable`, and how PyTorch's internals preserve versions of tensors.
- `c_module`: `adjoint._C`: names of PyTorch's C++ part and of its dispatcher that programs use to register ops.
- `devices`: Stand-ins for devices: accelerators are absent, so questions have answers and orders raise.
- `dynamo`: `adjoint._dynamo`: settings of PyTorch's tracer, of which `adjoint.compile` needs none.
- `functorch`: Modules separated from their parameters, under the names of functorch.
- `futures`: `adjoint.futures`: results that one thread sets and others wait for.
- `hub`: `adjoint.hub`: files of parameters that PyTorch has downloaded.
- `internal_utils`: `adjoint._utils`: PyTorch's private functions of lists of tensors, and those that pickles call to
  rebuild tensors.
- `multiprocessing`: `adjoint.multiprocessing`: Python's, whose queues and processes take tensors.
- `nn`: Stand-ins for parts of `torch.nn`.
- `pytree`: `adjoint.utils._pytree`, and `adjoint.fx._pytree`: nested lists, tuples and dicts as trees.
- `random`: `adjoint.random`: functions of the default generator.
- `utils`: Stand-ins for parts of `torch.utils`.
- `version`: `adjoint.version` and `adjoint.__config__`: the version of PyTorch that is followed, and how adjoint was
  built.
- `jit`: `adjoint.jit`: PyTorch's compiler of a subset of Python.
- `annotations`: Names of types that programs annotate with: `adjoint.types`, `adjoint.nn.common_types`,
  `adjoint.jit.annotations`.
- `optimizers`: PyTorch's optimizers as functions of lists of tensors, and the private functions that other optimizers
  are built on.
- `private_functions`: Private functions of `torch`, `torch._VF` and others that packages call: each by the public one
  that does it.
"""
