"""Path of a module in its model, which traces and error messages show."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from itertools import chain
from typing import Any

from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.explanation_slot import explanation_slot
from adjoint.core.runtime.mode import depends_on, guard_on, mode
from adjoint.core.runtime.package_name import display_name
from adjoint.core.typing import Function
from adjoint.nn.module.hooks import (
    CALL_HOOK_TABLES_NAME,
    FULL_BACKWARD_NAME,
    HOOK_ATTRIBUTE_NAMES,
    global_hooks,
    hook_ids,
)
from adjoint.nn.module.module_state import AnyModule


class _TraceStack(threading.local):
    """The modules whose calls this thread is tracing, outermost first; and the ids of those watched since."""

    def __init__(self) -> None:
        self.modules: list[AnyModule] = []
        self.guarded_ids: set[int] = set()
        self.is_guarding = False


trace_stack = _TraceStack()
UNCOUNTED_ATTRIBUTES = ("_version", CALL_HOOK_TABLES_NAME, FULL_BACKWARD_NAME)  # these change nothing by themselves


REGISTRIES = ("_parameters", "_buffers", "_modules")


def _registries_of(holder: object) -> list[dict[str, object]]:
    return [table for name in REGISTRIES if (table := vars(holder).get(name)) is not None]


@depends_on(lambda holder: [(vars(holder), "_version"), *_registries_of(holder)])
def module_version(holder: Any) -> tuple[int, ...]:
    """Return numbers of which one changes with everything that a call of the module depends on.

    They are the count of changes by way of the module, and the ids of what programs may put into its registries.
    """
    return holder._version, *(id(value) for table in _registries_of(holder) for value in table.values())


@depends_on(lambda module: [(type(module), "forward")])
def forward_of(module: object) -> object:
    """The method that a call of the module runs, if it has none of its own."""
    return getattr(type(module), "forward", None)


def _find_user_numbers(holder: object) -> frozenset[str]:
    """Return the numbers among the attributes of a module that only the user's code knows: a count of steps, say.

    It reads them, and each such read is a fact of its own.
    """
    library = {__name__.partition(".")[0], display_name.package}
    for kind in type(holder).__mro__[:-1]:
        if kind.__name__ != "Module" and kind.__module__.partition(".")[0] in library:
            return frozenset()
    return frozenset([key for key, value in vars(holder).items() if type(value) in (int, float)])


def _contents_dependencies(holder: object, ignored: frozenset[str]) -> list[tuple[dict[str, object], frozenset[str]]]:
    """Return the dicts of which the contents are made, and the keys in each that do not count."""
    held = vars(holder)
    parts = [(held, ignored.union(UNCOUNTED_ATTRIBUTES, _find_user_numbers(holder)))]
    for key, value in held.items():
        if isinstance(value, dict) and key not in parts[0][1]:
            parts.append((value, ignored if key in REGISTRIES else frozenset()))
    return parts


@depends_on(_contents_dependencies)
def module_contents(holder: Any, ignored: frozenset[str] = frozenset()) -> list[object]:
    """Yield every attribute of a module and the items of its registries, but the ignored and the user's numbers."""
    found: list[object] = []
    uncounted = ignored.union(UNCOUNTED_ATTRIBUTES, _find_user_numbers(holder))
    for key, value in vars(holder).items():
        if key not in uncounted and (key not in HOOK_ATTRIBUTE_NAMES or value):
            found.append(key)
            skipped = ignored if key in REGISTRIES else ()
            pairs = value.items() if isinstance(value, dict) else ()
            found.extend(x for name, part in pairs if name not in skipped for x in (name, part))
            found.extend(() if isinstance(value, dict) else (value,))
    return found


def find_module_name(parent: AnyModule, module: AnyModule) -> str:
    """Return the dotted name under which `parent` knows `module`; the class's name if it does not."""
    for name, child in chain(vars(parent).get("_modules", {}).items(), parent.named_modules()):
        if child is module and name:
            return name
    return type(module).__name__


