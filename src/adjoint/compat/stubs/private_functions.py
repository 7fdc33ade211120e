"""Private functions of `torch`, `torch._VF` and others that packages call: each by the public one that does it."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from types import ModuleType
from weakref import ref

from adjoint.core.dtype.device import cuda_devices, require_cpu
from adjoint.core.dtype.device import device as Device
from adjoint.core.graph.node import Leaf
from adjoint.core.op.autocast import get_autocast_dtype, is_autocast_enabled
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Operand
from adjoint.functions.creation.creation import full, tensor
from adjoint.functions.elementwise.activation import log_softmax, softmax
from adjoint.functions.linalg.matmul import matmul
from adjoint.functions.reduction.cumulative import cumsum
from adjoint.functions.reduction.sort_quantile_unique import unique
from adjoint.functions.shape.join import cat, stack
from adjoint.utils.profiler import ProfilerAction


def _softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """Return the softmax, of float16 as float32 with `half_to_float`."""
    return softmax(_widen(self, half_to_float), dim)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """Return the logarithm of the softmax, of float16 as float32 with `half_to_float`."""
    return log_softmax(_widen(self, half_to_float), dim)


def _widen(x: Operand, half_to_float: bool) -> Tensor:
    return x.float() if half_to_float else x


def softmax_backward_data(grad_output: Operand, output: Operand, dim: int, input_dtype: DtypeLike) -> Tensor:
    """Return the gradient of the softmax of which `output` is the result."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def log_softmax_backward_data(grad_output: Operand, output: Operand, dim: int, input_dtype: DtypeLike) -> Tensor:
    """Return the gradient of the logarithm of the softmax of which `output` is the result."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def unique_dim(
    input: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    """Return the different slices along `dim`, the inverse and the counts; those not asked for are empty."""
    return _fill_in(unique(input, sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


def unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    """Return the different elements, the inverse and the counts; those not asked for are empty."""
    return _fill_in(unique(input, sorted, return_inverse, return_counts), return_inverse, return_counts)


def _fill_in(found: Operand, return_inverse: bool, return_counts: bool) -> tuple[Tensor, ...]:
    values, *others = found if isinstance(found, tuple) else (found,)
    inverse = others.pop(0) if return_inverse else tensor([], dtype="int64")
    return values, inverse, others.pop(0) if return_counts else tensor([], dtype="int64")


def shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes as a tensor."""
    return tensor(list(self.shape), dtype="int64")


def convert_indices_from_coo_to_csr(input: Operand, size: int, *, out_int32: bool = False) -> Tensor:
    """Return where the entries of each row begin, and where the last end, for the sorted rows of the entries."""
    counts = full((size + 1,), 0, dtype="int64").index_add(0, input.long() + 1, (input >= 0).long())
    starts: Operand = cumsum(counts, 0)
    return starts.int() if out_int32 else starts


def convert_indices_from_csr_to_coo(
    crow_indices: Operand, col_indices: Operand, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return rows and columns of the entries, from where the entries of each row begin."""
    rows: Operand = full((len(crow_indices) - 1,), 1, dtype="int64").cumsum(0) - 1
    rows = rows.repeat_interleave(crow_indices.diff().long())
    pair: Operand = stack([col_indices.long(), rows] if transpose else [rows, col_indices.long()])
    return pair.int() if out_int32 else pair


def grouped_mm(
    mat_a: Operand, mat_b: Operand, *, offs: Operand = None, bias: Operand = None, out_dtype: DtypeLike | None = None
) -> Tensor:
    """Return the products of groups: the last rows, columns or inner positions of which `offs` gives.

    Shapes: (n, k) by (groups, k, m) has the rows of the result in groups, (groups, n, k) by (k, m) the columns;
    (n, k) by (k, m) has one result for each group of inner positions; three dimensions are one group each.
    Raises: NotImplementedError for a bias.
    """
    if bias is not None:
        raise NotImplementedError("grouped_mm: there is no bias: add it to the result")
    ends = None if offs is None else [0, *offs.tolist()]
    if mat_a.ndim == 3 and mat_b.ndim == 3:
        result: Operand = matmul(mat_a, mat_b)
    elif ends is None:
        raise ValueError("grouped_mm: two dimensions need offs, the end of each group")
    else:
        parts = []
        for i, (start, end) in enumerate(pairwise(ends)):
            left = mat_a[i] if mat_a.ndim == 3 else mat_a[:, start:end] if mat_b.ndim == 2 else mat_a[start:end]
            right = mat_b[i] if mat_b.ndim == 3 else mat_b[:, start:end] if mat_a.ndim == 3 else mat_b[start:end]
            parts.append(matmul(left, right))
        is_stack = mat_a.ndim == mat_b.ndim
        result = stack(parts) if is_stack else cat(parts, dim=-1 if mat_a.ndim == 3 else 0)
    return result if out_dtype is None else result.to(out_dtype)


def get_device_module(device: DeviceLike = None) -> ModuleType:
    """Return the module of a device: `adjoint.cpu`, or `adjoint.cuda` where it means the CPU.

    Raises RuntimeError for others.
    """
    named = Device("cuda" if cuda_devices.count else "cpu") if device is None else Device(device)
    require_cpu(named)
    return import_module(f"adjoint.compat.stubs.devices.{named.type}")


def get_autocast_cpu_dtype() -> DtypeLike:
    """Return the type in which products are computed in blocks of autocast."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DtypeLike:
    """Return the type that blocks of autocast for a GPU would use."""
    return get_autocast_dtype("cuda")


def is_autocast_cpu_enabled() -> bool:
    """Return whether products are computed in the type of autocast."""
    return is_autocast_enabled("cpu")


def _cast(value: Operand, device_type: str, dtype: DtypeLike) -> Operand:
    """Convert the floating-point tensors in a value, and in lists, tuples and dicts of it, except float64."""
    if isinstance(value, Tensor):
        floats: Operand = value
        return floats.to(dtype) if value.is_floating_point() and str(floats.dtype)[-7:] != "float64" else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(part, device_type, dtype) for part in value])
    return value


def swap_tensors(t1: Operand, t2: Operand) -> None:
    """Let each of two tensors be what the other was: its elements, its gradient, its history and its attributes."""
    slots = [name for kind in Tensor.__mro__ for name in getattr(kind, "__slots__", ()) if not name.startswith("__")]
    before = [{name: getattr(t, name) for name in slots if hasattr(t, name)} | {"__class__": type(t)} for t in (t1, t2)]
    attributes = [dict(t.__dict__) for t in (t1, t2)]
    for t, state, named in ((t1, before[1], attributes[1]), (t2, before[0], attributes[0])):
        t.__dict__.clear()
        t.__dict__.update(named)
        for name, value in state.items():
            setattr(t, name, value)
            if isinstance(value, Leaf):
                value.reference = ref(t)  # gradients of what was recorded with it arrive here from now on


def _profiler_enabled() -> bool:
    """Return False: no profiler of PyTorch's runs."""
    return False


def _disable_profiler() -> None:
    """Do nothing: no profiler of PyTorch's runs."""


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Return that a step is recorded: a profiler without a schedule records all."""
    return ProfilerAction.RECORD
