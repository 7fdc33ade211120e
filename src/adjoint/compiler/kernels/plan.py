"""The passes' decision about a step: its graph as it will run, the groups of that, and their kernels."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group


class CachedPlan(NamedTuple):
    """A graph as it will run, its groups and their kernels. `rounds`: it has products of float32 matrices."""

    graph: Graph
    fusion: Fusion
    kernels: dict[Group, Kernel]
    rounds: bool = False
