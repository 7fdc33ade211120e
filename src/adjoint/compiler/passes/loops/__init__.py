"""Loops that Python unrolled into a traced graph: found again, and planned by a few of their turns.

Modules, in reading order:

- `equation_kinds`: The kind of an equation, which the turns of a loop share, and the places in its parameters, in
  which they differ.
- `plan_extension`: The plan of an unrolled loop, told by the plans of the same loop with few turns.
- `plan_rows`: A plan as rows: a group with its kernel is one, and so can be made again of other values.
- `repeated_rows`: Rows that repeat: the turns of a loop in a list of equations or of groups.
- `unrolled_loop`: The loop that a traced graph has unrolled, and the same program with fewer turns.
"""
