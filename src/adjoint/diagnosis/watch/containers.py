"""Containers that keep a tensor alive, and the names under which a program holds them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType

from adjoint.core.graph.node import Node
from adjoint.core.graph.source_location import library_files
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import SourceFile, parse_source
from adjoint.diagnosis.watch.frames import user_frames

MAX_ELEMENTS = 100_000  # of a container that is looked into
MAX_DEPTH = 4  # of containers within others
MAX_CONTAINERS = 2000  # that are looked into


def find_container(until: int, frame: FrameType) -> tuple[str, list[Tensor], SourceFile | None]:
    """Return the name of the container that holds most tensors with graphs from before a node's number, and its file.

    The variables around the frame are searched, and what they hold: lists, dicts, queues, objects of the program's
    own classes. The collector is not asked: it does not tell of containers that it froze.
    """
    best: tuple[str, list[Tensor], SourceFile | None] = "", [], None
    seen: set[int] = set()
    for outer in user_frames(frame):
        source = parse_source(outer.f_code.co_filename, outer.f_globals)
        for names in (outer.f_locals, outer.f_globals):
            for path, held in _find_within(names, until, seen):
                if len(held) > len(best[1]):
                    best = path, held, source
    return best


def _find_within(names: Mapping[str, object], until: int, seen: set[int]) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield the containers that names lead to, each with its tensors that have graphs from before."""
    queue: deque[tuple[str, object, int]] = deque(
        (name, value, 0) for name, value in list(names.items()) if value is not names and name[:2] != "__"
    )
    found: dict[str, list[Tensor]] = {}
    while queue and len(seen) < MAX_CONTAINERS:
        path, value, depth = queue.popleft()
        parts = _parts_of(value, path)
        if parts is None or id(value) in seen:
            continue
        seen.add(id(value))
        flat = [x for _, part in parts for x in (part if isinstance(part, tuple) else (part,))]
        tensors = [x for x in flat if isinstance(x, Tensor)]
        held = [x for x in tensors if isinstance(x.node, Node) and x.node.sequence_nr <= until]
        if held:
            found.setdefault(path, []).extend(held)
        if depth < MAX_DEPTH:
            queue.extend((name, part, depth + 1) for name, part in parts)
    yield from found.items()


def _parts_of(value: object, path: str) -> list[tuple[str, object]] | None:
    """Return what a container or an object of the program's holds, by expression; None for all else."""
    if isinstance(value, (Tensor, ModuleType)):  # what lazy modules hold would be imported
        return None
    if isinstance(value, (list, deque, set)):
        return [(path, part) for part in value] if len(value) <= MAX_ELEMENTS else None
    if isinstance(value, dict):
        return [(path, part) for part in list(value.values())] if len(value) <= MAX_ELEMENTS else None
    held: Operand = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or not (is_module(value) or _is_own(type(value))):
        return None
    found = [(f"{path}.{key}", part) for key, part in held.items() if key[:1] != "_"]
    if is_module(value):
        found += [(f"{path}.{key}", part) for key, part in held.get("_modules", {}).items()]
    return found


def _is_own(kind: type) -> bool:
    """Return whether a class has a method that the program wrote."""
    codes = [getattr(each, "__code__", None) for each in vars(kind).values()]
    own = [code for code in codes if code is not None and not library_files[code.co_filename]]
    return bool(own) and not any("site-packages" in code.co_filename for code in own)
