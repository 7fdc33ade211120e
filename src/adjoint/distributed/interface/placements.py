"""Placements: words for how a tensor would lie on the ranks of a mesh, which libraries put into their plans.

Tensors lie on one rank here, so that nothing is placed. The words are values that can be made, compared and printed.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


class Placement:
    """Base class of placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True if each rank has a part, along `dim` where it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """True if each rank has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True if the whole is a reduction of what the ranks have, by `reduce_op` where it is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part of dimension `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class StridedShard(Shard):
    """Each rank has a part of a dimension that another mesh dimension has divided into `split_factor` parts."""

    _: KW_ONLY
    split_factor: int

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank has a term of the tensor, which `reduce_op` puts together."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
