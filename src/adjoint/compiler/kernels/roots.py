"""The equations that have a kernel of their own kind, and which kind that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.graph import Value
from adjoint.compiler.kernels.attention import attended
from adjoint.compiler.kernels.images import convolved
from adjoint.compiler.kernels.kernel import Kernel, Known
from adjoint.compiler.kernels.positions import indexed
from adjoint.compiler.kernels.products import contraction
from adjoint.compiler.kernels.streams import drawn
from adjoint.compiler.llvm.target import Target, host
from adjoint.compiler.view import View

if TYPE_CHECKING:
    from adjoint.compiler.fuse import Fusion
    from adjoint.compiler.group import Group

Views = dict[Value, View]


class Kind(NamedTuple):
    """A kind of kernel: which equations can be its root, and how a group with such a root is lowered.

    `joins(root)`: it takes in what follows its root element by element.
    """

    accepts: Callable[[Value, Views, Target], bool]
    lower: Callable[[Group, Fusion, Target, Known], Kernel]
    joins: Callable[[Value], bool]


PRODUCT = Kind(contraction.accepts, contraction.lower, contraction.joins)
READING = Kind(indexed.reads, indexed.lower_reading, lambda root: True)
WRITING = Kind(indexed.writes, indexed.lower_writing, lambda root: False)
SPATIAL = Kind(convolved.accepts, convolved.lower, lambda root: True)
DRAW = Kind(drawn.accepts, drawn.lower, lambda root: False)
ATTENTION = Kind(attended.accepts, attended.lower, lambda root: False)

KINDS = {
    "attention": ATTENTION,
    "attention_gradient": ATTENTION,
    "bmm": PRODUCT,
    "cat": READING,
    "coin": DRAW,
    "convolution": SPATIAL,
    "convolution_input": SPATIAL,
    "convolution_weight": SPATIAL,
    "dropout_factor": DRAW,
    "exponential": DRAW,
    "gather": READING,
    "index": READING,
    "index_add": WRITING,
    "max_pool": SPATIAL,
    "max_pool_input": SPATIAL,
    "mm": PRODUCT,
    "normal": DRAW,
    "pad": WRITING,
    "put_index": WRITING,
    "put_slice": WRITING,
    "randint": DRAW,
    "scatter": WRITING,
    "scatter_add": WRITING,
    "scatter_reduce": WRITING,
    "uniform": DRAW,
    "unslice": WRITING,
    "window_sum": SPATIAL,
    "window_sum_input": SPATIAL,
}


def kind_of(value: Value, views: Views) -> Kind | None:
    """The kind of kernel that an equation begins; None if it begins none."""
    kind = KINDS.get(value.op.name)
    return kind if kind is not None and kind.accepts(value, views, host()) else None
