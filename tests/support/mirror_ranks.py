"""A group whose other ranks hold what this one holds: exchanges of several ranks in one process, without MPI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.distributed import default_group, ordered_sum, process_group
from adjoint.distributed.process_group import ProcessGroup

NAMES = SimpleNamespace(
    BYTE=None, IN_PLACE="in place", COMM_NULL=None, SUM=np.add, MAX=np.maximum, MIN=np.minimum, LOR=np.logical_or
)


class MirrorCommunicator:
    """Communicator of this rank and others that do the same; `calls` names what it was asked for."""

    def __init__(self, size: int = 2, calls: list[str] | None = None) -> None:
        self.rank, self.size, self.calls = 0, size, [] if calls is None else calls
        self.fails_at = -1  # the number of the call that raises

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) - 1 == self.fails_at:
            raise RuntimeError("the network is gone")

    def Dup(self) -> MirrorCommunicator:
        """MPI_Comm_dup: what goes over either is noted in one list."""
        return self

    def Free(self) -> None:
        """MPI_Comm_free."""

    def Barrier(self) -> None:
        """MPI_Barrier."""
        self._note("Barrier")

    def allgather(self, value: Any) -> list[Any]:
        """MPI_Allgather of a Python object."""
        self._note("allgather")
        return [value] * self.size

    def Allgather(self, sent: Any, received: Any) -> None:
        """MPI_Allgather of bytes."""
        self._note("Allgather")
        received[...] = np.tile(sent.copy(), self.size)

    def Allreduce(self, sent: Any, received: Any, op: Any) -> None:
        """MPI_Allreduce."""
        self._note("Allreduce")
        source = received.copy() if sent is NAMES.IN_PLACE else sent
        received[...] = op.reduce(np.stack([source] * self.size), axis=0)

    def Sendrecv(self, sent: Any, dest: int, sendtag: int, received: Any, source: int, recvtag: int) -> None:
        """MPI_Sendrecv of bytes."""
        self._note("Sendrecv")
        received[...] = sent

    def Bcast(self, values: Any, root: int) -> None:
        """MPI_Bcast of bytes."""
        self._note("Bcast")


@contextmanager
def mirror_ranks(size: int = 2) -> Iterator[MirrorCommunicator]:
    """Let the group of all ranks be one of `size` ranks that all hold the same."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (process_group, default_group):
            patch.setattr(module, "mpi_module", lambda: NAMES)
        patch.setattr(ordered_sum, "MAX_GATHERED_BYTES", 1 << 40)  # sums by Allgather alone
        comm = MirrorCommunicator(size)
        made = ProcessGroup(comm, list(range(size)), "gloo")
        default_group._set_world(made)
        try:
            yield comm
        finally:
            if default_group.is_initialized():
                default_group.destroy_process_group()
