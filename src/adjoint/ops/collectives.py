"""Exchanges between ranks, as ops with an effect: a compiled step makes them in the order in which it was traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import ClassVar, Protocol, cast

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.exchange_log import ExchangeTimes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.creation import full


class ReduceOp(Enum):
    """Reductions of the values of several ranks; AVG divides the sum by their number."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    RedOpType: ClassVar[type[ReduceOp]]  # the class of the members, which PyTorch gives this name too


ReduceOp.RedOpType = ReduceOp
How = ReduceOp | int | None  # the reduction of a collective, or its root


class RankGroup(Protocol):
    """Group of ranks that exchanges arrays: `adjoint.distributed.ProcessGroup`."""

    def size(self) -> int:
        """Return the number of ranks."""
        ...

    def rank(self) -> int:
        """Return the number of this process."""
        ...

    def exchange_into(self, name: str, out: Array, x: Array, how: How) -> None:
        """Write into `out` what the collective `name` makes of all ranks' x; `how` is its reduction or its root."""
        ...


class GradientBucket(Protocol):
    """Gradients that ranks add up while backward goes on: `GradBucket` of `adjoint.distributed`."""

    times: ExchangeTimes  # of its exchanges, which may go on behind
    memory: Array  # in which the sums come to lie

    @property
    def group(self) -> RankGroup:
        """The ranks."""
        ...

    def start(self, gradients: Sequence[Array]) -> None:
        """Begin to add up all ranks' gradients."""
        ...

    def finish(self) -> Array:
        """Wait for the sums, and return them."""
        ...


def _same_spec(x: Operand, **_: object) -> Spec:
    return Spec(x.shape, x.dtype)


def _exchange(name: str, x: Array, shape: tuple[int, ...], group: RankGroup, how: How) -> Array:
    out = np.empty(shape, x.dtype)
    group.exchange_into(name, out, x, how)
    return out


def _multiply_rows(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the shape of `count` times as many rows."""
    return (count * shape[0], *shape[1:])


def _differentiate_reduction(g: Tensor, group: RankGroup, how: How) -> Tensor:
    """Return the reduction of all ranks' gradients: the gradient of a sum is a sum, that of a mean a mean."""
    if how not in {ReduceOp.SUM, ReduceOp.AVG}:
        name = how.name if isinstance(how, ReduceOp) else how
        raise NotImplementedError(f"the gradient of all_reduce by {name}: sums and means have one")
    return cast("Tensor", all_reduce(g, group=group, how=how))


def collective(**facets: Function) -> Callable[[Function], Function]:
    """Declare an exchange: it happens in order, whether or not its result is used, and may fail."""
    return primitive(family="collective", effect=True, raises=True, **facets)


@collective(spec=_same_spec, dx=_differentiate_reduction)
def all_reduce(x: Array, *, group: RankGroup, how: How) -> Array:
    """Reduction of all ranks' x; each gets it."""
    return _exchange("all_reduce", x, x.shape, group, how)


def _differentiate_broadcast(g: Operand, group: RankGroup, how: How) -> Tensor:
    """Return the sum of all ranks' gradients on the one whose values all have, and zeros on the others."""
    total = cast("Tensor", all_reduce(g, group=group, how=ReduceOp.SUM))
    if group.rank() == how:
        return total
    return cast("Tensor", full(shape=g.shape, value=0, dtype=g.dtype if isinstance(g, np.ndarray) else g.array.dtype))


@collective(spec=_same_spec, dx=_differentiate_broadcast)
def broadcast(x: Array, *, group: RankGroup, how: How) -> Array:
    """The values of rank `how`."""
    return _exchange("broadcast", x, x.shape, group, how)


@collective(
    spec=lambda x, *, group, how: Spec(_multiply_rows(x.shape, group.size()), x.dtype),
    dx=lambda g, group, how: reduce_scatter(g, group=group, how=how),
)
def all_gather(x: Array, *, group: RankGroup, how: How) -> Array:
    """All ranks' x, one below the other; `how` is the reduction of its gradient, the sum."""
    return _exchange("all_gather_into_tensor", x, _multiply_rows(x.shape, group.size()), group, how)


@collective(
    spec=lambda x, *, group, how: Spec((x.shape[0] // group.size(), *x.shape[1:]), x.dtype),
    dx=lambda g, group, how: all_gather(g, group=group, how=how),
)
def reduce_scatter(x: Array, *, group: RankGroup, how: How) -> Array:
    """This rank's rows of the reduction of all ranks' x."""
    return _exchange("reduce_scatter_tensor", x, (x.shape[0] // group.size(), *x.shape[1:]), group, how)


@collective(spec=_same_spec, dx=lambda g, group, how: all_to_all(g, group=group, how=how))
def all_to_all(x: Array, *, group: RankGroup, how: How) -> Array:
    """The blocks of rows that all ranks have for this one, in the order of the ranks."""
    return _exchange("all_to_all_single", x, x.shape, group, how)


@collective(spec=lambda *gradients, bucket: Spec((0,), bucket.memory.dtype))
def start_all_reduce(*gradients: Array, bucket: GradientBucket) -> Array:
    """No elements, for `finish_all_reduce`: ranks begin to add up the gradients."""
    bucket.start(gradients)
    return np.empty(0, bucket.memory.dtype)


@collective(spec=lambda started, *, bucket: Spec(bucket.memory.shape, bucket.memory.dtype))
def finish_all_reduce(started: Array, *, bucket: GradientBucket) -> Array:
    """The sums of what ranks began to add up, once all have them, in the bucket's memory."""
    return bucket.finish()


@primitive(family="boundary", effect=True, spec=_same_spec, dx=lambda g: separate_shard(g))
def separate_shard(x: Array) -> Array:
    """x, of which a compiled step makes the same kernels whatever stands before: rounding depends on them."""
    return x
