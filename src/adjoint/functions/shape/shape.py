"""Other shapes and orders for the same elements; views wherever the memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from numpy import ndarray

from adjoint.core.dtype.dtype import as_dtype
from adjoint.core.dtype.dtype import dtype as DType
from adjoint.core.op.spec import broadcast_shapes as _broadcast_shapes
from adjoint.core.op.view_replay import replay_views
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.as_strided import try_view
from adjoint.core.tensor.memory_format import contiguous_format, memory_format
from adjoint.core.tensor.size import Size, as_size
from adjoint.core.tensor.storage import View
from adjoint.core.tensor.tensor import Tensor, detach, strided_stand_in
from adjoint.core.typing import DtypeLike, Operand, Operands, Shape, ShapeLike
from adjoint.functions.api.dim_args import Dims, one_dim, parse_shape, some_dims
from adjoint.functions.api.memory_format import dim_order_for_copy
from adjoint.functions.api.publish import public, rename_node
from adjoint.ops.elementwise import select as selection
from adjoint.ops.movement import movement
from adjoint.ops.movement.memory_format import copy_in_order

__all__ = [
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "flatten", "moveaxis", "movedim", "narrow", "permute",
    "ravel", "reshape", "select", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unflatten", "unsqueeze",
]  # fmt: skip


@lru_cache(512)
def _infer_size(shape: Shape, count: int) -> tuple[int, ...]:
    """Return `shape` with its one -1 computed. Raises RuntimeError if `count` elements do not fit it."""
    if -1 in shape:
        if shape.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        known = -movement.numel(shape)
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
        if known > 0 and count % known == 0:
            return tuple([count // known if n == -1 else n for n in shape])
    elif movement.numel(shape) == count and all(n >= 0 for n in shape):
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")


@public(varargs_ints=True, view=True)
def reshape(input: Tensor, shape: Any) -> Tensor:
    """Return the elements in row-major order under another shape.

    The result is a view of `input` where the memory allows one, else a copy.

    Args:
        input: tensor.
        shape: sizes, one by one or as a tuple; one of them may be -1 and is computed from the others.

    Raises: RuntimeError if the number of elements does not fit.

    Example:
        >>> ad.reshape(ad.arange(6), (2, -1))
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    array = input.array
    count = array.size if type(array) is ndarray else movement.numel(array.shape)
    return movement.reshape(input, shape=_infer_size(shape, count))


def _view(self: Tensor, shape: Shape) -> Tensor:
    array = self.array
    lies = strided_stand_in(self)
    target = _infer_size(shape, movement.numel(array.shape))
    tracer = mode.interpreter
    can_view = lies.flags.c_contiguous or (
        try_view(lies, target) is not None if tracer is None else tracer.can_view_as(self, target)
    )
    if not can_view:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return movement.reshape(self, shape=target)


def _view_as_dtype(input: Tensor, dtype: DType) -> Tensor:
    """Return the memory of `input` as elements of `dtype`, in as many bytes: no gradient flows through it.

    If the sizes differ, the last dimension grows or shrinks. Raises RuntimeError if that cannot be.
    """
    from adjoint.ops.movement.as_strided import geometry_of
    from adjoint.ops.movement.memory_format import reinterpret  # few programs need it

    old, new = input.element_size(), dtype.numpy.itemsize
    if old != new:
        _check_view_sizes(input, dtype, old, new, geometry_of(input)[1])
    return reinterpret(detach(input), dtype=dtype.numpy)


