"""Element types, their limits, and devices.

Modules, in reading order:

- `device`: Where a tensor lives: the CPU, and nothing else.
- `dtype`: Element types, under PyTorch's names, and its rules for which type a mixed expression gets.
- `dtype_info`: The limits of element types: `finfo` and `iinfo`.
"""
