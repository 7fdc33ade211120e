"""MPI by mpi4py, which is imported when the ranks of a program meet, and not before: its import is MPI_Init."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from adjoint.core.typing import Array
from adjoint.distributed import rendezvous

Communicator: TypeAlias = Any  # mpi4py.MPI.Comm
Request: TypeAlias = Any  # mpi4py.MPI.Request


def mpi_module() -> Any:
    """Return the module `mpi4py.MPI`. Raises RuntimeError where it, or an MPI library, is not installed."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"adjoint.distributed needs MPI for several processes: pip install 'adjoint[mpi]' ({error})"
        ) from error
    return MPI


def initialize_mpi(rank: int, size: int, address: tuple[str, int] | None, timeout: float) -> Communicator:
    """Let all ranks meet at the address, or by their launcher's MPI, and return the communicator of all.

    Raises: RuntimeError without MPI, or where MPI counts other ranks; TimeoutError if ranks do not come in time.
    """
    if address is not None:
        rendezvous.meet(rank, size, address, timeout)
    comm = mpi_module().COMM_WORLD
    comm.Set_errhandler(mpi_module().ERRORS_RETURN)
    rendezvous.forget_pmi()
    if (comm.rank, comm.size) != (rank, size):
        raise RuntimeError(f"this process is rank {rank} of {size} by $RANK, and {comm.rank} of {comm.size} to MPI")
    return comm


def has_mpi() -> bool:
    """Return whether mpi4py is installed, without loading it."""
    return find_spec("mpi4py") is not None


def bytes_of(x: Array) -> Array:
    """Return the array's memory as bytes, which MPI moves whatever they hold.

    Raises: ValueError for an array with gaps.
    """
    if not x.flags.c_contiguous:
        raise ValueError("Tensors must be contiguous")
    return x.reshape(-1).view(np.uint8)


def exchange_blocks(
    comm: Communicator, source: Array, lengths: Sequence[int], target: Array, received: Sequence[int]
) -> None:
    """Send blocks of bytes of these lengths, and receive blocks of those."""
    begins = [[sum(each[:i]) for i in range(len(each))] for each in (lengths, received)]
    byte = mpi_module().BYTE
    comm.Alltoallv([source, (list(lengths), begins[0]), byte], [target, (list(received), begins[1]), byte])
