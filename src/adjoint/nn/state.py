"""A module's state as a flat dict of tensors under dotted names, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adjoint.core.mode import Scope
from adjoint.core.tensor import Tensor, wrap
from adjoint.nn.parameter import Parameter

if TYPE_CHECKING:
    from adjoint.nn.module import Module


class IncompatibleKeys(NamedTuple):
    """Names that the state dict lacks, and names in it for which the module has no place."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def state_dict(
    self: Module, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
) -> OrderedDict[str, Tensor]:
    """Parameters and persistent buffers by dotted name, detached, in the module's own memory.

    `keep_vars` gives the tensors themselves; `destination` is a dict to fill.
    """
    found = OrderedDict[str, Tensor]() if destination is None else destination
    for name, tensor in _own(self):
        found[prefix + name] = tensor if keep_vars else tensor.detach()
    for name, child in self._modules.items():
        if child is not None:
            child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    filled: OrderedDict[str, Tensor] = found
    return filled


def load_state_dict(
    self: Module, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
) -> IncompatibleKeys:
    """Write the tensors (or ndarrays) of `state_dict` into this module's; `assign` puts them in the place of its own.

    Raises RuntimeError, and changes nothing, for other shapes, for values that are no tensors and, when `strict`, for
    names missing or unexpected.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    places = dict(_places(self))
    keys = IncompatibleKeys([n for n in places if n not in state_dict], [n for n in state_dict if n not in places])
    given = {name: _tensor(state_dict[name]) for name in places if name in state_dict}
    faults = _key_faults(keys) if strict else []
    faults += [
        fault
        for name, (module, own) in places.items()
        if name in given and (fault := _value_fault(name, state_dict[name], given[name], getattr(module, own)))
    ]
    if faults:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(faults))
    with Scope(recording=False):
        for name, tensor in given.items():
            module, own = places[name]
            if assign:
                _assign(module, own, tensor)
            else:
                getattr(module, own).copy_(tensor)
    return keys


def _own(module: Module) -> Iterator[tuple[str, Tensor]]:
    """The module's own parameters and persistent buffers."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._transient:
            yield name, buffer


def _places(module: Module) -> Iterator[tuple[str, tuple[Module, str]]]:
    """For each name of the state, shared modules under all their names: the module that has it, and its name there."""
    for path, part in module.named_modules(remove_duplicate=False):
        for name, _ in _own(part):
            yield (f"{path}.{name}" if path else name), (part, name)


def _tensor(value: Any) -> Any:
    """`value` as a tensor if it is one or an ndarray; else None."""
    if isinstance(value, np.ndarray):
        return wrap(value)
    return value if isinstance(value, Tensor) else None


def _key_faults(keys: IncompatibleKeys) -> list[str]:
    kinds = (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys))
    return [f"{kind} key(s) in state_dict: {', '.join(map(_quoted, names))}. " for kind, names in kinds if names]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _value_fault(name: str, value: Any, tensor: Any, own: Tensor) -> str | None:
    if tensor is None:
        return (
            f'While copying the parameter named "{name}", expected Tensor or Tensor-like object from checkpoint but '
            f"received {type(value)}"
        )
    if tensor.array.shape != own.array.shape:
        return (
            f"size mismatch for {name}: copying a param with shape {tensor.shape} from checkpoint, the shape in "
            f"current model is {own.shape}."
        )
    return None


def _assign(module: Module, name: str, tensor: Tensor) -> None:
    own = getattr(module, name)
    if isinstance(own, Parameter) and not isinstance(tensor, Parameter):
        tensor = Parameter(tensor, requires_grad=own.requires_grad)
    setattr(module, name, tensor)
