"""Parameters held by key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any, NoReturn

from adjoint.nn.containers.parameter_list import as_parameter, describe_item
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_path import guard_contents

__all__ = ["ParameterDict"]


class ParameterDict(Module):
    """Dictionary of parameters that the enclosing module registers.

    A tensor becomes a parameter when it enters the dictionary; other values stay as they are. A plain dict enters in
    the order of its sorted keys. The container has no forward.

    Args:
        parameters: mapping from names to values, or pairs (name, value). Default: None, an empty dictionary.

    Raises: TypeError and ValueError for what is no mapping and no pairs.

    Example:
        >>> weights = nn.ParameterDict({"scale": ad.ones(2)})
        >>> weights["shift"] = ad.zeros(2)
        >>> [name for name, _ in weights.named_parameters()]
        ['scale', 'shift']
    """

    _keys: dict[str, None]

    def __init__(
        self, parameters: ParameterDict | Mapping[str, object] | Iterable[tuple[str, object]] | None = None
    ) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        guard_contents(self)
        return getattr(self, _check_key(key))

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, _check_key(key), as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        guard_contents(self)
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        guard_contents(self)
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        guard_contents(self)
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        guard_contents(self)
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dict with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value at `key`, after setting it to `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove the value at `key`, and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key and its value, and return both."""
        key = list(self._keys)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """Return the value at `key`, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return another dict with these keys, and `default` for each."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        guard_contents(self)
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of key and value."""
        return [(key, self[key]) for key in self]

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [self[key] for key in self]

    def update(self, parameters: ParameterDict | Mapping[str, object] | Iterable[tuple[str, object]]) -> None:
        """Set values from a mapping, a plain one in the order of its keys, or from pairs."""
        if not isinstance(parameters, (Iterable, ParameterDict)):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs: Iterable[object] = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = parameters
        for i, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ParameterDict update sequence element #{i} should be Iterable; is {type(pair).__name__}"
                )
            both = tuple(pair)
            if len(both) != 2:
                raise ValueError(f"ParameterDict update sequence element #{i} has length {len(both)}; 2 is required")
            self[both[0]] = both[1]

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise RuntimeError: a dict has no forward."""
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {describe_item(value)}" for key, value in self.items())


def _check_key(key: int | str) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}')."
        )
    return key
