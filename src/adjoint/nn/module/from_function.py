"""Modules made from functions: the settings of the function, kept as attributes, and a forward that passes them on."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.module.module import Module

NON_SETTING_PARAMETERS = ("_stacklevel", "dtype", "out")  # parameters of functions which a module has no use for


class FunctionModule(Module):
    """A module whose settings are the parameters of a function behind its operands; tensors among them are buffers."""

    function: Function
    operands: inspect.Signature
    settings: inspect.Signature
    setting_names: tuple[str, ...]
    shown: bool | str

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()
        given = self._bind("__init__", self.settings, args, kwargs)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, Tensor) or name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *operands: object, **named: object) -> Tensor:
        if named:
            operands = self._bind("forward", self.operands, operands, named).args
        if not self.setting_names:
            return self.function(*operands)
        return self.function(*operands, **{name: getattr(self, name) for name in self.setting_names})

    def _bind(
        self, method: str, signature: inspect.Signature, args: tuple[object, ...], named: dict[str, object]
    ) -> inspect.BoundArguments:
        """Return the arguments of a method by name. Raises TypeError where Python would, for such a signature."""
        called = f"{type(self).__name__}.{method}()"
        for name in named:
            if name not in signature.parameters:
                raise TypeError(f"{called} got an unexpected keyword argument {name!r}")
        try:
            return signature.bind(*args, **named)
        except TypeError as error:
            text = str(error)
            raise TypeError(f"{called} {'got ' if text.startswith(('too', 'multiple')) else ''}{text}") from None

    def extra_repr(self) -> str:
        if not self.shown:
            return ""
        values = {name: getattr(self, name) for name in self.settings.parameters}
        if self.shown == "values":
            return ", ".join(map(repr, values.values()))
        return ", ".join(f"{name}={value!r}" for name, value in values.items() if name != "inplace" or value)


FunctionModule.__annotations__ = get_type_hints(FunctionModule)  # types, as those of Module


def make_module_class(
    function: Function,
    name: str,
    module: str,
    *,
    operands: int = 1,
    shown: bool | str = True,
    without: str = "",
    kind: type[Module] = Module,
) -> type[FunctionModule]:
    """Make the class `name` of `module`, whose instances call `function` with operands and their settings.

    The parameter `without` is none of them; `kind` is a further base. Settings are `shown` in its repr: with their
    names, as "values" alone, or not at all.
    """
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.name not in (*NON_SETTING_PARAMETERS, without)
    ]
    fields = {
        "function": staticmethod(function),
        "operands": inspect.Signature(parameters[:operands]),
        "settings": inspect.Signature(parameters[operands:]),
        "setting_names": tuple([p.name for p in parameters[operands:]]),
        "shown": shown,
        "__signature__": inspect.Signature(parameters[operands:]),
        "__doc__": FunctionDocstring(name),
        "__module__": module,
    }
    return type(name, (FunctionModule,) if kind is Module else (FunctionModule, kind), fields)


class FunctionDocstring:
    """The `__doc__` of a module made from a function: derived from that function's when it is first read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: FunctionModule | None, owner: type[FunctionModule]) -> str:
        from adjoint.nn.module.module_docstring import module_docstring  # only readers of docstrings need it

        return module_docstring(self.name, owner.function, owner.operands, owner.settings)
