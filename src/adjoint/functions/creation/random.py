"""Random tensors: PyTorch's own CPU numbers for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.device import is_meta
from adjoint.core.dtype.dtype import default, numpy_dtype, real_type
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.random import samplers
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.memory_format import memory_format
from adjoint.core.tensor.shape_tracer import call_on_meta
from adjoint.core.tensor.tensor import Tensor, method, wrap
from adjoint.core.typing import DeviceLike, DtypeLike, Function, NumpyDtype, Operand, Shape, ShapeLike
from adjoint.functions.api.dim_args import parse_named_size, parse_shape
from adjoint.functions.api.memory_format import draw_in_memory_order, memory_order
from adjoint.functions.api.out import write_out
from adjoint.functions.api.publish import rename_node
from adjoint.functions.api.quiet_write import mark_quiet_write, quiet_array
from adjoint.functions.creation.creation import dtype_for_out, finish_factory
from adjoint.functions.indexing.gather import _broadcast_or_raise
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.elementwise.complex import view_as_complex_unshared
from adjoint.ops.movement import movement
from adjoint.ops.mutation.inplace import write_in_place
from adjoint.ops.random import draws as ops

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "normal", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip

INT64 = np.dtype(np.int64)


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of numbers at `seed`, and return that generator.

    Args:
        seed: integer; equal seeds give equal numbers.

    Example:
        >>> _ = ad.manual_seed(0)
        >>> ad.rand(2)
        tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default generator at a seed nobody can foresee, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed with which the default generator's stream began."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the default generator's place in its stream: uint8 (5056,), PyTorch's own format."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator where `get_rng_state` found it. Raises RuntimeError for anything else."""
    default_generator.set_state(new_state)


def rand(
    *size: ShapeLike,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    **named: object,
) -> Tensor:
    """Return random numbers, uniform over [0, 1).

    Args:
        *size: shape, as separate integers or one tuple; also `size=` by name.
        generator: `Generator` to draw from. Default: the one that `manual_seed` starts.
        out: tensor that takes the result; its dtype is used.
        dtype: floating or complex element type. Default: the default dtype.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.

    Example:
        >>> ad.rand(2, generator=ad.Generator().manual_seed(0))
        tensor([0.4963, 0.7682])
    """
    shape = parse_named_size(size, named) if named else parse_shape(size)
    if out is not None:
        return _fill_out(out, shape, rand, lambda x: uniform_(x, generator=generator), dtype)
    if dtype is None and device is None and generator is None and not requires_grad:  # as `_draw_factory` does it
        return ops.uniform(shape=shape, dtype=default.floating.numpy, low=0.0, high=1.0, generator=default_generator)
    return _draw_factory(rand, _draw_uniform, shape, dtype, generator, device, requires_grad)


def randn(
    *size: ShapeLike,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    **named: object,
) -> Tensor:
    """Return random numbers from the normal distribution with mean 0 and standard deviation 1.

    Args:
        *size: shape, as separate integers or one tuple; also `size=` by name.
        generator: `Generator` to draw from. Default: the one that `manual_seed` starts.
        out: tensor that takes the result; its dtype is used.
        dtype: element type, floating, or complex with variance 1/2 in each part. Default: the default dtype.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.

    Example:
        >>> ad.randn(3, generator=ad.Generator().manual_seed(0))
        tensor([ 1.5410, -0.2934, -2.1788])
    """
    shape = parse_named_size(size, named) if named else parse_shape(size)
    if out is not None:
        return _fill_out(out, shape, randn, lambda x: normal_(x, generator=generator), dtype)
    if dtype is None and device is None and generator is None and not requires_grad:  # as `_draw_factory` does it
        return ops.normal(shape=shape, dtype=default.floating.numpy, mean=0.0, std=1.0, generator=default_generator)
    return _draw_factory(randn, _draw_normal, shape, dtype, generator, device, requires_grad)


