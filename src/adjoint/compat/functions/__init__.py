"""PyTorch's functions and methods that other functions here do better.

Modules, in reading order:

- `as_subclass`: Tensors as instances of a subclass: the same memory, and the history or none.
- `checks`: Conditions that programs state: each raises an error of its kind where they do not hold.
- `copy_variants`: Views in memory of their own, and new tensors where other functions write in place.
- `foreach`: Functions of lists of tensors, with a result for each: `_foreach_add_(params, grads, alpha=-0.1)` of
  optimizers.
- `legacy_types`: Older ways to name a type and to make a tensor: `FloatTensor`, `Tensor.type`, `Tensor.new`.
- `removed`: Functions that PyTorch once had: they raise, as there, and say what to call.
- `sym_int`: Arithmetic of sizes, which PyTorch's tracer may not know yet: here they are Python numbers.
- `tensor_queries`: What a tensor says of itself, and what the library's is not: no device but the CPU, no layout but
  strides.
- `torch_signatures`: Layers as functions of the top level, where PyTorch orders the arguments otherwise.
- `settings`: Settings that programs make for PyTorch: here the device is the CPU, and results have the same bits each
  time.
"""
