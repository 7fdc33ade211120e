"""An op: its value, its gradient rules, and what a call of one does.

Modules, in reading order:

- `matmul_precision`: The precision of float32 matrix products in compiled programs.
- `signature`: Parameter names, read from a function's code object.
- `spec`: The shape and element type of an array, known without computing it.
- `eager_kernels`: Slots through which NumPy code calls compiled kernels without knowing the compiler.
- `op`: An op: a NumPy function with its gradient rules, the shape of its result, and its lowering.
- `op_errors`: Errors of an op's NumPy function: the message in the user's words, or IEEE arithmetic's value.
- `evaluation`: The value of an op: type promotion of its operands, then a call of its NumPy function or a kernel.
- `bfloat16`: Ops on bfloat16, which compute in float32 and round once.
- `recorder`: The last step of an op call: it wraps the result in a tensor, records a node, and registers a view.
- `apply`: The call of an op: evaluate, wrap, record.
- `autocast`: Automatic mixed precision: under `autocast` products take a lower precision, and sensitive functions
  float32.
- `families`: The families of ops.
- `op_timer`: The timer of a profile, as ops, optimizers and compiled steps see it: what they tell it.
- `elementwise_composite`: Functions of single elements that are composed of ops: in eager mode each is one op and one
  kernel.
- `elementwise_kernels`: Kernels for functions of single elements: native code for arrays of any shape, made once for
  each set of numbers.
- `thread_crew`: Threads of Python that share the parts of one eager call: nobody waits for one that has taken none.
- `call_template`: The call of an op with a fixed number of inputs and with parameters, written out like those of
  `families`.
- `movement_call`: The call of an op that moves elements, written out like those of `families`: a view costs little
  more than NumPy's.
- `view_replay`: Repeated calls of functions that make views: they take the step that the first such call led to.
"""
