"""Tracing: a call of the user's step becomes a graph, with the facts that it rests on.

Modules, in reading order:

- `frames`: The frame observer: a step's reads and writes of Python objects, seen while it is traced.
- `signature`: The signature of a call's arguments, which selects its program, and the arguments that each call brings
  anew.
- `symbolic_strides`: The strides that traced tensors would have if the step ran eagerly, which tell a view from a
  copy.
- `untraced`: Parts of a trace that run nothing of the user's to be observed: the observer does not follow their
  calls.
- `guards`: The facts on which a program relies, each with its test in generated code, and what to say when it has
  changed.
- `recompilation`: Why a function was traced again: what differed from the programs that were there.
- `step_outputs`: The outputs of a traced step: its results, the state it wrote, the gradients it set, the facts it
  relied on.
- `symbolic_mutation`: In-place writes on symbols: each tensor that sees the memory stands for its part of the new
  value.
- `tracer`: Running a step once on symbols: what it computes becomes a graph, what it touches becomes state.
- `result_table`: The tensors that leave a traced step: made by each call, handed on, or sharing the memory of one of
  these.
- `step_memory`: The memory of the tensors that a step finds: which it replaces, and how often it writes what it
  finds.
- `checkpoint_blocks`: Checkpoints in a traced step: which equations backward computes again, and a second call of the
  function.
- `constant_values`: Values that are the same in each call while what a step captured is: masks and positions from
  before the step.
- `suspension`: Signal handlers that interrupt a trace: nothing of them is traced, and they see all as it was before
  the step.
- `equation_origins`: Origins of the equations of a traced step: the user's line, the module that runs, the op whose
  gradient it is.
- `events`: Questions that a traced step asks of its call, calls that it has others make, and their outcomes.
- `call_specs`: The shape and type of what an op call gives, told from its operands: once for calls that are alike.
- `sizes`: Sizes of arguments that differ from call to call: as symbols of one program, or as programs of their own.
- `numbers`: Python numbers that differ from call to call: their arithmetic, the tensors made of them, the texts that
  show them.
"""
