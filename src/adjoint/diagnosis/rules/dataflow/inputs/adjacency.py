"""Rules on graphs: an adjacency matrix without self-loops and degrees, messages that go back to where they are from."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.mutation_log import owner
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import is_array
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

PRODUCTS = frozenset({"mm", "matmul", "bmm"})
SCATTERS = frozenset({"add_slices", "add_along"})
MIN_NODES = 6


class BareAdjacency(WatchRule):
    """A product of a symmetric matrix of 0 and 1 with features: each node gets the sum of its neighbours."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        for made in self.facts.flow.makers_behind(*backward.roots):
            if made.op in PRODUCTS and len(made.tensors) == 2 and self._is_bare(made):
                adjacency = made.tensors[0].array
                degree = float(adjacency.sum(-1).mean())
                loops = bool(np.diagonal(adjacency, axis1=-2, axis2=-1).any())
                problem = f"the adjacency matrix {tuple(adjacency.shape)} is used as it is: each node gets the sum of "
                problem += f"its neighbours, {degree:.3g} of them, " + ("" if loops else "and nothing of its own")
                advice = "a = adj + I, then d @ a @ d with d = diag(a.sum(1) ** -0.5)"
                if loops:
                    advice = "d @ a @ d with d = diag(a.sum(1) ** -0.5)"
                self.report(
                    "adjacency-not-normalized", made.place, "adj", problem.rstrip(", "), advice, f"{degree:.3g}"
                )
                return

    def _is_bare(self, made: Made) -> bool:
        """Return whether nothing divides by degrees, nor adds a node's own features."""
        flow, (matrix, features) = self.facts.flow, made.tensors
        a = matrix.array
        if matrix.node is not None or not is_array(matrix) or a.ndim not in (2, 3) or a.shape[-1] != a.shape[-2]:
            return False
        if a.shape[-1] < MIN_NODES or a.dtype.kind != "f" or not ((a == 0) | (a == 1)).all():
            return False
        if not np.array_equal(a, np.swapaxes(a, -1, -2)) or not 1 < a.sum(-1).mean() < a.shape[-1]:
            return False
        loops = np.diagonal(a, axis1=-2, axis2=-1)
        uses = [each for each in flow.users(matrix) if each.op in PRODUCTS]
        if loops.any() and (not loops.all() or len(uses) < 2):
            return False
        around = [*flow.users_past_moves(made.out), flow.maker(features)]
        for each in around:
            if each is None or each.op not in ("add", "mul", "div", "cat"):
                continue
            others = [x for x in each.tensors if x is not made.out]
            if each.op in ("mul", "div") and any(x.node is None and x.array.ndim for x in others):
                return False
            is_joined = each.op in ("add", "cat") and each.out is not features
            if is_joined and any(x.array.ndim == made.out.array.ndim for x in others):
                return False
        return True


class OwnMessages(WatchRule):
    """Features gathered at one end of the edges, and added up at the same end: no node hears of another."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            if made.op not in SCATTERS or len(made.tensors) != 3:
                continue
            taken = flow.maker_past_moves(made.tensors[1])
            if taken is None or taken.op != "index" or len(taken.tensors) != 2 or taken.tensors[0].node is None:
                continue
            source, target = taken.tensors[1].array, made.tensors[2].array
            target = target[:, 0] if target.ndim == 2 else target
            is_row = owner(target).size == 2 * target.size  # the other one is that of the other ends
            if is_row and source.shape == target.shape and (source == target).all():
                count = source.size
                problem = f"the features of {count} edges are gathered by the index that adds them up: each node gets "
                problem += "its own ones, as often as it has edges"
                advice = "gather by the other row of edge_index: out.index_add(0, dst, h[src])"
                self.report("messages-to-themselves", made.place, "index_add", problem, advice, count)
                return
