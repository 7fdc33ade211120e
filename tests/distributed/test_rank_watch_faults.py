"""Whenever a rank fails, it is named, all end within seconds, nothing is left, and the checkpoint is whole."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.support.faults import FaultyRun, Remains
from tests.support.ranks import needs_mpi

import adjoint as ad

pytestmark = [
    pytest.mark.nightly,
    needs_mpi,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes and shared memory are counted by /proc"),
]
MAX_SECONDS = 10.0  # 5 on a machine that does nothing else
KILLS = 50


def check_remains(remains: Remains, folder: Path, *, has_trained: bool) -> None:
    assert remains.processes == []
    assert remains.shared_files == []
    assert remains.seconds < MAX_SECONDS, remains
    if has_trained:
        assert ad.load(folder / "checkpoint.pt")["step"] > 0


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("moment", ["start", "meeting", "backward", "save", "exit"])
def test_a_killed_rank_is_named_and_nothing_is_left(moment: str, victim: int, tmp_path: Path) -> None:
    remains = FaultyRun(tmp_path, moment, victim).finish()
    assert f"adjoint: rank {victim} was killed by SIGKILL" in remains.error
    assert remains.status == 128 + signal.SIGKILL
    check_remains(remains, tmp_path, has_trained=moment not in {"start", "meeting"})


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_an_error_ends_all_after_its_traceback(victim: int, tmp_path: Path) -> None:
    remains = FaultyRun(tmp_path, "exception", victim).finish()
    assert "KeyError: 'here'\nadjoint: rank" in remains.error
    assert f"adjoint: rank {victim} ended with KeyError, and the others end with it" in remains.error
    check_remains(remains, tmp_path, has_trained=True)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_stuck_rank_is_named_after_the_timeout(victim: int, tmp_path: Path) -> None:
    remains = FaultyRun(tmp_path, "stuck", victim).finish()
    assert f"rank {victim} is at" in remains.error
    assert "it ends after its timeout" in remains.error
    check_remains(remains, tmp_path, has_trained=True)


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP", "ctrl-c"])
def test_a_signal_to_the_launcher_ends_all(how: str, tmp_path: Path) -> None:
    run = FaultyRun(tmp_path, "signal", 0)
    run.wait_for_training()
    run.note_failure()
    number = signal.SIGINT if how == "ctrl-c" else signal.Signals[how]
    if how == "ctrl-c":  # the terminal sends it to all
        os.killpg(run.launcher.pid, number)
    else:
        run.launcher.send_signal(number)
    remains = run.finish()
    assert remains.status == 128 + number
    assert f"adjoint: {number.name} came, and all ranks have ended" in remains.error
    check_remains(remains, tmp_path, has_trained=True)


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    remains = FaultyRun(tmp_path, "backward", 1, "--max-restarts=1").finish()
    assert "all ranks are started again (1 of 1)" in remains.error
    assert remains.out.strip() == "ended at step 10"
    assert remains.status == 0
    check_remains(remains, tmp_path, has_trained=True)


def test_kills_at_any_moment_leave_nothing(tmp_path: Path) -> None:
    chance = random.Random(time.time_ns())  # another moment each night
    for i in range(KILLS):
        folder = tmp_path / str(i)
        folder.mkdir()
        victim = chance.randrange(3)
        run = FaultyRun(folder, "any", victim)
        if i % 2:
            run.wait_for_training()
        time.sleep(chance.uniform(0.05, 1.0))
        while not (folder / "failed").exists():
            run.kill_rank(victim)  # it may not have begun
        remains = run.finish()
        assert f"adjoint: rank {victim} was killed by SIGKILL" in remains.error, remains
        check_remains(remains, folder, has_trained=i % 2 == 1)
