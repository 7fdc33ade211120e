"""The launcher starts ranks with torchrun's variables, ends all when one fails, and starts them again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.ranks import run_launcher

from adjoint.distributed.run import read_options

TELLS = """
    import os, sys
    import torch
    names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR OMP_NUM_THREADS".split()
    with open(os.environ["RANK"], "w") as file:
        print(*[os.environ.get(name) for name in names], *sys.argv[1:], torch.__name__, file=file)
"""


def test_each_rank_is_told_who_it_is(tmp_path: Path) -> None:
    run_launcher(tmp_path, TELLS, "--nproc-per-node=3")
    told = [(tmp_path / str(rank)).read_text().split() for rank in range(3)]
    assert told == [[str(rank), str(rank), "3", "3", "0", "127.0.0.1", "1", "torch"] for rank in range(3)]


def test_ranks_of_a_second_machine_are_numbered_on(tmp_path: Path) -> None:
    options = "--nproc_per_node=2 --nnodes=2 --node_rank=1 --master_addr=h --master_port=9"
    run_launcher(tmp_path, TELLS, *options.split())
    assert sorted(path.name for path in tmp_path.glob("[0-9]")) == ["2", "3"]
    assert (tmp_path / "3").read_text().split()[:6] == ["3", "1", "4", "2", "1", "h"]


def test_a_failed_rank_is_named_and_ends_all(tmp_path: Path) -> None:
    program = """
        import os, time
        if os.environ["RANK"] == "1":
            raise SystemExit(7)
        time.sleep(60)
    """
    began = time.monotonic()
    done = run_launcher(tmp_path, program, "--nproc-per-node=3", status=7)
    assert "adjoint: rank 1 failed with exit status 7" in done.error
    assert time.monotonic() - began < 30


def test_a_killed_rank_is_named_by_its_signal(tmp_path: Path) -> None:
    program = """
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert "adjoint: rank 0 was killed by SIGKILL" in run_launcher(tmp_path, program, status=137).error


def test_all_ranks_are_started_again(tmp_path: Path) -> None:
    program = """
        import os
        count = os.environ["TORCHELASTIC_RESTART_COUNT"]
        with open(f"{os.environ['RANK']}-{count}", "w"):
            pass
        if os.environ["RANK"] == "0" and count != "2":
            raise SystemExit(1)
    """
    done = run_launcher(tmp_path, program, "--nproc-per-node=2", "--max-restarts=3")
    assert {"0-0", "0-1", "0-2", "1-2"} <= {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "0-3").exists()
    assert done.error.count("all ranks are started again") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, time\nopen('came' + os.environ['RANK'], 'w').close()\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-m", "adjoint.distributed.run", "--nproc-per-node=2", "program.py"]
    launcher = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    while len(list(tmp_path.glob("came*"))) < 2:
        time.sleep(0.05)
    launcher.send_signal(number)
    assert launcher.wait(60) == 128 + number


def test_options_are_torchruns() -> None:
    given = ["--nnodes=2:4", "--rdzv-endpoint=h:5", "--rdzv-backend=c10d", "-m", "package.train", "--lr", "1"]
    options = read_options(given)
    assert (options.nodes, options.master_address, options.master_port) == (2, "h", 5)
    assert options.program == ("-m", "package.train", "--lr", "1")
    assert read_options(["--hosts=a,b", "x.py"]).master_address == "a"
    with pytest.raises(SystemExit):
        read_options(["--nproc-per-node=2"])
