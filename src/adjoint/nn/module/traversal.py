"""Walking a tree of modules, and finding parts of it by dotted names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.core.runtime.mode import nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.nn.module.module_path import guard_contents
from adjoint.nn.module.module_state import AnyModule, ModuleState, Part, module_class_slot
from adjoint.nn.module.parameter import Parameter


def named_children(self: ModuleState[Part]) -> Iterator[tuple[str, Part]]:
    """Yield the modules registered here with their names, each once."""
    seen: set[int] = set()
    for name, child in self._modules.items():
        if child is not None and id(child) not in seen:
            seen.add(id(child))
            yield name, child


def named_modules(
    self: ModuleState[Part], memo: set[Part] | None = None, prefix: str = "", remove_duplicate: bool = True
) -> Iterator[tuple[str, Part]]:
    """Return an iterator over pairs (dotted name, module), this module first.

    Parents come before their children.

    Args:
        memo: set of modules to leave out; visited modules are added. Default: None, an empty set.
        prefix: name of this module. Default: "".
        remove_duplicate: False to repeat a module under each of its names. Default: True.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1']
    """
    seen = set() if memo is None else memo
    own: Any = self  # a module is of the kind that its parts are of
    if own in seen:
        return
    if remove_duplicate:
        seen.add(own)
    if nondefault.count:
        guard_contents(own)
    yield prefix, own
    for name, child in self._modules.items():
        if child is not None:
            yield from child.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)


def named_parameters(
    self: AnyModule, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
) -> Iterator[tuple[str, Parameter]]:
    """Return an iterator over pairs (dotted name, parameter).

    Args:
        prefix: text before each name, joined by a dot. Default: "".
        recurse: False to leave out the parameters of submodules. Default: True.
        remove_duplicate: False to repeat a parameter under each of its names. Default: True.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias']
    """
    return _iterate_named_tensors(self, "_parameters", prefix, recurse, remove_duplicate)


def named_buffers(
    self: AnyModule, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """Yield the buffers with their dotted names; each once with `remove_duplicate`."""
    return _iterate_named_tensors(self, "_buffers", prefix, recurse, remove_duplicate)


def _iterate_named_tensors(
    self: AnyModule, table: str, prefix: str, recurse: bool, remove_duplicate: bool
) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
    for path, module in modules:
        for name, tensor in getattr(module, table).items():
            if tensor is None or id(tensor) in seen:
                continue
            if remove_duplicate:
                seen.add(id(tensor))
            yield (f"{path}.{name}" if path else name), tensor


def get_submodule(self: ModuleState[Part], target: str) -> Part:
    """Return the module at a dotted name.

    Args:
        target: names joined by dots; "" is this module.

    Raises: AttributeError for a missing name, and for an attribute that is not a module.

    Example:
        >>> model = nn.Sequential(nn.Sequential(nn.Linear(2, 1)))
        >>> model.get_submodule("0.0")
        Linear(in_features=2, out_features=1, bias=True)
    """
    module: Any = self
    for name in target.split(".") if target else ():
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        module = getattr(module, name)
        if not isinstance(module, module_class_slot.call()):
            raise AttributeError(f"`{name}` is not an nn.Module")
    found: Part = module
    return found


def set_submodule(self: ModuleState[Part], target: str, module: Part, strict: bool = False) -> None:
    """Put `module` at a dotted name, where there is one or, unless `strict`, where there is none yet.

    Raises ValueError for a name of no parts and for other values, AttributeError naming the part that is missing.
    """
    if not target:
        raise ValueError("Cannot set the submodule without a target name!")
    if not isinstance(module, module_class_slot.call()):
        raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
    path, _, name = target.rpartition(".")
    parent = self.get_submodule(path)
    if strict and not hasattr(parent, name):
        raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
    if hasattr(parent, name) and not isinstance(getattr(parent, name), module_class_slot.call()):
        raise AttributeError(f"`{name}` is not an nn.Module")
    setattr(parent, name, module)


def get_parameter(self: AnyModule, target: str) -> Parameter:
    """Return the parameter at a dotted name. Raises AttributeError if there is none."""
    found: Parameter = _get_by_path(self, target, "_parameters", "nn.Parameter")
    return found


def get_buffer(self: AnyModule, target: str) -> Tensor:
    """Return the buffer at a dotted name. Raises AttributeError if there is none."""
    found: Tensor = _get_by_path(self, target, "_buffers", "buffer")
    return found


def _get_by_path(self: AnyModule, target: str, table: str, what: str) -> Operand:
    path, _, name = target.rpartition(".")
    module = self.get_submodule(path)
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if name not in getattr(module, table):
        raise AttributeError(f"`{name}` is not an {what}" if table == "_parameters" else f"`{name}` is not a {what}")
    return getattr(module, name)
