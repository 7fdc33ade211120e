"""Boxes of a drawing: modules, checkpointed calls, functions, and the iterations of loops, so that all of it folds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import CodeType

from adjoint.core.graph.node import GraphNode
from adjoint.core.viewer.document import DrawnGroup
from adjoint.diagnosis.visualization.gradient_calls import find_gradient_calls
from adjoint.diagnosis.visualization.graph_contents import checkpoint_of, label_of
from adjoint.diagnosis.visualization.module_calls import ModuleBox, Path

MAX_CHILDREN = 36  # of a box; more are folded into boxes of their own
MIN_ITERATIONS = 4
MAX_OPEN_CHILDREN = 12  # a box in which all is, is open at first if it has no more


@dataclass
class Box:
    """A box that is being filled; `items`: its nodes and boxes, oldest first."""

    key: str
    label: str
    kind: str = ""
    subtitle: str = ""
    items: list[Box | GraphNode] = field(default_factory=list)
    is_open: bool = False

    @property
    def first(self) -> GraphNode:
        """The oldest node."""
        item = self.items[0]
        return item.first if isinstance(item, Box) else item

    @property
    def last(self) -> GraphNode:
        """The newest node."""
        item = self.items[-1]
        return item.last if isinstance(item, Box) else item


class BoxTree:
    """Boxes around the nodes of a graph, which are given oldest first."""

    def __init__(
        self, nodes: Sequence[GraphNode], path_of: Callable[[GraphNode], Path], modules: Mapping[str, ModuleBox]
    ) -> None:
        self.root = Box("", "")
        self.count = 0
        self.gradient_calls = find_gradient_calls(nodes)
        boxes: dict[str, Box] = {}
        for node in nodes:
            around = self.root
            for key in path_of(node):
                if key not in boxes:
                    label, name = modules[key].label, type(modules[key].module).__name__
                    boxes[key] = Box(f"m {key}", label, "module", "" if name == label else name)
                    around.items.append(boxes[key])
                around = boxes[key]
            around.items.append(node)
        self._fold(self.root, is_root=True)
        only = [item for item in self.root.items if isinstance(item, Box)]
        if len(only) == 1 and len(only[0].items) <= MAX_CHILDREN and len(self.root.items) <= MAX_OPEN_CHILDREN:
            only[0].is_open = True

    def _fold(self, box: Box, is_root: bool = False) -> None:
        """Fold what a box holds, from the inside outwards."""
        for item in box.items:
            if isinstance(item, Box):
                self._fold(item)
        box.items = self._box_runs(box.items, checkpoint_of, "segment")
        calls = self.gradient_calls
        box.items = self._box_runs(
            box.items, lambda node: (node.code, node.instruction_offset) if node in calls else None, "gradient"
        )
        codes = {item.code for item in box.items if isinstance(item, GraphNode)}
        if len(codes) > 1:
            counts = Counter(item.code for item in box.items if isinstance(item, GraphNode))
            own: CodeType | None = counts.most_common(1)[0][0]
            if is_root:
                own = next((code for code in codes if code.co_name == "<module>"), None)
            box.items = self._box_runs(box.items, lambda node: None if node.code is own else node.code, "function")
        self._fold_long(box)

    def _box_runs(
        self, items: Sequence[Box | GraphNode], key_of: Callable[[GraphNode], object], kind: str
    ) -> list[Box | GraphNode]:
        """Put runs of nodes with one key, which is not None, into boxes; one node alone needs none."""
        result: list[Box | GraphNode] = []
        for key, group in groupby(items, lambda item: None if isinstance(item, Box) else key_of(item)):
            run = list(group)
            first = run[0]
            if key is None or len(run) < 2 or isinstance(first, Box):
                result += run
                continue
            if kind == "function":
                label, subtitle = f"{first.code.co_name}()", first.site.describe_briefly().rpartition(":")[0]
            elif kind == "gradient":
                label, subtitle = self.gradient_calls[first], first.site.describe_briefly()
            else:
                label = f"checkpoint {getattr(getattr(key, 'function', None), '__name__', '')}".strip()
                subtitle = "recomputed in backward"
            box = Box(self._new_key(), label, kind, subtitle, run)
            self._fold_long(box)
            result.append(box)
        return result

    def _fold_long(self, box: Box) -> None:
        """Fold the iterations of loops, then neighbours, until a box shows few items."""
        if len(box.items) > MAX_CHILDREN:
            box.items = self._box_iterations(box.items)
        while len(box.items) > MAX_CHILDREN:
            box.items = self._box_chunks(box.items)

    def _new_key(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def _box_iterations(self, items: Sequence[Box | GraphNode]) -> list[Box | GraphNode]:
        """Put the iterations of loops into boxes: an iteration ends before what has been in it already."""
        counts = Counter(map(_signature, items))
        result: list[Box | GraphNode] = []
        is_in_loop = [counts[_signature(item)] >= MIN_ITERATIONS for item in items]
        for inside, group in groupby(zip(items, is_in_loop, strict=True), lambda pair: pair[1]):
            run = [item for item, _ in group]
            iterations = _split_iterations(run) if inside else []
            if len(iterations) < MIN_ITERATIONS or max(map(len, iterations)) < 2:
                result += run
                continue
            boxes: list[Box | GraphNode] = []
            for i, iteration in enumerate(iterations):
                box = Box(self._new_key(), f"iteration {i + 1}", "lines", _lines_of(iteration), iteration)
                self._fold_long(box)
                boxes.append(box if len(iteration) > 1 else iteration[0])
            while len(boxes) > MAX_CHILDREN:
                boxes = self._box_chunks(boxes)
            result += boxes
        return result

    def _box_chunks(self, items: Sequence[Box | GraphNode]) -> list[Box | GraphNode]:
        """Put neighbours into boxes, so that as many boxes remain as each of them holds; of many, in several levels."""
        levels = max(2, math.ceil(math.log(len(items), MAX_CHILDREN)))
        size = math.ceil(len(items) ** (1 / levels))
        result: list[Box | GraphNode] = []
        for i in range(0, len(items), size):
            part = list(items[i : i + size])
            if len(part) == 1:
                result += part
                continue
            classes = {item.subtitle if isinstance(item, Box) and item.kind == "module" else "" for item in part}
            subtitle = _lines_of(part) if len(classes) > 1 or "" in classes else f"{len(part)} × {classes.pop()}"
            result.append(Box(self._new_key(), _label_chunk(part), "lines", subtitle, part))
        return result

    def groups(self, modules: Mapping[str, ModuleBox]) -> list[DrawnGroup]:
        """Return the boxes of the drawing."""
        return list(self._draw(self.root, modules))

    def _draw(self, box: Box, modules: Mapping[str, ModuleBox]) -> Iterable[DrawnGroup]:
        for item in box.items:
            if isinstance(item, Box):
                module = modules.get(item.key.removeprefix("m ")) if item.kind == "module" else None
                details = _describe_module(module) if module else ()
                yield DrawnGroup(
                    item.key, item.label, item.kind, box.key, item.subtitle, details=details, is_open=item.is_open
                )
                yield from self._draw(item, modules)

    def paths(self) -> dict[GraphNode, Path]:
        """Return for each node the keys of the boxes around it, outermost first."""
        found: dict[GraphNode, Path] = {}

        def visit(box: Box, path: Path) -> None:
            for item in box.items:
                if isinstance(item, Box):
                    visit(item, (*path, item.key))
                else:
                    found[item] = path

        visit(self.root, ())
        return found


def _label_chunk(items: Sequence[Box | GraphNode]) -> str:
    """Return "iterations 1–12", "mul × 40", or the first and the last label."""
    first, last = [item.label if isinstance(item, Box) else label_of(item) for item in (items[0], items[-1])]
    if first.startswith("iteration") and last.startswith("iteration"):
        return f"iterations {first.split()[1].partition('–')[0]}–{last.split()[1].rpartition('–')[2]}"
    signatures = {_signature(item) for item in items}
    name, _, count = first.partition(" × ")
    if len(signatures) == 1 and not count:
        return f"{first} × {len(items)}"
    if all(isinstance(item, Box) and item.label.startswith(f"{name} × ") for item in items):
        return f"{name} × {sum(int(item.label.rpartition(' ')[2]) for item in items if isinstance(item, Box))}"
    if isinstance(items[0], Box) and items[0].kind == "lines":
        name = label_of(items[0].first)
    if isinstance(items[-1], Box) and items[-1].kind == "lines":
        last = label_of(items[-1].last)
    return f"{name} … {last}"


def _signature(item: Box | GraphNode) -> Hashable:
    """Return what is the same for the same part of another iteration."""
    if isinstance(item, Box):
        return item.kind, item.label.partition(" (call ")[0]
    return item.code, item.instruction_offset, label_of(item)


def _split_iterations(items: Sequence[Box | GraphNode]) -> list[list[Box | GraphNode]]:
    """Split items so that nothing comes twice in a part, except in a row: an inner loop of one op stays together."""
    iterations: list[list[Box | GraphNode]] = []
    seen: set[Hashable] = set()
    for signature, row in groupby(items, _signature):
        if not iterations or signature in seen:
            iterations.append([])
            seen = set()
        seen.add(signature)
        iterations[-1] += row
    return iterations


def _lines_of(items: Sequence[Box | GraphNode]) -> str:
    """Return the lines of some nodes: "train.py:12" or "train.py:12–15"."""
    sites = [(item.first if isinstance(item, Box) else item).site for item in items]
    name = sites[0].describe_briefly()
    lines = [site.line for site in sites if site.file == sites[0].file]
    return name if len(set(lines)) == 1 else f"{name.rpartition(':')[0]}:{min(lines)}–{max(lines)}"


def _describe_module(box: ModuleBox) -> tuple[tuple[str, str], ...]:
    lines = repr(box.module).splitlines()
    parameters = sum(parameter.numel() for parameter in box.module.parameters())
    mode = "training" if box.module.training else "evaluation"
    shown = [("module", lines[0])] if len(lines) == 1 else []
    kind = type(box.module).__name__
    return (*shown, ("class", kind), *box.values.items(), ("parameters", f"{parameters:,}"), ("mode", mode))
