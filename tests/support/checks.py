"""What tests of all folders say in one line: a call that must raise, a leaf, a block without the garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad

Errors = type[Exception] | tuple[type[Exception], ...]


def raises(error: Errors, message: str | None, call: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Assert that `call(*args, **named)` raises an error whose text `message`, a pattern, is found in."""
    with pytest.raises(error, match=message):
        call(*args, **named)


def leaf(values: Any, dtype: Any = ad.float64) -> Any:
    """A tensor that wants a gradient, of float64 unless told otherwise."""
    return ad.tensor(values, dtype=dtype, requires_grad=True)


def function(forward: Any, backward: Any = lambda ctx, *g: g[0], name: str = "Made", lib: Any = ad, **more: Any) -> Any:
    """A class of `lib.autograd.Function` with these static methods."""
    members = {"forward": forward, "backward": backward, **more}
    return type(name, (lib.autograd.Function,), {key: staticmethod(member) for key, member in members.items()})


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Objects die in this block by their count of references alone: what is part of a cycle stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
