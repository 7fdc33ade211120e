"""`adjoint.utils.flop_counter`: how many floating point operations products, convolutions and attention take."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from weakref import WeakKeyDictionary

from adjoint.autograd.engine.node_call import call_node
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.nn.module.hooks import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["FlopCounterMode"]

GLOBAL_SCOPE = "Global"  # what is counted for no module in particular
SUFFIXES = ["", "K", "M", "B", "T"]
Shape = tuple[int, ...]


class FlopCounterMode:
    """A block in which operations are counted, those of `backward` too: 2 for each multiplication and its addition.

    Attention and recurrent layers are counted too, which PyTorch leaves out on the CPU. `mods` is not needed. With
    `display` a table is printed at the end, `depth` modules deep.
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError("FlopCounterMode: ops of one's own are not counted; leave custom_mapping out")
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.inside = {GLOBAL_SCOPE}
        self.names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self.ending: list[Callable[..., Any]] = []

    def get_total_flops(self) -> int:
        """What was counted in all."""
        return sum(self.flop_counts[GLOBAL_SCOPE].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """What was counted, by module and by op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """What was counted as a table: a row for each module, and below it one for each op."""
        depth = self.depth if depth is None else depth
        whole = self.get_total_flops()
        level = min(max(len(str(whole)) - 1, 0) // 3, len(SUFFIXES) - 1)

        def row(name: str, count: int) -> list[str]:
            share = count / whole if whole else 0.0
            return [name, f"{count / 1000**level:.3f}{SUFFIXES[level]}" if count else "0", f"{share:.2%}"]

        modules = sorted(name for name in self.flop_counts if name != GLOBAL_SCOPE and name.count(".") < depth)
        covered = any(sum(self.flop_counts[name].values()) >= whole for name in modules)
        rows = []
        for name in modules if covered else [GLOBAL_SCOPE, *modules]:
            padding = " " * (name.count(".") + (name != GLOBAL_SCOPE and not covered))
            rows.append(row(padding + name, sum(self.flop_counts[name].values())))
            rows += [row(f"{padding} - {op}", count) for op, count in self.flop_counts[name].items()]
        return "\n".join(_format_table([["Module", "FLOP", "% Total"], *rows]))

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.inside = {GLOBAL_SCOPE}
        scope = ModeScope(watcher=_FlopObserver(self, mode.watcher))
        hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self.ending = [scope.__exit__, *(lambda *_, hook=hook: hook.remove() for hook in hooks)]
        scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for end in self.ending:
            end(*error)
        if self.display:
            sys.stdout.write(f"{self.get_table()}\n")

    def count(self, op: str, flops: int) -> None:
        """Count for the modules whose forward or backward runs."""
        for name in self.inside:
            self.flop_counts[name][op] += flops

    def _enter_module(self, module: Any, _: Any) -> None:
        name = self.names.setdefault(module, type(module).__name__)
        for child, each in module.named_children():
            self.names[each] = f"{name}.{child}"
        self.inside = self.inside | {name}

    def _leave_module(self, module: Any, *_: Any) -> None:
        self.inside = self.inside - {self.names[module]}


class _FlopObserver:
    """What `mode.watcher` is: sees the results of ops, and runs the nodes of the walk."""

    __slots__ = ("counter", "other", "walking")

    def __init__(self, counter: FlopCounterMode, other: Any) -> None:
        self.counter, self.other = counter, other
        self.walking = False

    def observe_op(self, op: Any, inputs: Sequence[Any], out: Any) -> None:
        """Count what an op took, and let its node know for whom."""
        found = FORMULAS.get(op.name)
        if found is not None:
            name, formula = found
            flops = formula(*(_shape(x) for x in inputs), _shape(out))
            if op.name == "linear" and inputs[2] is None:
                name = "aten.mm"
            self.counter.count(f"{name}_backward" if self.walking and op.name in WITH_BACKWARD else name, flops)
            if out.node is not None:
                out.node.metadata["flops_"] = self.counter.inside, flops
        if self.other is not None:
            self.other.observe_op(op, inputs, out)

    def pull(self, gradients: Any, node: Any, g: Any, mask: Any = None) -> Any:
        """`autograd.pull.pull`, counted for the modules that the node was made in."""
        with self._attribute_to_node(node):
            return getattr(self.other, "pull", call_node)(gradients, node, g, mask)

    @contextmanager
    def _attribute_to_node(self, node: Any) -> Iterator[None]:
        known = getattr(node, "metadata", {}).get("flops_")
        before = self.counter.inside, self.walking
        self.walking = True
        if known is not None:
            self.counter.inside, flops = known
            if node.op.name == "attention":  # whose rule is no op: 5 products for the 2 of forward
                self.counter.count(f"{FORMULAS['attention'][0]}_backward", flops // 2 * 5)
        try:
            yield
        finally:
            self.counter.inside, self.walking = before


def _matmul_flops(x: Shape, y: Shape, out: Shape) -> int:
    return 2 * math.prod(x) * y[-1]


def _linear_flops(x: Shape, weight: Shape, bias: Any, out: Shape) -> int:
    return 2 * math.prod(x) * weight[0]


def _attention_flops(q: Shape, k: Shape, v: Shape, *_: Any) -> int:
    return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


FORMULAS: dict[str, tuple[str, Callable[..., int]]] = {
    "mm": ("aten.mm", _matmul_flops),
    "bmm": ("aten.bmm", _matmul_flops),
    "addmm": ("aten.addmm", lambda _, x, y, out: _matmul_flops(x, y, out)),
    "linear": ("aten.addmm", _linear_flops),
    "attention": ("aten._scaled_dot_product_flash_attention_for_cpu", _attention_flops),
    "convolution": ("aten.convolution", lambda x, w, *out: 2 * math.prod(w) * x[0] * math.prod(out[-1][2:])),
    "convolution_input": ("aten.convolution", lambda g, w, *_: 2 * math.prod(w) * g[0] * math.prod(g[2:])),
    "convolution_weight": ("aten.convolution", lambda x, g, *out: 2 * math.prod(out[-1]) * g[0] * math.prod(g[2:])),
}
WITH_BACKWARD = {"convolution", "convolution_input", "convolution_weight"}


def _shape(x: Any) -> Any:
    return tuple(x.shape) if hasattr(x, "shape") else x


def _format_table(rows: list[list[str]]) -> Iterator[str]:
    """The lines of a table, its header underlined, the first column to the left and the others to the right."""
    widths = [max(len(header) + 2, *map(len, cells)) for header, *cells in zip(*rows, strict=True)]
    for i, (name, *numbers) in enumerate(rows):
        cells = [name.ljust(widths[0]), *(n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True))]
        yield "  ".join(cells)
        if i == 0:
            yield "  ".join("-" * width for width in widths)
