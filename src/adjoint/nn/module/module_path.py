"""Where in its model a module sits: the name that traces and error messages use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from adjoint.core.runtime.mode import mode, unusual, watch
from adjoint.nn.module.hooks import DETOURS, FULL, NAMES, everywhere, hook_ids
from adjoint.nn.module.module_state import AnyModule


class _Traced(threading.local):
    """The modules whose calls this thread is tracing, outermost first; and the ids of those watched since."""

    def __init__(self) -> None:
        self.modules: list[AnyModule] = []
        self.watched: set[int] = set()


traced = _Traced()
UNSEEN = ("_version", DETOURS, FULL)  # these change nothing by themselves


def version_of(holder: Any) -> Any:
    """The number that changes with whatever changes what a call of the module does."""
    return holder._version


version_of.rests_on = lambda holder: [(vars(holder), "_version")]  # type: ignore[attr-defined]


def contents_of(holder: Any, ignored: frozenset[str] = frozenset()) -> list[Any]:
    """Every attribute of a module, and what its registries hold: all that its version counts, but for those ignored."""
    found: list[Any] = []
    for key, value in vars(holder).items():
        if key not in UNSEEN and key not in ignored and (key not in NAMES or value):
            found.append(key)
            found.extend((*value, *value.values()) if isinstance(value, dict) else (value,))
    return found


def name_in(parent: AnyModule, module: AnyModule) -> str:
    """The dotted name under which `parent` knows `module`; the class's name if it does not."""
    for name, child in parent.named_modules():
        if child is module and name:
            return name
    return type(module).__name__


def watch_versions(module: AnyModule) -> None:
    """Have the traced step retraced when `module`, or a part of it, changes, or the hooks for all modules do.

    The outermost call watches all parts: those that are used but not called themselves are among them.
    """
    if not traced.modules:
        watch(everywhere, version_of, "hooks of all modules", settled=True, contents=contents_of)
        _watch_hooks(everywhere, "all modules")
        traced.watched = set()
        for name, part in module.named_modules(prefix=type(module).__name__):
            _watch(part, f"module {name}")
    elif id(module) not in traced.watched:
        _watch(module, f"module {name_in(traced.modules[-1], module)}")


def watch_contents(container: AnyModule) -> None:
    """Have the traced step, which reads what `container` holds without calling it, retraced when that changes."""
    if unusual.count and not (traced.modules and id(container) in traced.watched):
        _watch(container, f"contents of a {type(container).__name__}")


def _watch(module: AnyModule, what: str) -> None:
    watch(module, version_of, what, settled=True, contents=contents_of)
    _watch_hooks(module, what)
    traced.watched.add(id(module))


def _watch_hooks(holder: Any, what: str) -> None:
    """Where there are hooks, notice also if they are taken out of their dictionaries without their handles."""
    if hook_ids(holder):
        watch(holder, hook_ids, f"hooks held by {what}", settled=True)


def forward_in_trace(
    module: AnyModule, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call `forward` with the module's name on the tracer's path."""
    tracer: Any = mode.tracer
    tracer.enter_module(name_in(traced.modules[-1], module) if traced.modules else type(module).__name__)
    traced.modules.append(module)
    try:
        return forward(*args, **kwargs)
    finally:
        traced.modules.pop()
        tracer.leave_module()


def add_path(error: BaseException, module: AnyModule) -> None:
    """Note on `error`, which leaves `module`, where it arose: `in fc1 (Net.encoder.fc1): Linear(in_features=64, ...)`.

    Each module on the way out makes the path longer by its own name.
    """
    left: list[AnyModule] = error.__dict__.setdefault("modules", [])
    with suppress(Exception):  # an immutable exception, a repr that fails: nothing may hide the error itself
        if left:
            error.__notes__.remove(_note(left))
        left.append(module)
        error.add_note(_note(left))


def _note(left: list[AnyModule]) -> str:
    names = [type(left[-1]).__name__]
    names += [name_in(parent, child) for child, parent in zip(left[-2::-1], left[:0:-1], strict=True)]
    lines = repr(left[0]).splitlines()
    described = lines[0] if len(lines) == 1 else type(left[0]).__name__
    where = names[-1] if len(names) == 1 else f"{names[-1]} ({'.'.join(names)})"
    return f"in {where}: {described}"
