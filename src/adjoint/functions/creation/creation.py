"""Tensors from data or from a fill value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from adjoint.core.dtype.device import is_meta
from adjoint.core.dtype.dtype import DTYPES, as_dtype, default, is_floating, numpy_dtype, promote
from adjoint.core.dtype.dtype_info import check_range, scalar_type
from adjoint.core.runtime.deterministic import poison_uninitialized
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.construction import as_array, try_plain_full, try_plain_range
from adjoint.core.tensor.external_aliases import import_array
from adjoint.core.tensor.memory_format import memory_format, strided
from adjoint.core.tensor.shape_tracer import call_on_meta, device_like, move_to_device, on_requested_device
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.sparse_array import sparse_zeros_slot
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Array, DeviceLike, DtypeLike, Function, NumpyDtype, Operand, Shape, ShapeLike
from adjoint.functions.api.dim_args import parse_named_size, parse_shape
from adjoint.functions.api.memory_format import dim_order_for_copy
from adjoint.functions.api.out import write_out
from adjoint.ops import creation as ops
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement
from adjoint.ops.movement.memory_format import copy_in_order

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "ones",
    "ones_like", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip


def finish_factory(out: Tensor, requires_grad: bool, device: DeviceLike) -> Tensor:
    """Return a new tensor on the requested device, as a leaf if `requires_grad`."""
    if device is not None:
        out = on_requested_device(out, device)
    if requires_grad and not is_floating(out.array):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return out.requires_grad_() if requires_grad else out


def tensor(
    data: Operand,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new leaf tensor with a copy of `data`.

    Python floats become the default dtype, Python integers int64, truths bool. An array or a tensor keeps its dtype.

    Args:
        data: number, nested lists of numbers, NumPy array or tensor.
        dtype: element type of the result. Default: that of the data, as above.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        pin_memory: ignored.

    Raises: ValueError for ragged lists, TypeError for elements that are not numbers.

    Example:
        >>> ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    if hasattr(data, "untyped"):
        data = data.elements(dtype)
    out = _stack_numbers(data, dtype)
    if out is None:
        out = constant(np.array(as_array(data, dtype), copy=True, order="C"))
    return finish_factory(out, requires_grad, device)


def _stack_numbers(data: Operand, dtype: DtypeLike) -> Operand:
    """Return the tensor of numbers that a compiled step computes in each call; None for what is known."""
    interpreter = mode.interpreter if nondefault.count else None
    if interpreter is None or isinstance(data, (Tensor, np.ndarray)):
        return None
    return interpreter.stack_numbers(data, None if dtype is None else numpy_dtype(dtype))


def as_tensor(data: Operand, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """Return `data` as a tensor that shares its memory where that is possible.

    A tensor of the wanted dtype is returned itself. Lists and conversions are copied.

    Args:
        data: tensor, NumPy array, number or nested lists.
        dtype: element type of the result. Default: that of the data; Python floats become the default dtype.
        device: "cpu" (default), or "meta" for a tensor without elements.

    Example:
        >>> a = np.zeros(2)
        >>> x = ad.as_tensor(a)
        >>> a[0] = 5
        >>> x
        tensor([5., 0.], dtype=adjoint.float64)
    """
    if isinstance(data, Tensor):
        kind = data.array.dtype if dtype is None else numpy_dtype(dtype)
        data = data if device is None else move_to_device(data, device)
        return data if kind == data.array.dtype else select.cast(data, dtype=kind)
    out = _stack_numbers(data, dtype)
    if out is None:
        out = constant(as_array(data, dtype))
        import_array(out, data)
    return out if device is None else on_requested_device(out, device)


def asarray(
    obj: object,
    /,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return `obj`, a tensor, array, scalar, buffer or nested sequences, as a tensor that shares its memory if it can.

    `copy=True` always copies; with `copy=False` ValueError where sharing is impossible. A tensor keeps its history
    unless `requires_grad` is False.

    Raises: ValueError if `copy` is False and the memory cannot be shared, RuntimeError for a NumPy scalar then.
    """
    if isinstance(obj := getattr(obj, "traced_tensor", obj), Tensor):
        return finish_factory(_alias_or_copy(obj, dtype, copy, requires_grad), requires_grad is True, device)
    given = _try_array_view(obj, dtype)
    if given is None:
        if copy is False:
            if isinstance(obj, np.generic):
                raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    if copy:
        return tensor(given, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    out = as_tensor(given, dtype, device)
    if copy is False and not np.may_share_memory(out.array, given):
        raise ValueError(f"can't alias an array of {given.dtype} into a tensor of {out.dtype}.")
    return out.requires_grad_() if requires_grad else out


def _alias_or_copy(x: Tensor, dtype: DtypeLike, copy: bool | None, requires_grad: bool | None) -> Tensor:
    kind = x.array.dtype if dtype is None else numpy_dtype(dtype)
    if kind != x.array.dtype:
        if copy is False:
            names = scalar_type(x.dtype), scalar_type(as_dtype(dtype))
            raise ValueError(f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'.")
        x = select.cast(x, dtype=kind)
    elif copy:
        x = select.copy(x)
    return x.detach() if requires_grad is False and x.node is not None else x


def _try_array_view(obj: Operand, dtype: DtypeLike) -> Array | None:
    """Return an array over foreign memory; None for numbers and sequences. Bytes are taken as `dtype`."""
    if isinstance(obj, np.ndarray):
        return obj
    if isinstance(obj, np.generic):
        return None
    if type(obj).__name__ == "PyCapsule":
        from adjoint.functions.creation.buffers_dlpack import from_dlpack

        return from_dlpack(obj).array
    if hasattr(obj, "__dlpack__"):
        return np.from_dlpack(obj)
    if hasattr(obj, "__array__"):
        return np.asarray(obj)
    try:
        buffer = memoryview(obj)
    except TypeError:
        return None
    return np.frombuffer(buffer, default.floating.numpy if dtype is None else numpy_dtype(dtype))


def from_numpy(ndarray: object, /) -> Tensor:
    """Return a tensor over the memory of an array; each sees what is written into the other.

    Args:
        ndarray: NumPy array of a dtype that tensors have.

    Raises: TypeError for anything but such an array; ValueError for strides that are negative or no multiple of the
    element size, and for a foreign byte order.

    Example:
        >>> x = ad.from_numpy(np.arange(3))
        >>> x.dtype, x
        (adjoint.int64, tensor([0, 1, 2]))
    """
    if isinstance(ndarray := getattr(ndarray, "traced_tensor", ndarray), Tensor):
        return ndarray.detach()
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if min(ndarray.strides, default=0) < 0:  # a quarter of the time of `any`
        raise ValueError("At least one stride in the given numpy array is negative; pass array.copy()")
    if ndarray.itemsize and any(step % ndarray.itemsize for step in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    if not ndarray.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order; use astype() first")
    out = constant(as_array(ndarray))
    import_array(out, ndarray)
    return out


def full(
    size: int | Sequence[SupportsIndex],
    fill_value: Operand,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    out: Operand = None,
) -> Tensor:
    """Return a tensor of shape `size` with `fill_value` at every element.

    Args:
        size: shape, a tuple or one integer.
        fill_value: number, or a tensor with one element.
        dtype: element type. Default: int64 for an integer, bool for a truth, the default dtype for a float.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Raises: RuntimeError for a negative size.

    Example:
        >>> ad.full((2, 3), 7)
        tensor([[7, 7, 7],
                [7, 7, 7]])
    """
    if out is not None:
        return finish_factory(
            write_out(out, full, size, fill_value, dtype=dtype_for_out(out, dtype)), requires_grad, device
        )
    if device is not None and is_meta(device):
        return call_on_meta(full, size, fill_value, dtype=dtype, requires_grad=requires_grad)
    shape = parse_shape((size,) if isinstance(size, int) else tuple(size))
    if isinstance(fill_value, np.generic):
        fill_value = fill_value.item()
    if dtype is not None:
        kind = numpy_dtype(dtype)
    elif isinstance(fill_value, Tensor):  # its number counts as a Python number
        kind = promote(({"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[fill_value.array.dtype.kind],))
    else:
        kind = promote((fill_value,))
    return finish_factory(_make_full(shape, fill_value, kind), requires_grad, device)


def _make_full(shape: Shape, value: Operand, kind: NumpyDtype) -> Tensor:
    if not (nondefault.count and mode.needs_slow_path) and (array := try_plain_full(shape, value, kind)) is not None:
        return wrap(array)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    value = tensor(value) if has_symbolic(value) else value
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"a Tensor with {value.numel()} elements cannot be converted to Scalar")
        if nondefault.count and mode.interpreter is not None:
            one = select.cast(movement.reshape(value.detach(), shape=()), dtype=kind)
            return select.copy(movement.expand(one, shape=shape))
        value = value.item()
    if math.prod(n or 1 for n in shape) * kind.itemsize >= 2**63:
        raise RuntimeError(f"{('Storage size', 'Stride')[0 in shape]} calculation overflowed with sizes={list(shape)}")
    check_range(value, kind)
    if kind.kind in "iu":
        value = select.number_as_array(value, kind).item()
    if nondefault.count and mode.interpreter is not None:
        return ops.full(shape=shape, value=value, dtype=kind)
    try:
        if value == 0 and not (isinstance(value, float) and math.copysign(1.0, value) < 0):
            return constant(np.zeros(shape, kind))
        return constant(np.full(shape, value, kind))
    except MemoryError as error:
        needed = f"{math.prod(shape) * kind.itemsize} bytes for a tensor of shape {list(shape)}"
        raise RuntimeError(f"can't allocate memory: {needed}") from error


def _make_filled(
    function: Function,
    value: int,
    size: tuple[ShapeLike, ...],
    named: dict[str, Operand],
    dtype: DtypeLike,
    device: DeviceLike,
    requires_grad: bool,
) -> Tensor:
    """Return the result of `function`, `zeros` or `ones`, for a size by position or by name."""
    if (out := named.pop("out", None)) is not None:
        written = write_out(out, function, *size, dtype=dtype_for_out(out, dtype), **named)
        return finish_factory(written, requires_grad, device)
    if device is not None and is_meta(device):
        return call_on_meta(function, *size, dtype=dtype, requires_grad=requires_grad, **named)
    shape, kind = parse_named_size(size, named), numpy_dtype(dtype or default.floating)
    return finish_factory(_make_full(shape, value, kind), requires_grad, device)


def dtype_for_out(out: Tensor, dtype: DtypeLike) -> DtypeLike:
    """Return the dtype of what is made in `out`. Raises RuntimeError where another was asked for."""
    if dtype is not None and as_dtype(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {scalar_type(as_dtype(dtype))} does not match dtype of out parameter ({scalar_type(out.dtype)})"
        )
    return out.dtype


def zeros(
    *size: ShapeLike, dtype: DtypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
    layout: object = None, pin_memory: bool = False, **named: Operand,
) -> Tensor:  # fmt: skip
    """Return a tensor of zeros.

    Args:
        *size: shape, as separate integers or one tuple; also `size=` by name.
        dtype: element type. Default: the default dtype (float32 unless `set_default_dtype` changed it).
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout: `adjoint.strided` (default), or a sparse layout for a tensor without values.
        pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Example:
        >>> ad.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    if layout is None or layout is strided:
        return _make_filled(zeros, 0, size, named, dtype, device, requires_grad)
    return sparse_zeros_slot.call(parse_named_size(size, named), layout, dtype).requires_grad_(requires_grad)


def ones(
    *size: ShapeLike, dtype: DtypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
    layout: object = None, pin_memory: bool = False, **named: Operand,
) -> Tensor:  # fmt: skip
    """Return a tensor of ones.

    Args:
        *size: shape, as separate integers or one tuple; also `size=` by name.
        dtype: element type. Default: the default dtype (float32 unless `set_default_dtype` changed it).
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Example:
        >>> ad.ones(2, 3, dtype=ad.int64)
        tensor([[1, 1, 1],
                [1, 1, 1]])
    """
    return _make_filled(ones, 1, size, named, dtype, device, requires_grad)


def empty(
    *size: ShapeLike, dtype: DtypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
    layout: object = None, pin_memory: bool = False, memory_format: memory_format | None = None, **named: Operand,
) -> Tensor:  # fmt: skip
    """Return a tensor to be written: zeros, or NaN while `use_deterministic_algorithms` is on."""
    out = zeros(*size, dtype=dtype, device=device, **named)
    if memory_format is not None and (order := dim_order_for_copy(out, memory_format)):
        out = copy_in_order(out, order=order)
    poison_uninitialized(out.array)
    return finish_factory(out, requires_grad, device)


def full_like(
    input: Tensor,
    fill_value: Operand,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return the shape and dtype of `input`, filled with one value."""
    kind = input.array.dtype if dtype is None else numpy_dtype(dtype)
    out = _make_full(input.array.shape, fill_value, kind)
    order = dim_order_for_copy(input, memory_format)
    if order:
        out = copy_in_order(out, order=order)
    return finish_factory(out, requires_grad, device_like(input, device))


def zeros_like(
    input: Tensor,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return zeros with the shape and dtype of `input`.

    Args:
        input: tensor whose shape and memory order the result has.
        dtype: element type. Default: that of `input`.
        device: "cpu" or "meta". Default: that of `input`.
        requires_grad: True to record operations on the result. Default: False.
        memory_format: order of the elements in memory. Default: that of `input`.
        layout, pin_memory: ignored.

    Example:
        >>> ad.zeros_like(ad.tensor([[1, 2], [3, 4]]))
        tensor([[0, 0],
                [0, 0]])
    """
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)


def ones_like(
    input: Tensor,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return ones with the shape and dtype of `input`.

    Args:
        input: tensor whose shape and memory order the result has.
        dtype: element type. Default: that of `input`.
        device: "cpu" or "meta". Default: that of `input`.
        requires_grad: True to record operations on the result. Default: False.
        memory_format: order of the elements in memory. Default: that of `input`.
        layout, pin_memory: ignored.

    Example:
        >>> ad.ones_like(ad.tensor([1, 2, 3]), dtype=ad.float64)
        tensor([1., 1., 1.], dtype=adjoint.float64)
    """
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)


def empty_like(
    input: Tensor,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor in the shape and dtype of `input`, to be written: see `empty`."""
    out = full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
    poison_uninitialized(out.array)
    return out


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    out: Operand = None,
) -> Tensor:
    """Return a matrix with ones on the diagonal and zeros elsewhere.

    Args:
        n: number of rows.
        m: number of columns. Default: n.
        dtype: element type. Default: the default dtype.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Raises: RuntimeError for a negative size.

    Example:
        >>> ad.eye(2, 3)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if out is not None:
        return write_out(out, eye, n, m, dtype=dtype_for_out(out, dtype))
    made = ops.mark_diagonal(n, n if m is None else m, numpy_dtype(dtype or default.floating))
    return finish_factory(made, requires_grad, device)


def scalar_tensor(
    s: Tensor | float,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return one number as a 0-d tensor of the default type, whatever the number's own.

    Raises: RuntimeError for a complex number in a real type.
    """
    if isinstance(s, complex) and not DTYPES[numpy_dtype(dtype or default.floating)].is_complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    return tensor(to_number(s), dtype=dtype or default.floating, device=device, requires_grad=requires_grad)


def to_number(value: Tensor | float) -> float:
    """Return the number that a 0-d tensor or NumPy scalar holds, and other values as they are."""
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def arange(
    start: Operand = None,
    end: Operand = None,
    step: Tensor | float = 1,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    out: Operand = None,
) -> Tensor:
    """Return the vector start, start + step, … of all such numbers before `end`.

    Args:
        start: first number; `arange(n)` starts at 0.
        end: bound, not included.
        step: distance between neighbors, negative to count down. Default: 1.
        dtype: element type. Default: int64, or the default dtype if a bound or the step is a float. An integer dtype
            drops the fractions of the start and the step; int64 those of `end` too, before the elements are counted.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Raises: RuntimeError for a step of zero, a step away from `end`, and infinite bounds.

    Example:
        >>> ad.arange(4), ad.arange(1, 2, 0.25)
        (tensor([0, 1, 2, 3]), tensor([1.0000, 1.2500, 1.5000, 1.7500]))
    """
    if out is not None:
        return write_out(out, arange, start, end, step, dtype=dtype_for_out(out, dtype))
    if dtype is None is device and not requires_grad and (numbers := try_plain_range(start, end, step)) is not None:
        return wrap(numbers)
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    if end is None:
        raise TypeError("arange() missing 1 required positional argument: 'end'")
    start, end, step = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    if not all(isinstance(bound, int) or math.isfinite(bound) for bound in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    kind = None if dtype is None else numpy_dtype(dtype)
    refusal = RuntimeError if step == 0 else ValueError
    if kind == np.int64:  # other integers are counted with the fractions, as in PyTorch
        start, end, step = (v if isinstance(v, int) else int(v) for v in (start, end, step))
    if step == 0:
        raise refusal("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
    kind = kind or (np.dtype(np.int64) if whole else default.floating.numpy)
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if count >= 2**60:
        raise RuntimeError("invalid size, possible overflow?")
    first, step = (v if isinstance(v, int) else int(v) for v in (start, step)) if kind.kind in "iu" else (start, step)
    return finish_factory(ops.count_from(first, step, count, kind), requires_grad, device)
