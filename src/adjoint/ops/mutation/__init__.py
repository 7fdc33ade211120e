"""Writes into tensors and into views of them.

Modules, in reading order:

- `view_update`: Replacing a part of an array: what a write through a view, or `x[index] = value`, makes of the whole.
- `inplace`: Writing into a tensor: the second half of every op whose name ends in an underscore.
"""
