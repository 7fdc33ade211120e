"""The watch of a running program: its events, the facts they give, and the hooks that catch them.

Modules, in reading order:

- `events`: Events of a watched program: calls of modules, cuts of the graph, backward passes, steps of optimizers.
- `facts`: Facts about a watched program that all rules may read.
- `names`: The user's names of modules, parameters and optimizers, and the lines that made them.
- `op_observer`: The observer of ops: the value of a thread's `mode.anomaly_detector` while a program is watched.
- `rule`: Base of rules: functions of what a watched program does, which add findings to the report.
- `watch`: The watch of a program: hooks that turn what it does into events of rules, and are all removed at its end.
- `patches`: Replaced attributes of classes and modules, which all get their former values again.
- `frames`: Expressions and names of frames that run: what explains errors, for a program that goes on.
- `library_calls`: Calls of losses and of attention, with their arguments: found from the ops that they consist of.
- `value_flow`: The origins of values: the ops of the first passes with their operands, those of data too, which no
  node records.
- `containers`: Containers that keep a tensor alive, and the names under which a program holds them.
- `source_lines`: Lines of a program's text: its calls, what it sets, and the blocks around a line.
"""
