"""Tensors that a module keeps: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Self, TypeVar

from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.construction import as_array
from adjoint.core.tensor.external_aliases import import_array
from adjoint.core.tensor.storage import share_storage
from adjoint.core.tensor.tensor import Tensor, init_slots
from adjoint.core.tensor.torch_function import disabled_torch_function_impl
from adjoint.core.typing import Operand


class Parameter(Tensor):
    """Trainable tensor that a module registers when it is assigned as an attribute.

    The parameter is a leaf and shares the memory of `data`.

    Args:
        data: Tensor or array with the initial values. Default: None, no elements.
        requires_grad: False for a parameter that is not trained. Default: True.

    Example:
        >>> nn.Parameter(ad.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function_impl

    def __new__(cls, data: Operand = None, requires_grad: bool = True) -> Self:
        return _wrap_data(cls, data).requires_grad_(requires_grad)


class Buffer(Tensor):
    """Tensor that a module registers as a buffer when it is assigned as an attribute: state that is not trained.

    The buffer shares the memory of `data`.

    Args:
        data: Tensor or array with the initial values. Default: None, no elements.
        persistent: False to leave the buffer out of the state dict. Default: True.

    Example:
        >>> layer = nn.Module()
        >>> layer.mean = nn.Buffer(ad.zeros(2))
        >>> list(layer.state_dict())
        ['mean']
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function_impl
    persistent: bool

    def __new__(cls, data: Operand = None, *, persistent: bool = True) -> Self:
        made = _wrap_data(cls, data)
        made.persistent = persistent
        return made


for _kind in (Parameter, Buffer):
    display_name.place(_kind, "nn.parameter")
Kind = TypeVar("Kind", bound=Tensor)


def _wrap_data(kind: type[Kind], data: Operand) -> Kind:
    """Return a tensor of this class on the memory of `data`, without its history; without elements if that is None."""
    made = object.__new__(kind)
    if isinstance(data, Tensor):
        init_slots(made, data.array)
        share_storage(data, made)
    elif isinstance(data, (int, float, complex, str, list, tuple)):  # of which a tensor would be a copy
        raise TypeError(f"{kind.__name__}(): argument 'data' (position 1) must be Tensor, not {type(data).__name__}")
    else:
        init_slots(made, as_array(() if data is None else data))
        import_array(made, data)
    return made
