"""The equations that have a kernel of their own kind, and which kind that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import View
from adjoint.compiler.kernels.kernel import Kernel, Known
from adjoint.compiler.llvm.jit.target import Target, host

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group

Views = dict[Value, View]


class Kind(NamedTuple):
    """A kind of kernel: which equations can be its root, and how a group with such a root is lowered.

    `joins(root)`: it takes in what follows its root element by element.
    """

    accepts: Callable[[Value, Views, Target], bool]
    lower: Callable[[Group, Fusion, Target, Known], Kernel]
    joins: Callable[[Value], bool]


@cache
def _product() -> Kind:
    from adjoint.compiler.kernels.matmul import lowering

    return Kind(lowering.accepts, lowering.lower, lowering.joins)


@cache
def _reading() -> Kind:
    from adjoint.compiler.kernels.gather_scatter import lowering as indexed

    return Kind(indexed.reads, indexed.lower_reading, lambda root: True)


@cache
def _writing() -> Kind:
    from adjoint.compiler.kernels.gather_scatter import lowering as indexed

    return Kind(indexed.writes, indexed.lower_writing, lambda root: False)


@cache
def _spatial() -> Kind:
    from adjoint.compiler.kernels.conv_pool import lowering as convolved

    return Kind(convolved.accepts, convolved.lower, lambda root: True)


@cache
def _draw() -> Kind:
    from adjoint.compiler.kernels.random import lowering as drawn

    return Kind(drawn.accepts, drawn.lower, lambda root: False)


@cache
def _attention() -> Kind:
    from adjoint.compiler.kernels.attention import lowering as attended

    return Kind(attended.accepts, attended.lower, lambda root: False)


# A kind's modules are imported when the first such equation comes: most steps have few kinds.
KINDS = {
    "attention": _attention,
    "attention_gradient": _attention,
    "bmm": _product,
    "cat": _reading,
    "coin": _draw,
    "convolution": _spatial,
    "convolution_input": _spatial,
    "convolution_weight": _spatial,
    "dropout_factor": _draw,
    "exponential": _draw,
    "gated_mm": _product,
    "gather": _reading,
    "index": _reading,
    "index_add": _writing,
    "max_pool": _spatial,
    "max_pool_input": _spatial,
    "mm": _product,
    "normal": _draw,
    "pad": _writing,
    "put_index": _writing,
    "put_slice": _writing,
    "randint": _draw,
    "scatter": _writing,
    "scatter_add": _writing,
    "scatter_reduce": _writing,
    "uniform": _draw,
    "unslice": _writing,
    "window_sum": _spatial,
    "window_sum_input": _spatial,
}


def kind_of(value: Value, views: Views) -> Kind | None:
    """The kind of kernel that an equation begins; None if it begins none."""
    made = KINDS.get(value.op.name)
    if made is None:
        return None
    kind = made()
    return kind if kind.accepts(value, views, host()) else None
