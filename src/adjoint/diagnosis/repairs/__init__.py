"""Repairs: edits of the user's expression that were carried out on copies of its values, and did not fail.

Modules, in reading order:

- `trial`: Trials of expressions: the user's expression is carried out again, on copies, as it stands and as it could
  stand.
- `edits`: Edits of an expression, each a way in which users mend its kind of mistake, in the order in which they are
  tried.
- `calls`: Edits of calls, attributes and items: other arguments, other functions, methods of another name.
- `conversions`: Edits that give a part of an expression as another kind of value.
- `expression`: Expressions of a trial: edits of their parts, their text, and what statements do as expressions.
- `reshapes`: Edits that give tensors of an expression in other shapes, or dimensions by other numbers.
- `sequences`: Edits of sequences of numbers and of indices: one more, one less, or one of another size.
- `following`: Statements after the one that failed, carried out on copies too: what a changed expression gives is to
  suit them.
- `refutation`: Refutation of advice: what it tells to write, or the line with it, fails on copies of the frame's
  values.
- `orders`: Orders of dimensions: the one in which a part of the failing line, and the statements after it, run.
"""
