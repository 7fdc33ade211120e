"""`adjoint.utils.flop_counter`: a counter of floating point operations of products, convolutions and attention."""

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
from adjoint.core.typing import Function
from adjoint.nn.module.hooks import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["FlopCounterMode"]

GLOBAL_SCOPE = "Global"  # the name of the counts of all modules together
SUFFIXES = ["", "K", "M", "B", "T"]
Shape = tuple[int, ...]


class FlopCounterMode:
    """Context that counts operations, those of `backward` too: 2 for each multiplication and its addition.

    Attention and recurrent layers are counted too, which PyTorch leaves out on the CPU. `mods` is not needed. With
    `display` a table is printed at the end, `depth` modules deep.
    """

    def __init__(
        self, mods: object = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError("FlopCounterMode: ops of one's own are not counted; leave custom_mapping out")
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.inside = {GLOBAL_SCOPE}
        self.names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self.ending: list[Function] = []

    def get_total_flops(self) -> int:
        """Return the total count."""
        return sum(self.flop_counts[GLOBAL_SCOPE].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the counts by module and op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Format the counts as a table: a row for each module, and below it one for each op."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        level = min(max(len(str(total)) - 1, 0) // 3, len(SUFFIXES) - 1)

        def row(name: str, count: int) -> list[str]:
            share = count / total if total else 0.0
            return [name, f"{count / 1000**level:.3f}{SUFFIXES[level]}" if count else "0", f"{share:.2%}"]

        modules = sorted(name for name in self.flop_counts if name != GLOBAL_SCOPE and name.count(".") < depth)
        covered = any(sum(self.flop_counts[name].values()) >= total for name in modules)
        rows = []
        for name in modules if covered else [GLOBAL_SCOPE, *modules]:
            padding = " " * (name.count(".") + (name != GLOBAL_SCOPE and not covered))
            rows.append(row(padding + name, sum(self.flop_counts[name].values())))
            rows += [row(f"{padding} - {op}", count) for op, count in self.flop_counts[name].items()]
        return "\n".join(_format_table([["Module", "FLOP", "% Total"], *rows]))

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.inside = {GLOBAL_SCOPE}
        scope = ModeScope(anomaly_detector=_FlopObserver(self, mode.anomaly_detector))
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
        """Add to the counts of the modules whose forward or backward runs."""
        for name in self.inside:
            self.flop_counts[name][op] += flops

    def _enter_module(self, module: Any, _: object) -> None:
        name = self.names.setdefault(module, type(module).__name__)
        for child, each in module.named_children():
            self.names[each] = f"{name}.{child}"
        self.inside = self.inside | {name}

    def _leave_module(self, module: Any, *_: object) -> None:
        self.inside = self.inside - {self.names[module]}


class _FlopObserver:
    """Watcher of `mode` that sees the results of ops, and runs the nodes of a backward pass."""

    __slots__ = ("counter", "other", "walking")

    def __init__(self, counter: FlopCounterMode, other: Any) -> None:
        self.counter, self.other = counter, other
        self.walking = False

    def observe_op(self, op: Any, inputs: Sequence[Any], out: Any) -> None:
        """Count the operations of an op, and store the modules for its node."""
        if op.name in FORMULAS:
            name, formula = FORMULAS[op.name]
            flops = formula(*(_shape(x) for x in inputs), _shape(out))
            if op.name == "linear" and inputs[2] is None:
                name = "aten.mm"
            self.counter.count(f"{name}_backward" if self.walking and op.name in WITH_BACKWARD else name, flops)
            if out.node is not None:
                out.node.metadata["flops_"] = self.counter.inside, flops
        if self.other is not None:
            self.other.observe_op(op, inputs, out)

    def pull(self, gradients: Any, node: Any, g: Any, mask: Any = None) -> Any:
        """Run a node, and count for the modules in which it was made."""
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


FORMULAS: dict[str, tuple[str, Callable[..., int]]] = {
    "mm": ("aten.mm", _matmul_flops),
    "bmm": ("aten.bmm", _matmul_flops),
    "addmm": ("aten.addmm", lambda _, x, y, out: _matmul_flops(x, y, out)),
    "linear": ("aten.addmm", lambda x, weight, bias, out: 2 * math.prod(x) * weight[0]),
    "attention": (
        "aten._scaled_dot_product_flash_attention_for_cpu",
        lambda q, k, v, *_: 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1]),
    ),
    "convolution": ("aten.convolution", lambda x, w, *out: 2 * math.prod(w) * x[0] * math.prod(out[-1][2:])),
    "convolution_input": ("aten.convolution", lambda g, w, *_: 2 * math.prod(w) * g[0] * math.prod(g[2:])),
    "convolution_weight": ("aten.convolution", lambda x, g, *out: 2 * math.prod(out[-1]) * g[0] * math.prod(g[2:])),
}
WITH_BACKWARD = {"convolution", "convolution_input", "convolution_weight"}


def _shape(x: Any) -> Any:
    return tuple(x.shape) if hasattr(x, "shape") else x


def _format_table(rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table with an underlined header, the first column to the left, the others to the right."""
    widths = [max(len(header) + 2, *map(len, cells)) for header, *cells in zip(*rows, strict=True)]
    for i, (name, *numbers) in enumerate(rows):
        cells = [name.ljust(widths[0]), *(n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True))]
        yield "  ".join(cells)
        if i == 0:
            yield "  ".join("-" * width for width in widths)
