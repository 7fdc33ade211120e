"""Questions that a traced step asks of its call, calls that it has others make, and their outcomes.

Modules, in reading order:

- `host_calls`: Calls outside of a step's graph: what becomes arithmetic of the program, and what each call makes
  anew.
- `step_events`: Events of a step in each call, in the program's order: decisions by a value, and calls outside of the
  graph.
- `traced_values`: The values that symbols have in the call that is traced: computed by NumPy where the step's Python
  asks for one.
- `host_arrays`: Arrays of NumPy's that a traced step computes on: each call of the step makes NumPy's calls with its
  own values.
- `shown_history`: The history of a tensor that a step hands to a call outside of it: to be looked at, since it leads
  nowhere.
- `loop_watch`: Loops whose turns are alike, perhaps but for sizes, found while a step is traced: a cache grows token
  by token.
"""