def guard_module_versions(module: AnyModule) -> None:
    """Retrace the step when `module`, a part of it, or the hooks for all modules change.

    The outermost call watches all parts: those that are used but not called themselves are among them.
    """
    if not trace_stack.modules:
        guard_on(global_hooks, module_version, "hooks of all modules", at_end=True, contents=module_contents)
        _guard_hooks(global_hooks, "all modules")
        trace_stack.guarded_ids = set()
        trace_stack.is_guarding = True  # this walk through the parts is none of the step's
        try:
            parts = list(module.named_modules(prefix=type(module).__name__))
        finally:
            trace_stack.is_guarding = False
        for name, part in parts:
            _guard_module(part, f"module {name}")
    elif id(module) not in trace_stack.guarded_ids:
        _guard_module(module, f"module {find_module_name(trace_stack.modules[-1], module)}")


def guard_contents(container: AnyModule) -> None:
    """Retrace the step, which reads the contents of `container` without calling it, when they change."""
    if trace_stack.is_guarding or mode.interpreter is None:
        return
    if not (trace_stack.modules and id(container) in trace_stack.guarded_ids):
        _guard_module(container, f"contents of a {type(container).__name__}")


def _guard_module(module: AnyModule, what: str) -> None:
    if (interpreter := mode.interpreter) is not None:  # as `guard_on`, which also asks for the version
        interpreter.watch(module, module_version, what, True, module_contents)
    _guard_hooks(module, what)
    trace_stack.guarded_ids.add(id(module))
    if id(type(module)) not in trace_stack.guarded_ids:
        trace_stack.guarded_ids.add(id(type(module)))
        guard_on(module, forward_of, f"forward of {type(module).__name__}")


def _guard_hooks(holder: object, what: str) -> None:
    """Notice hooks that are removed from their dictionaries without their handles."""
    if hook_ids(holder):
        guard_on(holder, hook_ids, f"hooks held by {what}", at_end=True)


def trace_forward(module: AnyModule, forward: Function, /, *args: object, **kwargs: object) -> Any:
    """Call `forward` with the module's name on the tracer's path."""
    interpreter = mode.interpreter
    assert interpreter is not None
    interpreter.enter_module(
        find_module_name(trace_stack.modules[-1], module) if trace_stack.modules else type(module).__name__
    )
    trace_stack.modules.append(module)
    try:
        return forward(*args, **kwargs)
    finally:
        trace_stack.modules.pop()
        interpreter.leave_module()


MISSING_ARRAY = re.compile(r"'(\w+)' object has no attribute '(?:array|numel)'")


def refuse_other_inputs(error: Exception, module: AnyModule, args: tuple[object, ...]) -> None:
    """Raise PyTorch's TypeError where an input that is no tensor has made a layer of the library fail."""
    found = MISSING_ARRAY.fullmatch(str(error)) if isinstance(error, AttributeError) else None
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    if found is None or code is None or not library_files[code.co_filename]:
        return
    place = next((i for i, x in enumerate(args, 1) if type(x).__name__ == found[1]), 0)
    if place:
        function = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", type(module).__name__).lower()
        told = f"{function}(): argument 'input' (position {place}) must be Tensor, not {found[1]}"
        refusal = TypeError(told).with_traceback(error.__traceback__)
        try:
            add_module_path(refusal, module)
            raise refusal from None
        finally:
            del refusal  # its traceback holds this frame


def add_module_path(error: BaseException, module: AnyModule) -> None:
    """Add a note to `error` that names the module: `in fc1 (Net.encoder.fc1): Linear(in_features=64, ...)`.

    Each module on the way out makes the path longer by its own name.
    """
    if isinstance(error, RecursionError):  # there is no room for a note, and the path is long
        return
    left: list[AnyModule] = error.__dict__.setdefault("modules", [])
    with suppress(Exception):  # an immutable exception, a repr that fails: nothing may hide the error itself
        if left:
            error.__notes__.remove(_format_path_note(left))
        left.append(module)
        error.add_note(_format_path_note(left))
    explanation_slot.call(error)


def _format_path_note(left: list[AnyModule]) -> str:
    names = [type(left[-1]).__name__]
    names += [find_module_name(parent, child) for child, parent in zip(left[-2::-1], left[:0:-1], strict=True)]
    lines = repr(left[0]).splitlines()
    described = lines[0] if len(lines) == 1 else type(left[0]).__name__
    where = names[-1] if len(names) == 1 else f"{names[-1]} ({'.'.join(names)})"
    return f"in {where}: {described}"
