"""Pointer checks of Python objects in native code: many comparisons in one call, a few ns each.

A check asks if something still is the very object that it was. So all checks hold only if nothing has changed; where
one fails, something may have. No object is changed, and no reference is kept beyond a check.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.compiler.runtime.object_checks_ir import (
    ANY_SIZE,
    API_FUNCTIONS,
    ARGUMENT_MATCHES,
    ATTRIBUTE_IS,
    DICT_IS,
    ITEM_IS,
    ITEM_NONZERO,
    KEY_ABSENT,
    KNOWN_OBJECTS,
    LIST_IS,
    METHOD_IS,
    SLOT_IS,
    VERSION_IS,
    text,
)
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import NumpyDtype


class PointerCheck(NamedTuple):
    """One comparison: its kind, three words, and what must stay alive for these to mean anything."""

    kind: int
    a: int
    b: int
    c: int
    held: tuple[object, ...]


def check_slot(owner: object, offset: int, value: object) -> PointerCheck:
    """A slot, or any other field, of `owner` holds `value`."""
    return PointerCheck(SLOT_IS, id(owner) + offset, id(value), 0, (owner, value))


def check_item(holder: Mapping[Any, object], key: object, value: object) -> PointerCheck:
    """`holder[key] is value`."""
    return PointerCheck(ITEM_IS, id(holder), id(key), id(value), (holder, key, value))


def check_key_absent(holder: Mapping[Any, object], key: str) -> PointerCheck:
    """`key not in holder`."""
    return PointerCheck(KEY_ABSENT, id(holder), id(key), 0, (holder, key))


def check_nonzero(holder: Mapping[Any, object], key: str) -> PointerCheck:
    """`holder[key]` is a float and not 0."""
    return PointerCheck(ITEM_NONZERO, id(holder), id(key), id(float), (holder, key))


def check_entries(holder: Any, skipped: frozenset[str] = frozenset()) -> PointerCheck | None:
    """A list or dict holds what it holds now, in this order; None where no check can tell that.

    `skipped`: the keys of a dict whose values do not count.
    """
    if type(holder) is list:
        return _snapshot(LIST_IS, holder, [*holder])
    return _snapshot(DICT_IS, holder, _entries(holder, skipped)) if _is_ordered(holder) else None


def check_version(
    holder: Mapping[str, object], key: str, parts: Sequence[tuple[Mapping[str, object], frozenset[str]]]
) -> PointerCheck | None:
    """`holder[key]` is the number that it is now, or else the dicts in `parts` hold what they hold now.

    In each of these the keys that go with it do not count. None where no check can tell that.
    """
    version = holder[key]
    if type(version) is not int or not all(_is_ordered(part) for part, _ in parts):
        return None
    words, held = [version, len(parts)], []
    for part, skipped in parts:
        entries = _entries(part, skipped)
        words += (id(part), len(part), *[id(x) if x is not _SKIPPED else 0 for x in entries])
        held.append((part, entries))
    want = np.array(words, np.int64)
    return PointerCheck(VERSION_IS, id(holder), id(key), want.ctypes.data, (holder, key, held, want))


def check_attribute(holder: object, name: str, value: object) -> PointerCheck:
    """`holder.name is value`."""
    return PointerCheck(ATTRIBUTE_IS, id(holder), id(name), id(value), (holder, name, value))


def check_method(holder: object, name: str, function: object) -> PointerCheck:
    """`holder.name` is a bound method of `function`."""
    return PointerCheck(METHOD_IS, id(holder), id(name), id(function), (holder, name, function))


def check_class_version(kind: type) -> PointerCheck | None:
    """No attribute of a class or one above it was set; None if that cannot be told."""
    at = cpython_layout.class_version_offset()
    getattr(kind, "any", None)  # which numbers it anew, if that was forgotten
    if at is None or not cpython_layout.read_word(id(kind) + at):
        return None
    return PointerCheck(SLOT_IS, id(kind) + at, cpython_layout.read_word(id(kind) + at), 0, (kind,))


def check_argument(
    number: int,
    given: Tensor | None,
    leaf: bool | None,
    dtype: NumpyDtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    flags: int,
) -> PointerCheck:
    """An argument is a `Tensor`, or the very one `given`, of a dtype, shape and, unless None, strides (in bytes).

    A symbolic size may be any. `leaf`: with a node that is a leaf without hooks, one that is no leaf or anything
    (None), or none (False).
    `flags`: bits of its array's flags that are set.
    """
    words = [
        id(Tensor if given is None else given),
        given is not None,
        0 if leaf is False else 1 + (leaf is None),
        id(dtype),
        len(shape),
    ]
    sizes = [ANY_SIZE if is_symbolic_size(n) else n for n in shape]
    words += [flags, 0 if strides is None else len(shape), *sizes, *(() if strides is None else strides)]
    want = np.array(words, np.int64)
    return PointerCheck(ARGUMENT_MATCHES, number, want.ctypes.data, 0, (want, dtype, given))


def make_checker(checks: Sequence[PointerCheck]) -> Callable[..., bool]:
    """A function of the arguments that is true if all checks hold."""
    words = []
    checks = list({check[:4]: check for check in checks}.values())  # attributes of one object have some in common
    # checks of one kind are one call; what a check relies upon is not of a later kind
    for kind, group in groupby(sorted(checks, key=itemgetter(0)), itemgetter(0)):
        run = [check[1:4] for check in group]
        words += [_check_address(kind), len(run), *chain.from_iterable(run)]
    runs = len({check.kind for check in checks})
    head = [*map(id, KNOWN_OBJECTS), *api_addresses(API_FUNCTIONS), runs]
    plan = struct.pack(f"{len(head) + len(words)}q", *head, *words)
    return _module.function("adjoint_unchanged", (plan, [check.held for check in checks]))


def _snapshot(kind: int, holder: object, held: list[object]) -> PointerCheck:
    want = np.array([id(x) if x is not _SKIPPED else 0 for x in held], np.int64)
    count = len(held) if kind == LIST_IS else len(held) // 2
    return PointerCheck(kind, id(holder), want.ctypes.data, count, (holder, held, want))


def _is_ordered(holder: object) -> bool:
    return type(holder) in (dict, defaultdict) or (isinstance(holder, dict) and not holder)


def _entries(holder: Mapping[str, object], skipped: frozenset[str]) -> list[object]:
    """Return the keys and values, in turn, with `_SKIPPED` for those that do not count."""
    return [x for key, value in holder.items() for x in (key, _SKIPPED if key in skipped else value)]


@cache
def _check_address(kind: int) -> int:
    return _module.engine.address(f"adjoint_checks{kind}")


_SKIPPED = object()
_module = NativeModule("object checks", text)
