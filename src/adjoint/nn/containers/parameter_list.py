"""Parameters held in sequence."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Self

from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_path import guard_contents
from adjoint.nn.module.parameter import Parameter

__all__ = ["ParameterList"]


class ParameterList(Module):
    """List of parameters that the enclosing module registers.

    A tensor becomes a parameter when it enters the list; other values stay as they are. The container has no forward.

    Args:
        values: iterable of tensors and other values. Default: None, an empty list.

    Raises: TypeError for what cannot be iterated, IndexError for an index out of range.

    Example:
        >>> weights = nn.ParameterList([ad.ones(2), ad.zeros(3)])
        >>> len(list(weights.parameters()))
        2
    """

    _size: int

    def __init__(self, values: Iterable[object] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        guard_contents(self)
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: int | slice) -> Any:
        guard_contents(self)
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: object) -> None:
        setattr(self, self._name_at(index), as_parameter(value))

    def append(self, value: object) -> Self:
        """Add a parameter, or another value, at the end."""
        setattr(self, str(self._size), as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[object]) -> Self:
        """Add parameters, or other values, at the end. Raises TypeError for what is no iterable, and for a tensor."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise RuntimeError: a list has no forward."""
        raise RuntimeError("ParameterList should not be called.")

    def _name_at(self, index: int) -> str:
        place = operator.index(index)
        if not -self._size <= place < self._size:
            raise IndexError(f"index {place} is out of range")
        return str(place % self._size)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {describe_item(value)}" for i, value in enumerate(self))


def as_parameter(value: object) -> object:
    """Return `value` as a list or dict of parameters holds it: a tensor as a parameter."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def describe_item(value: object) -> str:
    """Return an item as the `repr` of its container shows it."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype!r} of size {'x'.join(map(str, value.shape))}]"
