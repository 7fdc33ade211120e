"""Element types, their limits, and devices.

Modules, in reading order:

- `device`: Devices: tensors live on the CPU.
- `dtype`: Element types under PyTorch's names, and its rules of type promotion.
- `dtype_info`: The limits of element types: `finfo` and `iinfo`.
"""
