"""Interoperation with other libraries: NumPy, DLPack, the array API standard, einops.

Modules, in reading order:

- `array_api`: `adjoint.interop.array_api`: the array API standard 2024.12, on differentiable functions.
- `einops`: einops on tensors: `einops.rearrange(tensor, …)` works as it stands, and the layers are modules.
- `numpy`: NumPy's protocols: its ufuncs and functions called with tensors.
- `protocols`: Implementation of the protocols that tensors offer other libraries (`core/tensor/protocols.py`).
- `onnx`: `adjoint.onnx`: models as ONNX files, for runtimes of other languages and devices.
"""
