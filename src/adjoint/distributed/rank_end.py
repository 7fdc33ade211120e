"""The end of a rank: an error in one ends all, after its traceback, and one that ends as it should tells so."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from adjoint.distributed.mpi import mpi_module
from adjoint.distributed.rank_watch import RankWatch


def end_all_after_uncaught_errors(rank: int, watches: Sequence[RankWatch], *, has_launcher: bool) -> None:
    """Have an error that ends this process end all, after its traceback: the others would wait for it for ever."""
    show = sys.excepthook

    def show_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        show(kind, error, trace)
        why = f"ended with {kind.__name__}"
        sys.stdout.flush()
        sys.stderr.write(f"adjoint: rank {rank} {why}, and the others end with it\n")
        sys.stderr.flush()
        if has_launcher:
            _wait_for_reader(2)  # the first end of a rank makes mpiexec drop what it has not read
        for watch in watches:
            watch.fail(why)
        if has_launcher:
            mpi_module().COMM_WORLD.Abort(1)
        os._exit(1)

    sys.excepthook = show_and_end


def _wait_for_reader(descriptor: int) -> None:
    """Wait, for a second at most, until what was written to a pipe has been read and passed on."""
    import fcntl  # POSIX alone has it, as it has MPI's launchers
    import termios

    unread, end = array("i", [1]), time.monotonic() + 1.0
    with suppress(OSError):  # not a pipe: nobody reads it
        while unread[0] and time.monotonic() < end:
            time.sleep(0.05)
            fcntl.ioctl(descriptor, termios.FIONREAD, unread)


def leave_ranks(watches: Sequence[RankWatch]) -> None:
    """Tell the others how this process ends; one that ends as it should waits for them in MPI_Finalize."""
    error = sys.exc_info()[1]  # in a process of multiprocessing, what ends it
    failed = error is not None and not (isinstance(error, SystemExit) and error.code in {None, 0})
    for watch in watches:
        if failed:
            watch.fail(f"ended with {type(error).__name__}")
        else:
            watch.end()
    if not failed and multiprocessing.parent_process() is not None and not mpi_module().Is_finalized():
        mpi_module().Finalize()  # elsewhere mpi4py does it
