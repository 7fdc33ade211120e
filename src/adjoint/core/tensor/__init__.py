"""A tensor: its memory, its views, its versions, and how it prints.

Modules, in reading order:

- `as_strided`: Arrays of any strides over the memory of another, overlapping ones included, which NumPy's views
  cannot express.
- `detach_record`: The record of the line at which a tensor lost its history, which `why_no_grad` shows.
- `memory_format`: Layouts and memory formats under PyTorch's names.
- `protocols`: Protocols of other libraries that a tensor implements: NumPy's, the array API standard's, DLPack's.
- `size`: The shape of a tensor: a tuple that knows its number of elements.
- `torch_function`: PyTorch's protocol `__torch_function__`: subclasses of Tensor, and modes, that see the calls of
  public functions.
- `construction`: Conversion of Python data to an array that a tensor can hold.
- `mutation_log`: The log of in-place writes: the memory, the sequence number of the next node, and the line.
- `data_access`: Access to a tensor's values: as an ndarray, as Python numbers.
- `storage`: Memory that several tensors share: its version, and how each tensor views it.
- `autograd_meta`: A tensor's autograd fields: `requires_grad`, `grad`, `grad_fn`, and its view base.
- `external_aliases`: Memory that NumPy arrays outside the library share, through which anybody may write it.
- `meta`: Tensors of the device "meta": shape and type, no memory and no values.
- `printing`: The printed form of a tensor, which is PyTorch's: `tensor([1.0000, 2.5000], requires_grad=True)`.
- `tensor`: The tensor: an array, and the node that made it.
- `shape_tracer`: The interpreter of the device "meta", which infers shapes and types by the specs of ops.
- `sparse_array`: The array of a sparse tensor, which is a sparse gradient in the backward walk too: values, and where
  they stand.
"""
