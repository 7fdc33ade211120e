"""Whole programs: their training regions are found, rewritten and compiled; a function of a script is explained.

Modules, in reading order:

- `compile_all`: `compile_all`: the training regions of whole programs are compiled, without a decorator.
- `explain_script`: Explain a function of a script: run the script until it has called the function, then print its
  program.
- `name_uses`: Names that statements read and write, as far as their enclosing function sees them.
- `region_finder`: Training regions: the statements of a loop or function from the forward pass to the optimizer's
  step.
- `region_rewriter`: Rewriter of a module's syntax tree: each training region becomes a call of a function that holds
  its statements.
- `training_region`: A training region of a running program: observed eagerly, then compiled.
- `region_times`: Times of a training region's calls, eager and compiled, and the decision to leave it to the eager
  run.
- `region_binding`: Compiled functions of a training region, bound to the objects that its calls have in common.
- `loop_outline`: Outlines of loops: which statements of a loop's body become functions of their own, that are
  compiled apart.
- `outlined_loop`: A function whose loop grows, as it runs from then on: in Python, but for regions that are compiled
  functions.
- `parameter_loops`: Loops that write parameters without gradients: averages of weights, soft updates of target
  networks.
- `region_start`: The start of a training region, ahead of its forward pass: with `zero_grad()`, if nothing between
  does more.
- `region_syntax`: Statements of a program that may become a training region: blocks, what may leave its function, and
  the names.
- `region_tail`: The end of a training region: metrics behind the update go in.
- `deferred_calls`: Calls by which a training region only keeps books: they go behind it, and what they are given is
  computed within.
- `taken_containers`: Lists, dicts and objects that a compiled function takes, and may change: a trace works on copies
  of them.
"""
