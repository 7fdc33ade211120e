"""Passes: from a graph to a better graph, and to the plan of its kernels and its memory.

Modules, in reading order:

- `checkpoint`: Checkpoints in a graph: what their gradient needs of them is computed again, from what went into them.
- `constant_folding`: Constant folding: equations of constants are computed at once, and values that repeat one number
  are literals.
- `fusion_group`: Groups: equations that run together, what they need, and an order in which they can run.
- `index_checks`: Checks of indices that nothing has checked yet: where NumPy would raise, native code would read
  something else.
- `materialize`: Deciding what lies in memory: movements become views, and copies are put where a view cannot say it.
- `memory_plan`: The memory plan: a place in one aligned arena for every intermediate value, shared by those never
  needed at once.
- `pattern`: Patterns: the first half of a rule, traced once into ops with holes, is looked for among the step's
  equations.
- `rewriter`: A graph under construction: what becomes of each equation by the rules, by what is known and what is
  there.
- `fusion`: Fusion: the groups of equations that are computed in one kernel each, with nothing stored between.
- `partition`: The partition of a step whose `backward()` is called outside: its gradient, and the cut between two
  programs.
- `rules`: Rewrite rules: each a Python function that yields an expression, and then another of equal value, to the
  last bit.
- `cost_model`: The cost model: bytes and operations of equations and groups, and when to compute a value again.
- `rematerialize`: Rematerialisation: values of the forward pass that backward computes again from less memory.
- `inline_producers`: Inlining of producers: cheap values are computed by each kernel that reads them, instead of
  being stored.
- `simplify`: Simplification: rules applied, constants folded, equal equations shared, dead ones removed.
- `fusion_rules`: Fusion's rules: when an equation can join a group, when two groups can be one kernel, and the reason
  if not.
- `regrouping`: The groups of a long program after inlining: each takes in the copies that it reads.
- `loops`: Loops that Python unrolled into a traced graph: found again, and planned by a few of their turns.
- `rewrites`: Rewrites of whole expressions, which no rule of one equation and its operands can say.
"""
