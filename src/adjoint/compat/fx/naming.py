"""Names of values, and operators, in graphs and in the code that is written for them."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Callable
from importlib import import_module

from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.stubs import pytree
from adjoint.core.dtype.device import device
from adjoint.core.runtime.package_name import display_name

# Operators as code; the first may stand before a proxy as well.
REFLECTABLE_OPERATORS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
OPERATORS = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **REFLECTABLE_OPERATORS,
}
INPLACE_OPERATORS = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])([A-Z])")
_NO_IDENTIFIER = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")


def standard_globals() -> dict[str, tuple[str, Argument]]:
    """Return the names that all code may use: how each is imported, and its value."""
    package = display_name.package
    return {
        "inf": ("from math import inf", math.inf),
        "nan": ("from math import nan", math.nan),
        "NoneType": ("NoneType = type(None)", type(None)),
        package: (f"import {package}", import_module(package)),
        "device": (f"from {package} import device", device),
        "fx_pytree": (f"import {package}.fx._pytree as fx_pytree", pytree),
        "pytree": (f"import {package}.utils._pytree as pytree", pytree),
    }


class NodeNames:
    """Unique names: those that it gave before, Python's own and `standard_globals` are not given again."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.forbidden: dict[str, object] = dict.fromkeys(keyword.kwlist, self) | vars(builtins)
        self.forbidden |= {name: value for name, (_, value) in standard_globals().items()}
        self._numbers: dict[str, int] = {}
        self._taken: set[str] = set()

    def create_name(self, candidate: str, obj: object) -> str:
        """Return the name of an object: the one that it has, or a new one like `candidate`, perhaps with a number."""
        if obj is not None and obj in self.names:
            return self.names[obj]
        match = _NUMBERED.match(candidate)
        if match is None:
            candidate = _NO_IDENTIFIER.sub("_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            match = _NUMBERED.match(candidate)
            assert match is not None
        base, digits = match.groups()
        if digits is None or candidate in self._taken:
            number = self._numbers.get(base, 0)
            if self.forbidden.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        else:
            number = int(digits)
        while candidate in self._taken:
            number += 1
            candidate = f"{base}_{number}"
        self._taken.add(candidate)
        self._numbers[base] = number
        if obj is not None:
            self.names[obj] = candidate
        return candidate

    def reserve_name(self, name: str, obj: object) -> None:
        """Give no object but this one this name."""
        self._taken.add(name)
        self.names.setdefault(obj, name)

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Let `name` be that of an object that has none."""
        if self.names.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")


def name_after_target(target: str | Callable[..., object]) -> str:
    """Return the name of a value before it is made unique: that of the function, method or module, in small letters."""
    name = target if isinstance(target, str) else target.__name__
    if isinstance(target, str) and name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return _WORD_BOUNDARY.sub(r"_\1", name).lower()


def format_attribute(base: str, path: str) -> str:
    """Return the code that reads an attribute of an attribute …, by `getattr` where a name is no identifier."""
    for name in path.split("."):
        base = f"{base}.{name}" if name.isidentifier() else f'getattr({base}, "{name}")'
    return base
