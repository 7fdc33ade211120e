"""Steps as libraries for programs in C, and for NumPy alone.

Modules, in reading order:

- `interface_text`: The texts beside a library: its header for C, and its loader for NumPy.
- `step_library`: A step as a library: an object file or a shared object, a header for C, and a loader for NumPy.
"""
