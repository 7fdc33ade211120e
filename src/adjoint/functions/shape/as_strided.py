"""Views at any strides, and methods that turn a tensor into a view of itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import default, numpy_dtype
from adjoint.core.graph.hooks import hooks_of
from adjoint.core.graph.node import Leaf, Vertex
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.op import op_of
from adjoint.core.runtime.deterministic import poison_uninitialized
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.as_strided import dense_strides, memory_span, strided_view
from adjoint.core.tensor.external_aliases import is_externally_aliased
from adjoint.core.tensor.memory_format import channels_last, channels_last_3d, memory_format, preserve_format
from adjoint.core.tensor.storage import CreationMeta, InferenceStorage, View, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, method, shallow_copy, tangents_of, wrap
from adjoint.core.typing import Array, DeviceLike, DtypeLike, ShapeLike
from adjoint.functions.api.dim_args import one_dim, parse_shape
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.shape import shape as shapes
from adjoint.ops.elementwise import select
from adjoint.ops.movement import as_strided as strides
from adjoint.ops.movement.movement import inverse
from adjoint.ops.mutation.inplace import check_writable

__all__ = ["as_strided", "empty_strided", "narrow_copy", "resize_as_"]

Sizes = tuple[int, ...]


@public()
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return a view of the memory of `input` at other strides, from its first element or `storage_offset`.

    Gradients of elements that share memory add up. Raises RuntimeError for negative numbers, and outside the memory.
    """
    shape, steps = parse_shape((size,)), parse_shape((stride,))
    if len(shape) != len(steps):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(shape)} and {list(steps)}")
    if any(s < 0 for s in steps):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(steps)}")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"as_strided: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"as_strided: invalid storage offset {storage_offset}")
    geometry = strides.geometry_of(input)
    needed = memory_span(shape, steps, geometry[1] if storage_offset is None else storage_offset)
    have = strides.storage_size(input)
    if needed > have:
        each = input.element_size()
        if type(input.array) is not np.ndarray:
            raise RuntimeError(
                f"as_strided: sizes {list(shape)}, strides {list(steps)} and storage offset {storage_offset or 0} can "
                f"access memory outside of `tensor`, which has {have} elements"
            )
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {storage_offset or 0}, and "
            f"itemsize {each} requiring a storage size of {needed * each} are out of bounds for storage of size "
            f"{have * each}"
        )
    return strides.apply_as_view(
        op_of(strides.as_strided), input, size=shape, stride=steps, storage_offset=storage_offset, geometry=geometry
    )


@public(view=True)
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of the pieces of `size` at every `step` of a dimension, as a last dimension; they may overlap.

    Raises: RuntimeError for a `size` beyond the dimension's and for a step below 1.
    """
    whole = self.array.shape
    d = one_dim(dimension, len(whole))
    length = whole[d] if whole else 1
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {length} but size is {size}")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    x = self if whole else shapes.reshape(self, (1,))
    out = strides.apply_as_view(op_of(strides.unfold), x, dimension=d, size=size, step=step)
    return out if whole else shapes.reshape(out, (size,))


@public()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return `narrow` in memory of its own. Raises RuntimeError outside the dimension."""
    if dim >= max(input.ndim, 1):
        raise RuntimeError(f"narrow_copy(): expected a dim below {input.ndim}, but got {dim}")
    return rename_node(select.copy(shapes.narrow(input, dim, start, length)), "NarrowCopyBackward0")