def _draw_factory(
    function: Function,
    draw: Function,
    shape: Shape,
    dtype: DtypeLike,
    generator: Generator | None,
    device: DeviceLike,
    requires_grad: bool,
) -> Tensor:
    if device is not None and is_meta(device):
        return call_on_meta(function, shape, dtype=dtype, requires_grad=requires_grad)
    kind = default.floating.numpy if dtype is None else numpy_dtype(dtype)
    return finish_factory(draw(shape, kind, 0.0, 1.0, generator or default_generator), requires_grad, device)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return `rand` in the shape and dtype of `input`, drawn in the order of its memory."""
    return _draw_like(input, _draw_uniform, dtype, generator, device, requires_grad, low=0.0, high=1.0)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return `randn` in the shape and dtype of `input`, drawn in the order of its memory."""
    serial = memory_order(input) is not None
    return _draw_like(input, _draw_normal, dtype, generator, device, requires_grad, mean=0.0, std=1.0, serial=serial)


def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return `randint` in the shape and dtype of `input`; `randint_like(input, high)` starts at 0."""
    low, high = (0, low) if high is None else (low, high)
    return _draw_like(input, ops.randint, dtype, generator, device, requires_grad, low=int(low), high=int(high))


def _draw_like(
    input: Tensor,
    draw: Function,
    dtype: DtypeLike,
    generator: Generator | None,
    device: DeviceLike,
    requires_grad: bool,
    **params: Any,
) -> Tensor:
    kind, source = numpy_dtype(dtype or input.dtype), generator or default_generator
    out = draw_in_memory_order(input, lambda shape: draw(shape=shape, dtype=kind, generator=source, **params))
    return finish_factory(out, requires_grad, device)


def normal(
    mean: Operand = 0.0,
    std: Operand = 1.0,
    size: ShapeLike | None = None,
    *,
    generator: Generator | None = None,
    out: Operand = None,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal numbers; mean and standard deviation are numbers, with a `size`, or tensors, element by element.

    Gradients of such tensors are zero, as PyTorch has them. Raises RuntimeError for a negative standard deviation.
    """
    source = generator or default_generator
    if size is not None:
        if out is not None:
            return _fill_out(
                out, parse_shape((size,)), normal, lambda x: normal_(x, mean, std, generator=source), dtype
            )
        kind = default.floating.numpy if dtype is None else numpy_dtype(dtype)
        return finish_factory(_draw_normal(parse_shape((size,)), kind, mean, std, source), requires_grad, device)
    if out is not None:
        return _normal_into(out, mean, std, source)
    if type(mean) is type(std) is Tensor and is_evaluated_alone(mean) and is_evaluated_alone(std):
        plain = samplers.normal_around(source, mean.array, std.array)
        if plain is not None:
            return wrap_unrecorded(plain)
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not given:
        raise TypeError("normal() of two numbers needs a size: normal(mean, std, size)")
    kind, shape = given[0].array.dtype, _broadcast_or_raise(*(x.array.shape for x in given))
    drawn = _draw_normal_with_std(shape, kind, std, source)
    drawn = arithmetic.add(drawn, mean.detach() if isinstance(mean, Tensor) else mean)
    made = drawn if drawn.array.dtype == kind else select.cast(drawn, dtype=kind)
    which = 1 + isinstance(std, Tensor) + (isinstance(std, Tensor) and isinstance(mean, Tensor))
    return _attach_zero_gradient(made, given, f"NormalBackward{which}")


