"""Tensors that a module keeps: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any

from adjoint.core.exposure import take_over
from adjoint.core.storage import share
from adjoint.core.tensor import Tensor, fill
from adjoint.core.wrap import as_array


class Parameter(Tensor):
    """A leaf that a module registers when it is assigned as an attribute. Shares the memory of `data`."""

    __slots__ = ()

    def __init__(self, data: Any = (), requires_grad: bool = True) -> None:
        _take(self, data)
        self.requires_grad_(requires_grad)


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned as an attribute.

    Buffers that are not `persistent` are left out of the state dict. Shares the memory of `data`.
    """

    __slots__ = ()
    persistent: bool

    def __init__(self, data: Any = (), *, persistent: bool = True) -> None:
        _take(self, data)
        self.persistent = persistent


def _take(tensor: Tensor, data: Any) -> None:
    """Let `tensor` stand on the memory of `data`, without its history."""
    if isinstance(data, Tensor):
        fill(tensor, data.array)
        share(data, tensor)
    else:
        fill(tensor, as_array(data))
        take_over(tensor, data)
