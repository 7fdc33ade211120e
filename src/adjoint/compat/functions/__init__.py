"""PyTorch's functions and methods that other functions here do better.

Modules, in reading order:

- `as_subclass`: Conversion of tensors to a subclass, over the same memory, with or without history.
- `checks`: Checks of conditions, each of which raises its kind of error.
- `copy_variants`: Copies where other functions return views or write in place: `view_copy`, `fill`.
- `foreach`: Functions of lists of tensors, such as `_foreach_add_(params, grads, alpha=-0.1)` in optimizers.
- `legacy_types`: Older names of dtypes and constructors: `FloatTensor`, `Tensor.type`, `Tensor.new`.
- `removed`: Functions that PyTorch has removed: they raise, as there, and name the replacement.
- `sym_int`: Arithmetic of sizes, which PyTorch's tracer may not know yet: here they are Python numbers.
- `tensor_queries`: Queries of a tensor's device, layout and memory: there is no device but the CPU, and no layout but
  strides.
- `torch_signatures`: Functions of the top level whose arguments PyTorch orders otherwise than in `nn.functional`.
- `settings`: Settings of PyTorch: here the device is the CPU, and results have the same bits each time.
- `torchvision_ops`: Operators of torchvision's compiled library, `torch.ops.torchvision`: boxes, pooled regions,
  deformed convolution.
- `torchaudio_ops`: Operators of torchaudio's compiled library, `torch.ops.torchaudio`: recursive filters, alignment,
  transducer loss.
"""
