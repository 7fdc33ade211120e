"""Rule on views and reshapes that give the right shape, and mix the elements."""

from __future__ import annotations

import math

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import WatchRule

MIN_ROWS = 4


class MixedView(WatchRule):
    """A view or reshape where dimensions were to be exchanged: it gives the shape, and mixes the elements."""

    ops = frozenset({"reshape"})
    max_passes = 2

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not isinstance(x, Tensor) or self.facts.iteration > 1 or find_library_call("view", "reshape") is None:
            return
        before, after = x.array.shape, out.array.shape
        told = ""
        is_moved_on = len(before) == len(after) >= 3 and before != after and sorted(before) == sorted(after)
        if is_moved_on and min(before) > 1:
            maker = self.facts.flow.maker(x)
            if maker is not None and maker.function in ("cat", "pad"):
                return  # a padded tensor is viewed so to shift each row further than the one before
            places = [before.index(size) for size in after] if len(set(before)) == len(before) else []
            told = f"permute({', '.join(map(str, places))})" if places else "permute(…)"
        elif len(before) == 3 and len(after) == 4 and before[0] == after[0] and min(after) > 1:
            _, rows, width = before
            heads, size = after[1], after[3]
            if after[2] == rows != heads and heads * size == width:
                told = f"view(…, {rows}, {heads}, {size}).transpose(1, 2)"
        elif len(before) == 4 and len(after) == 3 and before[0] == after[0] and before[1] != before[2] == after[1]:
            made = self.facts.flow.maker(x)
            is_moved = made is not None and made.function in ("transpose", "permute")
            if before[1] * before[3] == after[2] and before[1] > 1 and not is_moved:
                told = "transpose(1, 2) before the reshape"
        elif x.node is None and len(before) == 4 and len(after) == 3 and is_cut_to_patches(before, after):
            made = self.facts.flow.maker(x)
            if made is None or made.family != "movement":
                size = math.isqrt(after[2] // before[1])
                told = f"unfold(2, {size}, {size}).unfold(3, {size}, {size}).permute(0, 2, 3, 1, 4, 5) before it"
        elif x.node is not None and len(before) >= 3 and before[0] != after[0] and after[1:] == before[1:2]:
            others = ", ".join(map(str, range(2, len(before))))
            told = f"permute(0, {others}, 1) before it" if before[1] not in (before[-1], 1) else ""
        elif len(after) == 2:
            told = self._find_mixed_samples(x, before, after[0])
        if told:
            self.report(
                "view-in-place-of-transpose",
                caller_place(),
                "view",
                f"a view of {before} as {after} keeps the order in memory: its elements belong to other places than "
                "before",
                f"exchange dimensions: {told}",
                after,
            )

    def _find_mixed_samples(self, x: Tensor, before: tuple[int, ...], rows: int) -> str:
        """Return what keeps samples apart that rows take their elements from, which are not where the rows are."""
        made = self.facts.flow.maker(x)
        if made is None or not made.tensors or rows < MIN_ROWS:
            return ""
        shapes = [part.array.shape for part in made.tensors]
        if made.op == "cat" and len(shapes) > 1 and before[0] == rows * len(shapes):
            return "torch.cat(…, dim=1) in place of it" if all(shape[:1] == (rows,) for shape in shapes) else ""
        is_moved = made.function in ("permute", "transpose", "movedim", "t") and shapes[0][:1] == (rows,)
        return f"reshape({rows}, -1) before the {made.function}" if is_moved and rows not in before[:-1] else ""


def is_cut_to_patches(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether images (N, C, H, W) become as many values as their squares have: (N, patches, C * size ** 2)."""
    count, channels, height, width = before
    size = math.isqrt(after[2] // channels)
    is_square = after[2] == channels * size * size and 1 < size < width and height % size == width % size == 0
    return count == after[0] and is_square and after[1] > 1
