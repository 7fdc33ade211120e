"""Rewrite rules: each a Python function that yields an expression, and then another of equal value, to the last bit.

Modules, in reading order:

- `algebra`: Identities of arithmetic that hold to the last bit, for NaN, infinities and signed zeros too.
- `casting`: Changes of type that can be left out, or made earlier, without changing a bit.
- `movement`: Movements that do nothing, and neighbours of which one is enough.
- `gather_row`: One element of each row, and writing to one: a comparison of every position with the index, which
  fuses with what makes the row or reads it, where `gather` and `scatter_add` would have it in memory.
- `logic`: Identities of truths and of choosing by them.
"""
