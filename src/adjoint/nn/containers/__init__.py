"""Containers of modules and of parameters.

Modules, in reading order:

- `containers`: Modules held in sequence or by key.
- `parameter_list`: Parameters held in sequence.
- `parameter_dict`: Parameters held by key.
"""
