"""Comparison of what ranks are about to exchange, where they may differ: `ADJOINT_DISTRIBUTED_DEBUG=1`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from adjoint.core.typing import Array
from adjoint.distributed.mpi import Communicator
from adjoint.ops.collectives import How, ReduceOp

OWN_VARIABLE, TORCH_VARIABLE = "ADJOINT_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DEBUG"
CALL_TAG = 0
# names of a collective under which ranks may meet: one eager, another in a compiled step
SAME_CALLS = {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}
SHAPED_CALLS = {"all_reduce", "reduce", "broadcast"}  # the others move rows, whatever their shape
PLAIN_CALLS = {"all_gather_into_tensor", "all_to_all_single"}  # without a reduction or a root
UNEQUAL_CALLS = {"all_to_all", "all_to_all_single"}  # ranks may give each other different numbers


class DebugLevel(Enum):
    """Level of checks: with DETAIL ranks compare each collective before they begin it."""

    OFF = 0
    INFO = 1
    DETAIL = 2


NUMBERED_LEVELS = {"0": DebugLevel.OFF, "1": DebugLevel.DETAIL}  # of our own variable
_level: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """Return the level that was set, or else that of the environment."""
    return _level[0] if _level else _read_level()


def set_debug_level(level: DebugLevel) -> None:
    """Set the level, before `init_process_group`: groups that are there keep theirs."""
    _level[:] = [DebugLevel(level)]


def set_debug_level_from_env() -> None:
    """Take the level from $ADJOINT_DISTRIBUTED_DEBUG or $TORCH_DISTRIBUTED_DEBUG."""
    _level[:] = [_read_level()]


def _read_level() -> DebugLevel:
    """Raises: RuntimeError for a level that does not exist."""
    for variable in (OWN_VARIABLE, TORCH_VARIABLE):
        name = os.environ.get(variable, "").upper()
        if name in DebugLevel.__members__:
            return DebugLevel[name]
        if name in NUMBERED_LEVELS and variable == OWN_VARIABLE:
            return NUMBERED_LEVELS[name]
        if name:
            raise RuntimeError(f"The value of {variable} must be OFF, INFO, or DETAIL, and not {name}")
    return DebugLevel.OFF


class CallFacts(NamedTuple):
    """The facts about a call: in all but the line, ranks must agree."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    how: str
    ranks: tuple[int, ...]
    group: int  # how many had been made before it
    site: str

    def __str__(self) -> str:
        operand = f" of {self.dtype}{list(self.shape)}" if self.dtype else ""
        group = f" (group {self.group})" if self.group else ""
        return f"{self.name}{operand}{self.how} among ranks {list(self.ranks)}{group}, at {self.site}"


def describe_operand(name: str, x: Array | None, how: How | str) -> tuple[str, tuple[int, ...], str]:
    """Return the type and the shape on which ranks must agree, and the reduction or the root in words."""
    if how is None or name in PLAIN_CALLS:
        told = ""
    else:
        told = f", {how.name}" if isinstance(how, ReduceOp) else f", {how}" if isinstance(how, str) else f", root {how}"
    if x is None:
        return "", (), told
    shape = x.shape if name in SHAPED_CALLS else () if name in UNEQUAL_CALLS else (x.size,)
    return str(x.dtype), shape, told


class CallChecker:
    """Ranks that tell one another each call before they begin it, by messages among all ranks."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm

    def compare(self, facts: CallFacts) -> None:
        """Raise RuntimeError on all ranks where they do not call the same."""
        own, calls = self.comm.rank, {self.comm.rank: facts}
        others = [rank for rank in facts.ranks if rank != own]
        sent = [self.comm.isend(tuple(facts), rank, CALL_TAG) for rank in others]
        for rank in others:
            calls[rank] = CallFacts(*self.comm.recv(None, rank, CALL_TAG))
        for request in sent:
            request.wait()
        first = min(calls)
        for rank in sorted(calls):
            if calls[rank][:-1] != calls[first][:-1]:
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks: rank {first} calls {calls[first]}; rank {rank} "
                    f"calls {calls[rank]}"
                )


def make_facts(
    name: str, x: Array | None, how: How | str, ranks: Sequence[int], group: int, site: object
) -> CallFacts:
    """Return the facts about a call of the ranks."""
    called = SAME_CALLS.get(name, name)
    return CallFacts(called, *describe_operand(called, x, how), tuple(ranks), group, str(site))
