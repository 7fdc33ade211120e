"""How other libraries work with tensors: NumPy, DLPack, the array API standard, einops.

Modules, in reading order:

- `array_api`: `adjoint.interop.array_api`: the array API standard 2024.12, on differentiable functions.
- `einops`: einops on tensors: `einops.rearrange(tensor, …)` works as it stands, and the layers are modules.
- `numpy`: NumPy's protocols: its ufuncs and functions called with tensors.
- `protocols`: The answers to what other libraries ask a tensor (`core/tensor/protocols.py`).
"""
