"""Compiled steps that leave this process: WebAssembly modules, and libraries for programs in C.

Modules, in reading order:

- `entry_function`: The function that runs an exported step: LLVM assembly that calls its kernels in order, with
  constant tables.
- `exported_step`: The step that is exported: what it takes, gives and holds, and where.
- `memory_image`: The memory of an exported step: each value lies in it as it does in this process, relative to its
  neighbours.
- `targets`: The machines that steps are exported to: their names, and the code generator for each.
- `wasm`: Steps as WebAssembly.
- `native`: Steps as libraries for programs in C, and for NumPy alone.
"""