def empty_strided(
    size: ShapeLike,
    stride: ShapeLike,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of these sizes and strides in memory of its own, to be written.

    Raises: RuntimeError unless there are as many strides as sizes.
    """
    shape, steps = parse_shape((size,)), parse_shape((stride,))
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    kind, needed = numpy_dtype(dtype or default.floating), memory_span(shape, steps, 0)
    if needed * kind.itemsize >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}")
    memory = poison_uninitialized(np.zeros(needed, kind))
    out = wrap(strided_view(memory, shape, steps, 0))
    return out.requires_grad_() if requires_grad else out


def make_inplace_view(function: Callable[..., Tensor], called: str) -> Callable[..., Tensor]:
    """Return `function`, which makes a view, as a method after which the tensor is that view of what it was."""

    def call(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        interpreter = mode.interpreter if nondefault.count else None
        if interpreter is not None and (
            type(self.array) is np.ndarray or any(t is self for t in interpreter.captured_tensors())
        ):
            interpreter.refuse_form(called)
        seen = view_of(self)
        of_recorded = seen is not None and seen.base.node is not None
        check_writable(self, called, mode.recording and (self.node is not None or of_recorded))
        # its history goes along in a no_grad block too, since it is seen otherwise from now on
        with ModeScope(recording=not mode.inference):
            out = function(self, *args, **kwargs)
        if seen is not None:
            self.storage_ = out.storage_
        elif not isinstance(self.storage_, InferenceStorage):
            _keep_base_for_views(self, out)
        recording = not nondefault.count or mode.recording
        _set_array(self, out.array, out.node if recording and type(self.node) is not Leaf else self.node)
        tangents = tangents_of(out)
        if tangents is not None:
            self._tangents = tangents
        return self

    call.__name__ = call.__qualname__ = called
    call.__doc__ = f"In-place {called.removesuffix('_')}: the tensor itself is seen otherwise from now on."
    return call


def _keep_base_for_views(x: Tensor, out: Tensor) -> None:
    """Give other views of `x` a copy of what it was as their base, and make `x` a view of that."""
    others = [
        t for t in storage_of(x).alive_aliases() if t is not out and (v := view_of(t)) is not None and v.base is x
    ]
    if not others:
        return
    before = shallow_copy(x)
    before.node = x.node
    for other in (*others, out):
        if type(other.storage_) is View:
            other.storage_.base = before
            if other.storage_.creation_meta is CreationMeta.INFERENCE_MODE and x.node is not None and mode.recording:
                other.storage_.creation_meta = CreationMeta.STALE_INFERENCE
    x.storage_ = out.storage_


def _set_array(x: Tensor, array: Array, node: Vertex | None) -> None:
    """Let `x` see `array`; its version goes up."""
    x.array, x.node = array, node
    if isinstance(node, Leaf):
        node.shape, node.dtype = array.shape, array.dtype
    if not isinstance(x.storage_, InferenceStorage):
        storage_of(x).version += 1


for _f in (as_strided, shapes.squeeze, shapes.t, shapes.transpose, shapes.unsqueeze):
    setattr(Tensor, f"{_f.__name__}_", make_inplace_view(_f, f"{_f.__name__}_"))
for _name in ("swapaxes_", "swapdims_"):
    setattr(Tensor, _name, make_inplace_view(shapes.transpose, _name))


@public(varargs_ints=True)
def resize_(self: Tensor, size: tuple[int, ...], *, memory_format: memory_format | None = None) -> Tensor:
    """Give the tensor another number of elements: its memory as far as it goes, then zeros.

    They come to lie as `memory_format` says. Raises RuntimeError for a tensor that requires grad, and for more elements
    while an array of NumPy shares them.
    """
    if self.requires_grad and not mode.inference:
        raise RuntimeError("cannot resize variables that require grad")
    order: tuple[int, ...] = getattr(memory_format, "order", ())
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if memory_format is not None and order and len(order) != len(size):
        raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format.name} format")
    if self.array.shape == size and (memory_format is None or self.is_contiguous(memory_format=memory_format)):
        return self
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    geometry, memory = strides.geometry_of(self), self.numpy_view("resize_()")
    flat = strided_view(memory, (strides.storage_size(self) - geometry[1],), (1,), geometry[1])
    count = math.prod(size)
    if count > 2**62:
        raise RuntimeError("numel: integer multiplication overflow")
    if math.prod(n or 1 for n in size) * self.element_size() >= 2**63:
        what = "Storage size" if count else "Stride"
        raise RuntimeError(f"{what} calculation overflowed with sizes={list(size)}")
    if count > flat.size:
        if is_externally_aliased(memory):
            raise RuntimeError("Trying to resize storage that is not resizable: arrays of NumPy see its memory")
        flat = np.concatenate([flat, poison_uninitialized(np.zeros(count - flat.size, flat.dtype))])
    if order:
        array = flat[:count].reshape([size[d] for d in order]).transpose(inverse(order))
    else:
        array = flat[:count].reshape(size)
    _set_array(self, array, None)
    return self


@public()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Resize to the shape of another tensor, and to its order of channels if `memory_format` preserves it."""
    if memory_format is preserve_format:
        orders = () if the_template.is_contiguous() else (channels_last, channels_last_3d)
        memory_format = next((order for order in orders if the_template.is_contiguous(memory_format=order)), None)
    return resize_(input, the_template.array.shape, memory_format=memory_format)


@method
def resize(self: Tensor, *size: ShapeLike) -> Tensor:
    """Return `reshape`, under the name it once had."""
    warn_user("non-inplace resize is deprecated", UserWarning)
    return shapes.reshape(self, parse_shape(size))


@method
def resize_as(self: Tensor, the_template: Tensor) -> Tensor:
    """Return `reshape` to the shape of another tensor, under the name it once had."""
    warn_user("non-inplace resize_as is deprecated", UserWarning)
    return shapes.reshape(self, the_template.array.shape)


@public()
def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: tuple[int, ...] | None = None,
    stride: tuple[int, ...] | None = None,
) -> Tensor:
    """Let the tensor see the memory of `source` from now on. Raises RuntimeError for a leaf that requires grad."""
    check_writable(self, "set_", mode.recording and self.node is not None)
    if source is None:
        source = wrap(np.zeros(0, self.array.dtype))
    elif not isinstance(source, Tensor):
        typed = getattr(source, "dtype", None)
        if typed is not None and typed is not self.dtype:
            raise RuntimeError(f"Expected a Storage of type {self.dtype.name} but got type {typed.name}")
        source = wrap(source.array.view(self.array.dtype).reshape(-1))
    if source.array.dtype != self.array.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
    if size is not None:
        source = as_strided(source.detach(), size, stride or dense_strides(parse_shape((size,))), storage_offset)
    version, former = self._version, self.node
    if type(former) is Leaf:  # the graph that was recorded with the memory of before ends where it did
        self.node = Leaf(self)
        if former.hooks is not None:
            hooks = hooks_of(self.node)
            hooks.tensor_pre_hooks, hooks.post_accumulate_hooks = (
                former.hooks.tensor_pre_hooks,
                former.hooks.post_accumulate_hooks,
            )
    self.data = source.detach()
    if not isinstance(self.storage_, InferenceStorage):
        storage_of(self).version = max(storage_of(self).version, version + 1)
    return self
