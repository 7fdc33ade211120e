"""Walking a tree of modules, and finding parts of it by dotted names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.parameter import Parameter

if TYPE_CHECKING:
    from adjoint.nn.module.module import Module


def named_children(self: Module) -> Iterator[tuple[str, Module]]:
    """The modules registered here with their names, each once."""
    seen: set[int] = set()
    for name, child in self._modules.items():
        if child is not None and id(child) not in seen:
            seen.add(id(child))
            yield name, child


def named_modules(
    self: Module, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
) -> Iterator[tuple[str, Module]]:
    """This module and all below it with their dotted names, parents first; each once with `remove_duplicate`."""
    seen = set() if memo is None else memo
    if self in seen:
        return
    if remove_duplicate:
        seen.add(self)
    yield prefix, self
    for name, child in self._modules.items():
        if child is not None:
            yield from child.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)


def named_parameters(
    self: Module, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
) -> Iterator[tuple[str, Parameter]]:
    """The parameters with their dotted names; each once with `remove_duplicate`."""
    return _named(self, "_parameters", prefix, recurse, remove_duplicate)


def named_buffers(
    self: Module, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """The buffers with their dotted names; each once with `remove_duplicate`."""
    return _named(self, "_buffers", prefix, recurse, remove_duplicate)


def _named(self: Module, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
    for path, module in modules:
        for name, tensor in getattr(module, table).items():
            if tensor is None or id(tensor) in seen:
                continue
            if remove_duplicate:
                seen.add(id(tensor))
            yield (f"{path}.{name}" if path else name), tensor


def get_submodule(self: Module, target: str) -> Module:
    """The module at a dotted name; this one for "". Raises AttributeError naming the part that is missing."""
    module: Any = self
    for name in target.split(".") if target else ():
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        module = getattr(module, name)
        if not isinstance(module, _kind(self)):
            raise AttributeError(f"`{name}` is not an nn.Module")
    found: Module = module
    return found


def set_submodule(self: Module, target: str, module: Module, strict: bool = False) -> None:
    """Put `module` at a dotted name, where there is one or, unless `strict`, where there is none yet.

    Raises ValueError for a name of no parts and for other values, AttributeError naming the part that is missing.
    """
    if not target:
        raise ValueError("Cannot set the submodule without a target name!")
    if not isinstance(module, _kind(self)):
        raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
    path, _, name = target.rpartition(".")
    parent = self.get_submodule(path)
    if strict and not hasattr(parent, name):
        raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
    if hasattr(parent, name) and not isinstance(getattr(parent, name), _kind(self)):
        raise AttributeError(f"`{name}` is not an nn.Module")
    setattr(parent, name, module)


def get_parameter(self: Module, target: str) -> Parameter:
    """The parameter at a dotted name. Raises AttributeError if there is none."""
    found: Parameter = _get(self, target, "_parameters", "nn.Parameter")
    return found


def get_buffer(self: Module, target: str) -> Tensor:
    """The buffer at a dotted name. Raises AttributeError if there is none."""
    found: Tensor = _get(self, target, "_buffers", "buffer")
    return found


def _get(self: Module, target: str, table: str, what: str) -> Any:
    path, _, name = target.rpartition(".")
    module = self.get_submodule(path)
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if name not in getattr(module, table):
        raise AttributeError(f"`{name}` is not an {what}" if table == "_parameters" else f"`{name}` is not a {what}")
    return getattr(module, name)


def _kind(module: Module) -> type:
    from adjoint.nn.module.module import Module

    return Module
