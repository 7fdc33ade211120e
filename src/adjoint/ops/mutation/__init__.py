"""Writes into tensors and into views of them.

Modules, in reading order:

- `view_update`: Replacement of a part of an array: the whole after a write through a view or `x[index] = value`.
- `inplace`: Writing into a tensor: the second half of every op whose name ends in an underscore.
- `view_slice`: A view as one slice of its base: its steps in one, so that a write to it is one write to a part of the
  base.
"""
