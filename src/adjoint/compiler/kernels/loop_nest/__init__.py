"""Loop nests: elementwise equations and folds.

Modules, in reading order:

- `accumulators`: The accumulators of a kernel's folds: where they start, how they take in a value, how they end.
- `iteration_space`: The iteration space of a loop nest: which loops there are, and how far each access steps in each.
- `reduction_stages`: The stages of a loop nest with folds: a fold that needs another's result waits for it, and the
  loops run once more.
- `loop_nest`: The loop-nest kernel: any tree of elementwise equations and folds, in explicit vectors.
- `tiling`: The division of a loop nest: lanes of its innermost loop, squares of reads across it, tiles of its
  outermost loop.
- `size_questions`: Questions about symbolic sizes whose answers decide how a kernel is written: it is written once
  for each.
- `sum_order`: The order in which a loop nest folds: over how many lanes, in which blocks, and how many registers hold
  a row.
"""