def randint(
    low: int = 0,
    high: Operand = None,
    size: ShapeLike | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return random integers of [low, high), all equally likely.

    Args:
        low: smallest integer. Default: 0; `randint(high, size)` starts there.
        high: bound, not included.
        size: shape, a tuple.
        generator: `Generator` to draw from. Default: the one that `manual_seed` starts.
        out: tensor that takes the result; its dtype is used.
        dtype: element type. Default: int64.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result, of a floating dtype. Default: False.
        layout, pin_memory: ignored.

    Example:
        >>> ad.randint(1, 7, (5,), generator=ad.Generator().manual_seed(0))
        tensor([3, 4, 6, 1, 2])
    """
    if size is None:
        if high is None:
            raise TypeError("randint() missing 1 required positional argument: 'size'")
        low, high, size = 0, low, high
    elif high is None:
        if not low:
            raise TypeError("randint() missing 1 required positional argument: 'high'")
        low, high = 0, low
    if isinstance(size, int):
        raise TypeError("randint(): argument 'size' must be tuple of ints, not int")
    if out is not None:
        return _fill_out(
            out, parse_shape((size,)), randint, lambda x: random_(x, low, high, generator=generator), dtype
        )
    kind = INT64 if dtype is None else numpy_dtype(dtype)
    made = ops.randint(
        shape=parse_shape((size,)), dtype=kind, low=low, high=high, generator=generator or default_generator
    )
    return finish_factory(made, requires_grad, device)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Operand = None,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the integers below n in random order.

    Args:
        n: how many integers.
        generator: `Generator` to draw from. Default: the one that `manual_seed` starts.
        out: tensor that takes the result; its dtype is used.
        dtype: element type. Default: int64.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result, of a floating dtype. Default: False.
        layout, pin_memory: ignored.

    Example:
        >>> ad.randperm(5, generator=ad.Generator().manual_seed(0))
        tensor([4, 0, 1, 3, 2])
    """
    if out is not None:
        return write_out(out, randperm, n, generator=generator, dtype=out.dtype)
    kind = INT64 if dtype is None else numpy_dtype(dtype)
    made = ops.randperm(count=n, dtype=kind, generator=generator or default_generator)
    return finish_factory(made, requires_grad, device)


@method
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Return 1 with the probability that `input` has at the element, else 0; or with probability p everywhere.

    The gradient is zero. Raises RuntimeError for a probability outside [0, 1].
    """
    if out is not None:
        chances = input if p is None else p
        return _fill_out(out, input.array.shape, bernoulli, lambda x: bernoulli_(x, chances, generator=generator))
    source, kind = generator or default_generator, input.array.dtype
    if p is None:
        if kind.kind == "f" and is_evaluated_alone(input):
            return wrap_unrecorded(source.bernoulli(input.array.shape, input.array, kind))
        return ops.bernoulli(input, dtype=kind, generator=source)
    return _attach_zero_gradient(
        ops.coin(shape=input.array.shape, dtype=kind, p=p, generator=source), [input], "BernoulliBackward0"
    )


@method
def uniform_(
    self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **ends: float
) -> Tensor:
    """Fill with numbers uniform over [a, b); the ends are called `from` and `to` as well."""
    low, high = _parse_from_to("uniform_", ends, a, b) if ends else (a, b)
    return fill_with_draws(self, "uniform_", _draw_uniform, generator, low=low, high=high)


@method
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers normal with this mean and standard deviation."""
    serial = not self.is_contiguous()
    return fill_with_draws(self, "normal_", _draw_normal, generator, mean=mean, std=std, serial=serial)


@method
def bernoulli_(self: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability p, else 0."""
    if not isinstance(p, Tensor):
        return fill_with_draws(self, "bernoulli_", ops.coin, generator, p=p)
    source, kind = generator or default_generator, self.array.dtype
    chances = movement.expand(p.detach(), shape=self.array.shape)
    order = memory_order(self) or list(range(self.ndim))
    drawn = ops.bernoulli(movement.permute(chances, axes=tuple(order)), dtype=kind, generator=source)
    return write_in_place(self, movement.permute(drawn, axes=tuple(map(order.index, range(self.ndim)))), "bernoulli_")


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers exponential with rate `lambd`."""
    return fill_with_draws(self, "exponential_", ops.exponential, generator, rate=lambd)


@method
def random_(self: Tensor, *range: float | None, generator: Generator | None = None, **ends: float | None) -> Tensor:
    """Fill with integers: from 0 to the largest of the dtype, `random_(to)` of [0, to), or `random_(from, to)`.

    Floating dtypes go as far as they have no gaps. With None for `to`, the largest of the dtype is the last.
    """
    low, high = _parse_from_to("random_", ends, *range) if len(range) != 1 or "to" in ends else (0, range[0])
    if high is not None:
        return fill_with_draws(self, "random_", ops.randint, generator, low=low, high=high)
    first = None if not range and not ends else low
    return fill_with_draws(self, "random_", ops.random_integers, generator, low=first)


def fill_with_draws(self: Tensor, name: str, draw: Function, generator: Generator | None, **params: Any) -> Tensor:
    """Fill a tensor with `draw(shape=…, dtype=…, generator=…, **params)`, in the order of its memory."""
    kind, source = self.array.dtype, generator or default_generator
    array = quiet_array(self)
    if array is not None:
        array[...] = draw(shape=array.shape, dtype=kind, generator=source, **params).array
        mark_quiet_write(self, array)
        return self
    drawn = draw_in_memory_order(self, lambda shape: draw(shape=shape, dtype=kind, generator=source, **params))
    return write_in_place(self, drawn, name)


def _draw_uniform(shape: Shape, dtype: NumpyDtype, low: float, high: float, generator: Generator) -> Tensor:
    """Draw uniform numbers; of complex ones both parts are uniform."""
    if dtype.kind != "c":
        return ops.uniform(shape=shape, dtype=dtype, low=low, high=high, generator=generator)
    parts = ops.uniform(shape=(*shape, 2), dtype=real_type(dtype), low=low, high=high, generator=generator)
    return view_as_complex_unshared(parts)


def _draw_normal(
    shape: Shape, dtype: NumpyDtype, mean: float, std: float, generator: Generator, serial: bool = False
) -> Tensor:
    """Draw normal numbers; either part of complex ones has this mean, and both together the variance."""
    draw = ops.serial_normal if serial else ops.normal
    if dtype.kind != "c":
        return draw(shape=shape, dtype=dtype, mean=mean, std=std, generator=generator)
    part = std * 0.5**0.5
    return view_as_complex_unshared(
        draw(shape=(*shape, 2), dtype=real_type(dtype), mean=mean, std=part, generator=generator)
    )


def _draw_normal_with_std(shape: Shape, kind: NumpyDtype, std: Tensor | float, generator: Generator) -> Tensor:
    """Draw normal numbers with mean 0."""
    if not isinstance(std, Tensor):
        return _draw_normal(shape, kind, 0.0, std, generator)
    if std.array.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    checked = ops.standard_deviation(std.detach())
    return arithmetic.mul(_draw_normal(shape, kind, 0.0, 1.0, generator), checked)


def _normal_into(out: Tensor, mean: Operand, std: Operand, generator: Generator) -> Tensor:
    """Fill `out` in PyTorch's steps: draw in its type and memory order, then scale, then add the mean."""
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    shape = _broadcast_or_raise(*(x.array.shape for x in given))
    if not isinstance(std, Tensor):
        return _fill_out(out, shape, normal, lambda x: x.normal_(0.0, std, generator=generator).add_(mean))
    scale = ops.standard_deviation(std.detach())
    return _fill_out(out, shape, normal, lambda x: x.normal_(0.0, 1.0, generator=generator).mul_(scale).add_(mean))


def _attach_zero_gradient(drawn: Tensor, sources: list[Tensor], kind: str) -> Tensor:
    """Return the drawn numbers with a gradient of zero for the tensors that they depend on."""
    for x in sources:
        if x.requires_grad and mode.recording:
            out = select.where(wrap(np.array(False)), x, drawn)
            drawn = rename_node(
                out if out.array.dtype == drawn.array.dtype else select.cast(out, dtype=drawn.array.dtype), kind
            )
    return drawn


def _fill_out(out: Tensor, shape: Shape, function: Function, fill: Function, dtype: DtypeLike = None) -> Tensor:
    """Return `out` with the shape, filled in place. Raises RuntimeError for a `dtype` that is not its own."""
    dtype_for_out(out, dtype)

    def make_zeros() -> Tensor:
        return wrap(np.zeros(tuple(shape), out.array.dtype))

    make_zeros.__name__ = function.__name__
    if tuple(out.array.shape) != tuple(shape) or (out.requires_grad and mode.recording):
        write_out(out, make_zeros)
    with ModeScope(recording=False):
        return fill(out)


def _parse_from_to(
    name: str, given: dict[str, Operand], low: Operand = 0, high: Operand = None
) -> tuple[Operand, Operand]:
    """Return the bounds of a range, of which those given by name have names that Python keeps for itself."""
    for word in given:
        if word not in ("from", "to"):
            raise TypeError(f"{name}() got an unexpected keyword argument {word!r}")
    return given.get("from", low), given.get("to", high)
