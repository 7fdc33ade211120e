"""An op: its value, its gradient rules, and what a call of one does.

Modules, in reading order:

- `matmul_precision`: How precise the products of float32 matrices are in compiled programs.
- `signature`: The names of a function's parameters, read from its code: `inspect.signature` would slow the import by
  a fifth.
- `spec`: Shape and element type of an array, known without computing it.
- `eager_kernels`: The slot through which NumPy code reaches compiled kernels, without knowing who compiles them.
- `op`: An op: a NumPy function, and what is declared of it: gradient rules, the shape of its result, how it is
  lowered.
- `op_errors`: What an op does when its NumPy function fails: the user's words for the error, or IEEE arithmetic's
  value.
- `evaluation`: The value of an op: its operands brought to one type, and its NumPy function, or a kernel, called on
  them.
- `bfloat16`: Ops on bfloat16: computed in float32 and rounded once, by the same declarations, which need not know.
- `recorder`: The last step of an op call: it wraps the result in a tensor, records a node, and registers a view.
- `apply`: What every call of an op does: evaluate, wrap, record.
- `autocast`: Mixed precision: where `autocast` is on, products take a lower precision, and what is sensitive takes
  float32.
- `unary_call`: The call of an op with one input, and parameters, written out as those of `families` are.
- `families`: The families of ops.
"""
