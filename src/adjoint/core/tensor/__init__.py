"""A tensor: its memory, its views, its versions, and how it prints.

Modules, in reading order:

- `as_strided`: An array of any strides over the memory of another: what NumPy's own views cannot say, overlapping
  ones too.
- `detach_record`: Where a tensor lost its history: kept by the tensor itself, for those who ask why it has no
  gradient.
- `memory_format`: How elements lie in memory, as programs name it: kept because they pass these values on.
- `protocols`: What other libraries ask a tensor: NumPy's protocols, the array API standard's, DLPack's.
- `size`: The shape of a tensor as people read it: a tuple that knows its number of elements.
- `torch_function`: PyTorch's protocol `__torch_function__`: subclasses of Tensor, and modes, that see the calls of
  public functions.
- `construction`: From Python data to an array that a tensor can hold.
- `mutation_log`: In-place writes: into which memory, when in the order of the nodes, and from which line.
- `data_access`: Reading a tensor's values out: as an ndarray, as Python numbers.
- `storage`: Memory that several tensors see: how often it was written in place, and how each tensor came to see it.
- `autograd_meta`: What a tensor has to do with gradients: whether it wants one, what it got, who made it, and what it
  is a view of.
- `external_aliases`: Memory that NumPy arrays outside of the library see too, and that anybody may write through
  them.
- `meta`: Tensors of the device "meta": shape and type, no memory and no values.
- `printing`: How a tensor prints: PyTorch's form, `tensor([1.0000, 2.5000], requires_grad=True)`.
- `tensor`: The tensor: an array, and the node that made it.
- `shape_tracer`: The tracer of the device "meta": it works out shapes and types by the specs of ops, as where a step
  is traced.
"""
