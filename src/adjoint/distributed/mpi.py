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
            f"adjoint.distributed needs MPI for several processes: pip install 'adjoint-autograd[mpi]' ({error})"
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
    if address is not None and comm.size == 1 < size:
        library = mpi_module().Get_library_version().split(",")[0].split("\n")[0].strip()
        raise RuntimeError(
            f"ranks that no MPI launcher started meet by MPICH, and this is {library}: start them by its own mpiexec, "
            "as in mpiexec -n 2 python -m adjoint.run train.py, or pip install mpich"
        )
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


def exchange_pairwise(comm: Communicator, sources: Sequence[Array], targets: Sequence[Array]) -> None:
    """Send `sources[i]` to rank i and receive `targets[i]` from it; this rank's own stay.

    Between two ranks of a machine, MPICH's Alltoallv takes four times as long for ten megabytes. More than two are
    served side by side: one after another, each would wait for the link to run empty.

    Shapes: without gaps; `targets[i]` as rank i's source for this rank.
    """
    count, rank = comm.size, comm.rank
    if count == 2:
        peer = 1 - rank
        comm.Sendrecv(bytes_of(sources[peer]), peer, 0, bytes_of(targets[peer]), peer, 0)
        return
    peers = [((rank + step) % count, (rank - step) % count) for step in range(1, count)]
    requests = [comm.Irecv(bytes_of(targets[source]), source, 0) for _, source in peers]
    requests += [comm.Isend(bytes_of(sources[to]), to, 0) for to, _ in peers]
    for request in requests:
        request.Wait()
