"""Diagnosis: what is wrong with a program, told by its lines and the user's names.

Modules, in reading order:

- `call_stack`: The user's frames, of calls that run and of calls that an error has ended.
- `callbacks`: Functions of the user's that the library calls: hooks, closures, methods of data sets and of custom
  functions.
- `error_explanation`: Notes on errors: the user's line, its operands with the lines that made them, and what to do.
- `failure`: A call that failed: the error, the user's line, its operands, and the module in which it failed.
- `operands`: Values of the user's frames: the names for them, and the lines that made them.
- `remedies`: Remedies: for each kind of error, what the user can write instead.
- `source_expressions`: Expressions of a program's source, found from frames: what a line calls, and where a name was
  given its value.
- `doctor`: `ad.doctor`: watches the first training steps of a program, and reports what is silently wrong.
- `findings`: Findings of `ad.doctor`: what is wrong, the line to blame, the name, the number, and what to do.
- `rules`: Rules of `ad.doctor`: each sees the events of a watched program, and names one kind of mistake.
- `rule_order`: The rules of `ad.doctor`, in the order in which they see what a program does.
- `watch`: The watch of a running program: its events, the facts they give, and the hooks that catch them.
- `displays`: Displays of tensors and modules in notebooks.
- `visualization`: Pictures of what runs: the graphs of tensors and models.
- `output_layer`: The layer that gives a model's result, found in the source of its `forward` and `__init__`.
- `repairs`: Repairs: edits of the user's expression that were carried out on copies of its values, and did not fail.
- `line_operands`: Operands of the line that failed: the parts of its expression, and what slices and batches were
  made of.
- `causes`: Causes: the line to blame for an error, where it is not the line that raised it.
- `former_values`: The statement that gave a name its value, where several give it one: turns of loops, and kinds of
  values.
- `flow_rules`: The rules on what values are computed from, in their order.
"""
