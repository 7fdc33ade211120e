"""Names under which a module holds parameters, buffers and other modules, apart from its plain attributes."""

from __future__ import annotations

from typing import Any

from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.module.hooks import COMPILED_CALL_NAME, RUN_HOOK_NAMES, global_hooks, refresh_hook_tables
from adjoint.nn.module.module_state import AnyModule, module_class_slot
from adjoint.nn.module.parameter import Parameter

# Where the values of a type are registered, how they are called, and what a name there accepts.
Tables = tuple[tuple[str, type, str, str], ...]
MISSING = object()


def set_attribute(module: AnyModule, name: str, value: object, tables: Tables) -> None:
    """Set `module.name`: register parameters, buffers and modules, and keep anything else as it is.

    Raises TypeError where a registered name would get a value of another kind, AttributeError before `__init__`.
    """
    held = module.__dict__
    for table, kind, what, accepted in tables:
        names = held.get(table)
        if isinstance(value, kind):
            if names is None:
                plural = "parameters" if kind is Parameter else what.removeprefix("child ")
                message = f"cannot assign {plural} before Module.__init__() call"
                raise with_explanation(AttributeError(message))
            if names.get(name) is value:
                return
            if table != "_buffers":
                _unregister(module, name, table)
            _REGISTER_BY_TABLE[table](module, name, value)
            return
        if names is not None and name in names:
            if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                raise TypeError(f"cannot assign '{_typename(value)}' as {what} '{name}' ({accepted} expected)")
            if names[name] is not value:
                names[name] = _run_registration_hooks(module, table, name, value)
                bump_version(module)
            return
    if held.get(name, MISSING) is not value:
        object.__setattr__(module, name, value)
        if name == COMPILED_CALL_NAME or name in RUN_HOOK_NAMES:
            refresh_hook_tables(module)
        bump_version(module)


def delete_attribute(module: AnyModule, name: str) -> None:
    """Delete `module.name`."""
    for table in _KIND_BY_TABLE:
        if name in module.__dict__.get(table, ()):
            _unregister(module, name)
            break
    else:
        object.__delattr__(module, name)
    bump_version(module)


def bump_version(module: AnyModule) -> None:
    """Record that calls of `module` may do something else from now on."""
    held = module.__dict__
    held["_version"] = held.get("_version", 0) + 1


def register_parameter(self: AnyModule, name: str, param: Parameter | None) -> None:
    """Register a parameter under a name.

    Assignment of a `Parameter` to an attribute does the same.

    Args:
        name: attribute name, without dots.
        param: Parameter, or None to reserve the name.

    Raises: KeyError for a taken name or one with dots, TypeError for other values, ValueError for a non-leaf.

    Example:
        >>> layer = nn.Module()
        >>> layer.register_parameter("scale", nn.Parameter(ad.ones(1)))
        >>> list(layer.state_dict())
        ['scale']
    """
    _check_name(self, "parameter", name, "_parameters")
    if param is not None and not isinstance(param, Parameter):
        raise TypeError(
            f"cannot assign '{_typename(param)}' object to parameter '{name}' (nn.Parameter or None required)"
        )
    if param is not None and not param.is_leaf:
        raise ValueError(
            f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
            f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
        )
    self._parameters[name] = _run_registration_hooks(self, "_parameters", name, param)
    bump_version(self)


def register_buffer(self: AnyModule, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
    """Register a tensor that belongs to the module's state but is not trained.

    Args:
        name: attribute name, without dots.
        tensor: Tensor, or None to reserve the name.
        persistent: False to leave the buffer out of the state dict. Default: True.

    Raises: KeyError for a taken name or one with dots, TypeError for other values.

    Example:
        >>> layer = nn.Module()
        >>> layer.register_buffer("steps", ad.tensor(0))
        >>> layer.steps
        tensor(0)
    """
    _check_name(self, "buffer", name, "_buffers")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (Tensor or None required)")
    self._buffers[name] = _run_registration_hooks(self, "_buffers", name, tensor)
    if persistent:
        self._non_persistent_buffers_set.discard(name)
    else:
        self._non_persistent_buffers_set.add(name)
    bump_version(self)


def register_module(self: AnyModule, name: str, module: AnyModule | None) -> None:
    """Hold `module` as a part of this one.

    Raises KeyError for a name that is taken or has dots, TypeError for other values.
    """
    if module is not None and not isinstance(module, module_class_slot.call()):
        raise TypeError(f"{_typename(module)} is not a Module subclass")
    _check_name(self, "module", name, "_modules")
    _put_module(self, name, module)


def _run_registration_hooks(module: AnyModule, table: str, name: str, value: object) -> Any:
    """Return `value` as the global registration hooks replace it. Raises TypeError if they change its kind."""
    what = _KIND_BY_TABLE[table]
    hooks = global_hooks.__dict__[f"_{what}_registration_hooks"]
    if not hooks or (value is None and what == "parameter"):
        return value
    kind = {"parameter": Parameter, "buffer": Tensor, "module": module_class_slot.call()}[what]
    for hook in list(hooks.values()):
        given = hook(module, name, value)
        if given is not None and not isinstance(given, kind):
            raise TypeError(f"a {what} registration hook returned '{_typename(given)}' for {what} '{name}'")
        value = value if given is None else given
    return value


def _check_name(module: AnyModule, what: str, name: str, table: str) -> None:
    if table not in module.__dict__:
        raise AttributeError(f"cannot assign {what} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {_typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
    if not name:
        raise KeyError(f'{what} name can\'t be empty string ""')
    if name not in module.__dict__[table] and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")


def _unregister(module: AnyModule, name: str, keep: str | None = None) -> None:
    """Remove `name` from the plain attributes and from all tables but `keep`."""
    held = module.__dict__
    held.pop(name, None)
    for table in _KIND_BY_TABLE:
        if table != keep:
            held[table].pop(name, None)
    if keep != "_buffers":
        held["_non_persistent_buffers_set"].discard(name)


def _put_module(module: AnyModule, name: str, value: AnyModule | None) -> None:
    """Hold a part under `name`, whatever else the class calls so: a class may look here for names that it lacks."""
    table: Any = module._modules
    table[name] = _run_registration_hooks(module, "_modules", name, value)
    bump_version(module)


def _typename(value: object) -> str:
    kind = value if isinstance(value, type) else type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_KIND_BY_TABLE = {"_parameters": "parameter", "_modules": "module", "_buffers": "buffer"}
_REGISTER_BY_TABLE: dict[str, Function] = {
    "_parameters": register_parameter,
    "_modules": _put_module,
    "_buffers": lambda module, name, value: register_buffer(module, name, value, value.persistent),
}