def _check_view_sizes(input: Tensor, dtype: DType, old: int, new: int, start: int) -> None:
    """Raise RuntimeError unless rows of elements of `old` bytes are rows of elements of `new` bytes too."""
    named = f"to view {input.dtype.name} as {dtype.name} (different element sizes)"
    steps = input.stride()
    if not input.array.shape:
        raise RuntimeError(f"self.dim() cannot be 0 {named}")
    if steps[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {named}, but got {steps[-1]}")
    ratio, width = max(new // old, 1), input.array.shape[-1]
    if width % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {named}, but got {width}")
    if start % ratio:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {named}, but got {start}")
    for d, stride in enumerate(steps[:-1]):
        if stride % ratio:
            raise RuntimeError(f"self.stride({d}) must be divisible by {ratio} {named}, but got {stride}")


@public(varargs_ints=True, overload=((DType, type), lambda x, kind: _view_as_dtype(x, as_dtype(kind))), view=True)
def view(self: Tensor, shape: Any, *, dtype: DtypeLike = None) -> Tensor:
    """Return the same memory under another shape, or as another dtype.

    Args:
        shape: sizes, one by one or as a tuple; one of them may be -1. A dtype in its place reads the same bits anew.
        dtype: dtype to read the bits as, given by name. Default: None.

    Raises: RuntimeError where the memory does not allow the shape without a copy; `reshape` copies then.

    Example:
        >>> x = ad.zeros(4)
        >>> x.view(2, 2)[0, 1] = 5
        >>> x
        tensor([0., 5., 0., 0.])
    """
    array = self.array
    if type(array) is ndarray and dtype is None:  # as `_view` begins
        if array.flags.c_contiguous:
            return movement.reshape(self, shape=_infer_size(shape, array.size))
        if array.size and not (nondefault.count and mode.needs_slow_path):
            out = movement.reshape(self, shape=_infer_size(shape, array.size))
            if type(out.storage_) is View:  # and no copy
                return out
    return _view(self, shape) if dtype is None else _view_as_dtype(self, as_dtype(dtype))


@public()
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `view` with the shape of `other`."""
    return view(self, other.array.shape)


@public()
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `reshape` with the shape of `other`."""
    return reshape(self, other.array.shape)


@public(view=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the tensor with dimensions `start_dim` to `end_dim` joined into one.

    Args:
        input: tensor; of a 0-d tensor the result is a vector.
        start_dim: first dimension to join. Default: 0.
        end_dim: last dimension to join, included. Default: -1.

    Raises: RuntimeError if `start_dim` comes after `end_dim`.

    Example:
        >>> ad.flatten(ad.zeros(2, 3, 4), start_dim=1).shape
        adjoint.Size([2, 12])
    """
    array = input.array
    shape = array.shape
    if start_dim == 0 and end_dim == -1 and len(shape) > 1 and type(array) is ndarray:
        return movement.reshape(input, shape=(array.size,))
    first, last = one_dim(start_dim, len(shape)), one_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return movement.reshape(input, shape=(1,))
    if first == last:
        return input
    return movement.reshape(input, shape=(*shape[:first], movement.numel(shape[first : last + 1]), *shape[last + 1 :]))


@public()
def ravel(input: Tensor) -> Tensor:
    """Return one dimension, in row-major order in memory: a view where the elements lie so, else a copy."""
    return movement.reshape(contiguous(input), shape=(input.numel(),))


@public(view=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split dimension `dim` into these `sizes`, one of which may be -1. Raises RuntimeError unless they fit."""
    if isinstance(dim, str):
        raise TypeError("unflatten(): argument 'dim' (position 1) must be int, not str")
    if isinstance(sizes, int):
        raise TypeError("unflatten(): argument 'sizes' (position 2) must be tuple of ints, not int")
    if not input.ndim:
        raise RuntimeError("unflatten: Dimension specified as 0 but tensor has no dimensions")
    d, shape = one_dim(dim, input.ndim), input.array.shape
    if not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        parts = _infer_size(tuple(sizes), shape[d])
    except RuntimeError as error:
        if tuple(sizes).count(-1) > 1:
            raise RuntimeError(f"unflatten: only one dimension can be inferred, but sizes={list(sizes)}") from error
        if -1 in sizes and 0 in sizes and not shape[d]:
            raise RuntimeError(
                f"unflatten: cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            ) from error
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({shape[d]}) in the "
            "input tensor"
        ) from error
    return movement.reshape(input, shape=(*shape[:d], *parts, *shape[d + 1 :]))


@public(varargs_ints=True, view=True)
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Return a view with the dimensions in the order `dims`.

    Dimension i of the result is dimension `dims[i]` of the input.

    Args:
        input: tensor.
        dims: every dimension once, one by one or as a tuple.

    Raises: RuntimeError unless each dimension is there once.

    Example:
        >>> ad.permute(ad.zeros(2, 3, 4), (2, 0, 1)).shape
        adjoint.Size([4, 2, 3])
    """
    if len(dims) != len(input.array.shape):
        raise RuntimeError(
            f"permute(): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    return movement.permute(input, axes=_permutation(dims))


@cache
def _permutation(dims: tuple[int, ...]) -> tuple[int, ...]:
    axes = tuple([one_dim(d, len(dims)) for d in dims])
    if len(set(axes)) != len(axes):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return axes


@public("swapaxes", "swapdims", view=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged.

    Args:
        input: tensor.
        dim0, dim1: the two dimensions, negative to count from the last.

    Example:
        >>> ad.transpose(ad.tensor([[1, 2, 3], [4, 5, 6]]), 0, 1)
        tensor([[1, 4],
                [2, 5],
                [3, 6]])
    """
    rank = len(input.array.shape)
    if not rank or type(dim0) is not int or type(dim1) is not int:
        dim0, dim1 = one_dim(dim0, rank), one_dim(dim1, rank)
    if not -rank <= dim0 < rank or not -rank <= dim1 < rank:
        one_dim(dim1 if -rank <= dim0 < rank else dim0, rank)  # which complains, but of 0 where there is none
        return movement.reshape(input, shape=())
    return movement.permute(input, axes=movement.exchange(rank, dim0, dim1), called="transpose")


swapaxes = swapdims = transpose


@public(view=True)
def t(input: Tensor) -> Tensor:
    """Return the transpose of a matrix; a vector stays. Raises RuntimeError above two dimensions."""
    rank = len(input.array.shape)
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    if rank < 2:
        return movement.reshape(input, shape=input.array.shape)
    return movement.permute(input, axes=(1, 0), called="t")


def _reverse_dims(self: Tensor) -> Tensor:
    """Return the dimensions in reverse order."""
    return movement.permute(self, axes=movement.reverse_axes(len(self.array.shape)))


def _transpose_last_two(self: Tensor) -> Tensor:
    """Return the last two dimensions exchanged; a number itself. Raises RuntimeError for a vector."""
    rank = len(self.array.shape)
    if rank == 1:
        raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return movement.permute(self, axes=movement.exchange(rank, -2, -1), called="transpose") if rank else self


for _name, _of in {"T": _reverse_dims, "mT": _transpose_last_two}.items():
    setattr(Tensor, _name, property(replay_views(_of, False)))


@public(view=True)
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move dimensions `source` to `destination`; the others keep their order. Raises RuntimeError for repeats."""
    froms, tos = ((v,) if isinstance(v, int) else tuple(v) for v in (source, destination))
    return movement.permute(input, axes=_find_moved_axes(len(input.array.shape), froms, tos))


@lru_cache(256)
def _find_moved_axes(rank: int, froms: Shape, tos: Shape) -> tuple[int, ...]:
    """Return the order of dimensions in which those of `froms` stand at `tos`."""
    if len(froms) != len(tos):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({[*froms]} dims) should contain the same number "
            f"of dims as destination ({[*tos]} dims)"
        )
    sources, targets = ([one_dim(d, rank) for d in dims] for dims in (froms, tos))
    for name, dims, given in (("source", sources, froms), ("destination", targets, tos)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({[*given]})")
    rest = iter(d for d in range(rank) if d not in sources)
    places = dict(zip(targets, sources, strict=True))
    return tuple([places[i] if i in places else next(rest) for i in range(rank)])


@public(view=True)
def moveaxis(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return `movedim`, as NumPy calls it."""
    return movedim(input, source, destination)


@public(view=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Return a view with a dimension of size 1 inserted at `dim`.

    Args:
        input: tensor with n dimensions.
        dim: place of the new dimension, from -n - 1 to n.

    Example:
        >>> ad.unsqueeze(ad.tensor([1, 2, 3]), 1).shape
        adjoint.Size([3, 1])
    """
    shape = input.array.shape
    d = dim if type(dim) is int and 0 <= dim <= len(shape) else one_dim(dim, len(shape) + 1)
    out = movement.reshape(input, shape=(*shape[:d], 1, *shape[d:]))
    return out if out.node is None else rename_node(out, "UnsqueezeBackward0")


@public(view=True)
def squeeze(input: Tensor, dim: Dims = None, *others: int) -> Tensor:
    """Return a view without dimensions of size 1.

    Args:
        input: tensor.
        dim: dimension or tuple of dimensions to remove; one of another size stays. Default: None, all of size 1.
        others: further dimensions, one by one.

    Example:
        >>> x = ad.zeros(1, 2, 1)
        >>> ad.squeeze(x).shape, ad.squeeze(x, 0).shape
        (adjoint.Size([2]), adjoint.Size([2, 1]))
    """
    shape = input.array.shape
    dim = parse_shape((dim, *others)) if others else dim
    if type(dim) is int and shape:
        axis = one_dim(dim, len(shape))
        if shape[axis] == 1:
            shape = (*shape[:axis], *shape[axis + 1 :])
        out = movement.reshape(input, shape=shape)
        return out if out.node is None else rename_node(out, "SqueezeBackward1")
    if dim is None:
        kept = tuple([n for n in shape if n != 1])
        out = movement.reshape(input, shape=kept)
        return out if out.node is None else rename_node(out, "SqueezeBackward0")
    chosen = some_dims(dim, input.ndim)
    shape = tuple(n for d, n in enumerate(input.array.shape) if n != 1 or d not in chosen)
    kind = 1 if isinstance(dim, int) else 2
    return rename_node(movement.reshape(input, shape=shape), f"SqueezeBackward{kind}")


@public(varargs_ints=True, view=True)
def expand(self: Tensor, size: Sequence[int]) -> Tensor:
    """Return a view in which dimensions of size 1, and new leading ones, repeat their elements without a copy.

    Args:
        size: sizes wanted, one by one or as a tuple; -1 keeps a size.

    Raises: RuntimeError where a size other than 1 would change.

    Example:
        >>> ad.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return _expand(self, size)


def _expand(x: Tensor, size: Operand) -> Tensor:
    if nondefault.count and mode.interpreter is not None:  # sizes may be symbols
        return movement.expand(x, shape=_expanded_size.__wrapped__(x.array.shape, size))
    return movement.expand(x, shape=_expanded_size(x.array.shape, size))


@lru_cache(1024)
def _expanded_size(shape: Shape, size: Shape) -> Shape:
    """Return `size` with sizes of `shape` in place of -1. Raises RuntimeError where `shape` does not expand to it."""
    lead = len(size) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({list(shape)}, size={list(size)}): the number of sizes provided ({len(size)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(shape)})"
        )
    if lead and min(size[:lead]) < 0:
        bad = next(i for i, n in enumerate(size) if n < 0)
        raise RuntimeError(
            f"The expanded size of the tensor ({size[bad]}) isn't allowed in a leading, non-existing dimension {bad}"
        )
    full = tuple([shape[i - lead] if n == -1 else n for i, n in enumerate(size)]) if -1 in size else size
    for d, (have, want) in enumerate(zip(shape, full[lead:], strict=True)):
        if have not in (want, 1) or want < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) must match the existing size ({have}) at non-singleton "
                f"dimension {d + lead}.  Target sizes: {list(size)}.  Tensor sizes: {list(shape)}"
            )
    return full


@public()
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `expand` to the shape of `other`."""
    return _expand(self, other.array.shape)


@public(varargs_ints=True, view=True)
def broadcast_to(input: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `expand` to `shape`, a tuple or its numbers one by one."""
    return expand(input, shape)


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return tensors expanded to the shape to which all broadcast. Raises RuntimeError if there is no such shape."""
    parts = as_tensor_list(tensors)
    try:
        full = _broadcast_shapes(*[part.array.shape for part in parts])
    except ValueError as error:
        raise RuntimeError(str(error)) from error
    return tuple(part if part.array.shape == full else expand(part, full) for part in parts)


def as_tensor_list(tensors: Operands) -> list[Tensor]:
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def broadcast_shapes(*shapes: ShapeLike) -> Size:
    """Return the shape to which all broadcast. Raises RuntimeError if there is none, ValueError for a negative size."""
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    given = [parse_shape((shape,)) for shape in shapes]
    if any(n < 0 for shape in given for n in shape):
        raise ValueError("Attempting to broadcast a dimension with negative length!")
    try:
        return Size(_broadcast_shapes(*given))
    except ValueError as error:
        raise RuntimeError(str(error)) from error


@public(view=True)
def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """Return `length` elements from `start` along `dim`. Raises RuntimeError outside the dimension."""
    shape = input.array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = one_dim(dim, len(shape))
    size = shape[d]
    if isinstance(start, Tensor):
        if start.ndim or start.array.dtype.kind not in "iu":
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    if isinstance(start, float) or isinstance(length, float):
        raise TypeError(f"narrow(): arguments 'start' and 'length' must be int, not {start!r} and {length!r}")
    start, length = as_size(start), as_size(length)
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    at = start + size if start < 0 else start
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not 0 <= at <= at + length <= size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    bounds = tuple([(at, at + length, 1) if i == d else (0, n, 1) for i, n in enumerate(shape)])
    return movement.slice(input, bounds=bounds)


@public(view=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Return the elements at position `index` of `dim`, without that dimension. Raises IndexError outside of it."""
    shape = input.array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d, index = one_dim(dim, len(shape)), as_size(index)
    size = shape[d]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {d}")
    return movement.select(input, axis=d, at=index % size)


@public()
def contiguous(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Return the tensor itself if its elements lie in row-major order, else a copy that does.

    Args:
        memory_format: another order of the elements in memory, such as `channels_last`. Default: None, row-major.

    Example:
        >>> x = ad.zeros(2, 3).T
        >>> x.is_contiguous(), x.contiguous().is_contiguous()
        (False, True)
    """
    if self.is_contiguous(memory_format=memory_format):
        return self
    order = dim_order_for_copy(self, memory_format or contiguous_format)
    return copy_in_order(self, order=order) if order else selection.copy(self)
