"""Tensors that a module keeps: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self, TypeVar

from adjoint.core.exposure import take_over
from adjoint.core.overriding import disabled
from adjoint.core.spoken import spoken
from adjoint.core.storage import share
from adjoint.core.tensor import Tensor, fill
from adjoint.core.wrap import as_array


class Parameter(Tensor):
    """A leaf that a module registers when it is assigned as an attribute. Shares the memory of `data`."""

    __slots__ = ()
    __torch_function__ = disabled

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        return _made(cls, data).requires_grad_(requires_grad)


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned as an attribute.

    Buffers that are not `persistent` are left out of the state dict. Shares the memory of `data`.
    """

    __slots__ = ()
    __torch_function__ = disabled
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        made = _made(cls, data)
        made.persistent = persistent
        return made


for _kind in (Parameter, Buffer):
    spoken.place(_kind, "nn.parameter")
Kind = TypeVar("Kind", bound=Tensor)


def _made(kind: type[Kind], data: Any) -> Kind:
    """A tensor of this class on the memory of `data`, without its history; without elements if that is None."""
    made = object.__new__(kind)
    if isinstance(data, Tensor):
        fill(made, data.array)
        share(data, made)
    else:
        fill(made, as_array(() if data is None else data))
        take_over(made, data)
    return made


def __getattr__(name: str) -> Any:
    """The kinds without a shape yet, where programs written for PyTorch import them."""
    if name not in ("UninitializedBuffer", "UninitializedParameter", "is_lazy"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("adjoint.nn.uninitialized"), name)
