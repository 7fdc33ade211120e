"""Tracing: a call of the user's step becomes a graph, with the facts that it rests on.

Modules, in reading order:

- `batch_sizes`: Leading (batch) sizes of the arguments: which are worth a program of their own.
- `frames`: What a step reads from Python, and what it writes there, observed while it is traced.
- `signature`: Which program a call wants: the signature of its arguments, and what of them each call brings anew.
- `symbolic_number`: Python numbers that may differ from call to call: a step does arithmetic with them, and the
  program does it again.
- `symbolic_strides`: How traced tensors would lie in memory if the step ran eagerly: what tells a view from a copy.
- `untraced`: Parts of a trace that run nothing of the user's: the witness is not told of their calls, as that takes
  its time.
- `guards`: The facts on which a program relies, each with its test in generated code, and what to say when it has
  changed.
- `recompilation`: Why a function was traced again: what differed from the programs that were there.
- `step_outputs`: What a traced step leaves behind: its results, the state it wrote, the gradients it set, the facts
  it relied on.
- `symbolic_mutation`: What an in-place write does to symbols: each tensor that sees the memory stands for its part of
  the new value.
- `tracer`: Running a step once on symbols: what it computes becomes a graph, what it touches becomes state.
"""
