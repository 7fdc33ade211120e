"""Modules held in sequence or by key."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Self

from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_path import guard_contents

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class ModuleContainer(Module):
    """Container of modules, none of which is None."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __len__(self) -> int:
        guard_contents(self)
        return len(self._modules)


class IndexedContainer(ModuleContainer):
    """Modules named "0", "1", … in the order in which they stand, used as a list is."""

    def __iter__(self) -> Iterator[Module]:
        guard_contents(self)
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        guard_contents(self)
        if isinstance(index, slice):
            return self._from_items(list(self._modules.items())[index])
        return self._modules[self._name_at(index)]

    def _from_items(self, items: list[tuple[str, Module]]) -> Self:
        return type(self)(module for _, module in items)

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end. Raises TypeError for what is no iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove what is at `key`, and return it."""
        taken = self[key]
        del self[key]
        return taken

    def _renumber(self, modules: list[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def _name_at(self, index: int) -> str:
        place, size = operator.index(index), len(self._modules)
        if not -size <= place < size:
            raise IndexError(f"index {place} is out of range")
        return list(self._modules)[place]


class Sequential(IndexedContainer):
    """Container that calls its modules in order, each on the output of the one before.

    It supports `len`, indices, slices, `append`, `extend`, `insert`, `pop`, and `+` and `*` as a list does.

    Args:
        args: modules, named "0", "1", …; or one mapping from names to modules.

    Raises: IndexError for an index out of range, ValueError for a factor below 1.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model(ad.ones(4, 2)).shape
        adjoint.Size([4, 3])
        >>> model[1]
        ReLU()
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        named: Any = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Tensor | float) -> Tensor | float:
        for module in self._modules.values():
            input = module(input)
        return input

    def _from_items(self, items: list[tuple[str, Module]]) -> Self:
        return type(self)(dict(items))

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at `index`. Raises IndexError if there is no such place."""
        if not -len(self) <= index <= len(self) and isinstance(module, Module):
            raise IndexError(f"Index out of range: {index}")
        return super().insert(index, module)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *self._check_sequential(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(self._check_sequential(other))

    def _check_sequential(self, other: IndexedContainer) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return other

    def __mul__(self, other: int) -> Sequential:
        """Return the same modules, `other` times over."""
        return Sequential(*list(self) * self._check_repeat_count(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._check_repeat_count(other) - 1))

    def _check_repeat_count(self, other: float) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other


class ModuleList(IndexedContainer):
    """List of modules that the enclosing module registers.

    A plain list would hide their parameters from `parameters()` and `state_dict()`. The container has no forward.

    Args:
        modules: iterable of modules. Default: None, an empty list.

    Example:
        >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        >>> layers
        ModuleList(
          (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        if not len(self):
            return f"{self._get_name()}()"
        text = ""
        for shown, run in groupby(enumerate(map(repr, self)), key=lambda item: item[1]):
            places = [i for i, _ in run]
            label = f"({places[0]}): " if len(places) == 1 else f"({places[0]}-{places[-1]}): {len(places)} x "
            text += "\n  " + (label + shown).replace("\n", "\n  ")
        return f"{self._get_name()}({text}\n)"


class ModuleDict(ModuleContainer):
    """Dictionary of modules that the enclosing module registers, in the order of insertion.

    The container has no forward.

    Args:
        modules: mapping from names to modules, or pairs (name, module). Default: None, an empty dictionary.

    Example:
        >>> heads = nn.ModuleDict({"a": nn.Linear(2, 1)})
        >>> heads["b"] = nn.ReLU()
        >>> list(heads)
        ['a', 'b']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        guard_contents(self)
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        guard_contents(self)
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        guard_contents(self)
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        for key in list(self._modules):
            delattr(self, key)

    def pop(self, key: str) -> Module:
        """Remove the module at `key`, and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """Return the keys."""
        guard_contents(self)
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs of key and module."""
        guard_contents(self)
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        guard_contents(self)
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Set modules from a mapping or from pairs."""
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module
