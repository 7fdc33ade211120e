"""Layouts and memory formats under PyTorch's names. All tensors are strided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.core.runtime.package_name import display_name
from adjoint.core.typing import Array, Operand


class _Named:
    """A value of the package by its name there."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{display_name.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(_Named):
    """A layout: `adjoint.strided` is the only one that tensors have; others can be named."""

    __slots__ = ()


class memory_format(_Named):
    """An order of dimensions in memory: `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`."""

    __slots__ = ("order",)

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        super().__init__(name)
        self.order = order  # of dimensions, the slowest first; empty for the order they are in


strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc, jagged = layout("sparse_bsr"), layout("sparse_bsc"), layout("jagged")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))


def preserve_strides(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap an element-wise function so that its result has the memory order of its operand, without gaps."""

    @wraps(function)
    def call(x: Operand) -> Operand:
        return function(x) if x.ndim < 2 or x.flags.c_contiguous else call_row_major(function, x)

    vars(call)["parameters"] = ("x",)
    return call


def call_row_major(function: Callable[[Any], Any], x: Array) -> Operand:
    """Call `function` on x transposed to row-major order, and transpose the result back; None if it returns None."""
    order = sorted_dims(x.shape, x.strides)
    out = function(np.ascontiguousarray(x.transpose(order)))
    return None if out is None else out.transpose(np.argsort(order))


def sorted_dims(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the dimensions from the largest stride to the smallest, as PyTorch's TensorIterator sorts them.

    A dimension of stride 0 stays where it is.
    """
    order = list(range(len(shape)))[::-1]  # innermost first
    for i in range(1, len(order)):
        place = i
        for before in reversed(range(i)):
            compared = _compare_dims(order[before], order[place], shape, strides)
            if compared > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif compared < 0:
                break
    order.reverse()
    return order


def _compare_dims(a: int, b: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    if not strides[a] or not strides[b]:
        return 0
    if strides[a] != strides[b]:
        return 1 if strides[a] > strides[b] else -1
    return 1 if shape[a] > shape[b] else 0
