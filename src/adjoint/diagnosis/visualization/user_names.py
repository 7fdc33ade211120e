"""The user's names for tensors and modules: those of the variables of the frames that called."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import cast

from adjoint.core.graph.node import Leaf, Vertex
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import find_stack, release_locals
from adjoint.nn.module.module import Module

MAX_VARIABLES = 2_000  # of one frame or object


class UserNames:
    """Names of modules and tensors; of several names the one in the innermost frame counts.

    `modules`: (name, module) of variables that hold one. `tensors`: the name of a vertex of the graph, from a variable.
    `inputs`: variables with tensors that have no history.
    """

    def __init__(self) -> None:
        self.modules: dict[int, tuple[str, Module]] = {}
        self.tensors: dict[Vertex, str] = {}
        self.inputs: list[tuple[str, Tensor]] = []
        self.containers: list[tuple[str, list[object] | tuple[object, ...] | dict[object, object]]] = []

    def read_variables(self, variables: Mapping[str, object], prefix: str = "", depth: int = 1) -> None:
        """Take the names of variables, and of attributes of plain objects among them, such as `trainer.model`."""
        inner: list[tuple[str, Mapping[str, object]]] = []
        variables = dict(list(variables.items())[:MAX_VARIABLES])
        for name, value in variables.items():
            if str(name).startswith("_"):
                continue
            if isinstance(value, Module):
                self.modules.setdefault(id(value), (f"{prefix}{name}", value))
            elif isinstance(value, Tensor):
                self._add_tensor(f"{prefix}{name}", value)
            elif isinstance(value, (list, tuple, dict)):
                if len(value) <= MAX_VARIABLES:
                    self.containers.append((f"{prefix}{name}", value))
            elif depth and not isinstance(value, (type, ModuleType)) and type(value).__module__ != "builtins":
                with suppress(AttributeError):  # by no code of the user's
                    inner.append((f"{prefix}{name}.", object.__getattribute__(value, "__dict__")))
        for name, found in inner:
            self.read_variables(found, name, depth - 1)

    def read_containers(self) -> None:
        """Take names such as `weights[0]` for what has no shorter one."""
        for name, container in self.containers:
            for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
                if isinstance(value, Module):
                    self.modules.setdefault(id(value), (f"{name}[{key!r}]", value))
                elif isinstance(value, Tensor):
                    self._add_tensor(f"{name}[{key!r}]", value)

    def _add_tensor(self, name: str, tensor: Tensor) -> None:
        if tensor.node is None:
            self.inputs.append((name, tensor))
        else:
            self.tensors.setdefault(tensor.node, name)

    def outermost_modules(self) -> list[tuple[str, Module]]:
        """Return the modules that are no part of another one, with their names."""
        parts = {id(part) for _, module in self.modules.values() for part in module.modules() if part is not module}
        return [named for key, named in self.modules.items() if key not in parts]


def read_user_names() -> UserNames:
    """Return the names in the user's frames that run, from the innermost outward."""
    names = UserNames()
    stack = find_stack(None)
    try:
        for place in stack:
            names.read_variables(place.frame.f_locals)
            if place.frame.f_globals is not place.frame.f_locals:
                names.read_variables(place.frame.f_globals)
        names.read_variables(vars(sys.modules["__main__"]))  # of a notebook that shows something after its cell has run
        names.read_containers()
    finally:
        release_locals(stack)
    return names


def name_leaves(leaves: Iterable[Leaf], modules: Iterable[tuple[str, Module]], names: UserNames) -> dict[Leaf, str]:
    """Return the names of leaves: of parameters in their modules, of other tensors the variable's."""
    found = dict(iter_parameter_names(modules))
    for leaf in leaves:
        if leaf not in found and leaf in names.tensors:
            found[leaf] = names.tensors[leaf]
    return found


def iter_parameter_names(modules: Iterable[tuple[str, Module]]) -> Iterator[tuple[Leaf, str]]:
    """Yield the leaf of each parameter and its name, `model.fc1.weight`; of several names the first."""
    seen: set[Leaf] = set()
    for prefix, module in modules:
        for name, parameter in module.named_parameters(prefix=prefix):
            leaf = cast("Tensor", parameter).node
            if isinstance(leaf, Leaf) and leaf not in seen:
                seen.add(leaf)
                yield leaf, name
