"""A rank that is lost, fails or is stuck is named with the line where the others wait, and all end."""

import re
import sys
import time
from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, run_launcher, run_mpiexec, run_ranks
from tests.support.scripts import Done

BEGIN = """
    import os, signal, sys, time
    import adjoint as ad
    import adjoint.distributed as dist
    from datetime import timedelta

    from adjoint.distributed.rank_watch import find_shared_files

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    with open(f"{os.path.dirname(sys.argv[0])}/shared{rank}", "w") as file:
        file.write("\\n".join(find_shared_files()))
    x = ad.ones(100_000)
    for i in range(40):
        dist.all_reduce(x)
        x.mul_(0.3)
"""


def fail(folder: Path, how: str, count: int = 3) -> list[Done]:
    done = run_ranks(folder, count, BEGIN + f"    if rank == 1:\n        {how}\n    dist.all_reduce(x)\n")
    files = {Path(name) for path in folder.glob("shared*") for name in path.read_text().split()}
    assert files or not sys.platform.startswith("linux")
    end = time.monotonic() + 10
    while any(file.exists() for file in files) and time.monotonic() < end:  # the rendezvous removes it last
        time.sleep(0.05)
    assert not any(file.exists() for file in files)
    return done


@needs_mpi
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_rank_is_named_and_all_end(victim: int, tmp_path: Path) -> None:
    # after a while: the others have come to the next call, and wait
    how = f"pass\n    if rank == {victim}:\n        time.sleep(0.5)\n        os.kill(os.getpid(), signal.SIGKILL)"
    done = fail(tmp_path, how)
    assert done[victim].status == -9
    for rank in {0, 1, 2} - {victim}:
        assert done[rank].status == 75
        assert f"rank {victim} on " in done[rank].error
        # #40 where the killed rank was done with that before this one
        waited = rf" died; rank {rank} waited in all_reduce #4[01], from {re.escape(str(tmp_path / 'program.py'))}:"
        assert re.search(waited, done[rank].error)


@needs_mpi
def test_an_error_ends_all_after_its_traceback(tmp_path: Path) -> None:
    done = fail(tmp_path, "raise KeyError('here')")
    assert done[1].error.splitlines()[-2:] == [
        "KeyError: 'here'", "adjoint: rank 1 ended with KeyError, and the others end with it",
    ]  # fmt: skip
    assert [each.status for each in done] == [75, 1, 75]
    assert "ended with KeyError; rank 0 waited in all_reduce #4" in done[0].error


@needs_mpi
def test_an_error_ends_all_under_mpiexec(tmp_path: Path) -> None:
    program = BEGIN + "    if rank == 1:\n        raise KeyError('here')\n    dist.all_reduce(x)\n"
    done = run_mpiexec(tmp_path, 2, program)
    assert done.status != 0
    assert "KeyError: 'here'" in done.error


@needs_mpi
def test_a_stuck_rank_ends_all_after_the_timeout(tmp_path: Path) -> None:
    program = BEGIN.replace("seconds=60", "seconds=3") + "    if rank:\n        time.sleep(100)\n"
    done = run_ranks(tmp_path, 2, program + "    dist.all_reduce(x)\n")
    assert "s in all_reduce #41, from" in done[0].error
    assert "rank 1 is at past all_reduce #40" in done[0].error
    assert done[0].status == 1
    assert "rank 0 on " in done[1].error


@needs_mpi
def test_a_run_begins_again_from_its_checkpoint(tmp_path: Path) -> None:
    program = """
    import os, signal
    import adjoint as ad
    import adjoint.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = ad.load("state.pt") if os.path.exists("state.pt") else {"step": 0, "x": ad.ones(3)}
    for step in range(state["step"], 20):
        dist.all_reduce(state["x"], dist.ReduceOp.AVG)
        if rank == 0:
            ad.save({"step": step + 1, "x": state["x"] + 1}, "state.pt")
        state["x"] += 1
        dist.barrier()
        if step == 10 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        print(state["x"].tolist(), os.environ["TORCHELASTIC_RESTART_COUNT"])
    """
    done = run_launcher(tmp_path, program, "--nproc-per-node=2", "--max-restarts=1")
    assert done.out == "[21.0, 21.0, 21.0] 1"
    assert "adjoint: rank 1 was killed by SIGKILL" in done.error
