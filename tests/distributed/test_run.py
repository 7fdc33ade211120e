"""The launcher starts ranks with torchrun's variables, ends all when one fails, and starts them again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.faults import hear_signals
from tests.support.ranks import run_launcher
from tests.support.scripts import PATHS, start

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
    done = run_launcher(tmp_path, program, "--nproc-per-node=3", "--adjoint", status=7)
    assert "adjoint: rank 1 failed with exit status 7" in done.error
    assert time.monotonic() - began < 30


def test_a_killed_rank_is_named_by_its_signal(tmp_path: Path) -> None:
    program = """
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert "adjoint: rank 0 was killed by SIGKILL" in run_launcher(tmp_path, program, "--adjoint", status=137).error


def test_all_ranks_are_started_again(tmp_path: Path) -> None:
    program = """
        import os
        count = os.environ["TORCHELASTIC_RESTART_COUNT"]
        with open(f"{os.environ['RANK']}-{count}", "w"):
            pass
        if os.environ["RANK"] == "0" and count != "2":
            raise SystemExit(1)
    """
    done = run_launcher(tmp_path, program, "--nproc-per-node=2", "--max-restarts=3", "--adjoint")
    assert {"0-0", "0-1", "0-2", "1-2"} <= {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "0-3").exists()
    assert done.error.count("all ranks are started again") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, time\nopen('came' + os.environ['RANK'], 'w').close()\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-m", "adjoint.distributed.run", "--nproc-per-node=2", "program.py"]
    launcher = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=hear_signals,  # noqa: PLW1509  no threads here
    )  # fmt: skip
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


def test_options_that_say_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refused = {
        "--nproc-per-node=many": "a number of ranks, or one of cpu", "--nnodes=0": "a number of machines",
        "--max-restarts=-1": "--max-restarts=-1: a number", "--tee=9": "'9': 0, 1, 2 or 3",
        "--cuda=cpu --adjoint": "--cuda is for programs", "--no-python -m": "a module or a command",
    }  # fmt: skip
    for given, message in refused.items():
        with pytest.raises(SystemExit):
            read_options([*given.split(), "x.py"])
        assert message in capsys.readouterr().err


def test_options_stand_in_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NNODES": "3", "NPROC_PER_NODE": "2", "NODE_RANK": "1", "RDZV_ENDPOINT": "h"}.items():
        monkeypatch.setenv(f"PET_{name}", value)
    options = read_options(["--nproc-per-node=4", "x.py"])
    assert (options.nodes, options.ranks_per_node, options.node_rank) == (3, 4, 1)
    assert (options.master_address, options.master_port) == ("h", 29500)
    assert read_options(["--standalone", "x.py"]).nodes == 1


def test_output_goes_to_files(tmp_path: Path) -> None:
    program = """
        import os, sys
        sys.stdout.write(f"out {os.environ['LOCAL_RANK']}\\n")  # whole: ranks share the launcher's output
        sys.stderr.write(f"error {os.environ['LOCAL_RANK']}\\n")
    """
    options = "--nproc-per-node=3 --tee=0:1,1:3 --redirects=2:2 --log_dir=files --rdzv-id=job --local-ranks-filter=1,2"
    done = run_launcher(tmp_path, program, *options.split(), "--adjoint")
    assert sorted(done.out.splitlines()) == ["[default1]:out 1", "out 2"]
    assert done.error == "[default1]:error 1"
    folder = tmp_path / "files/job/attempt_0"
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.log")}
    assert files == {
        "0/stdout.log": "out 0\n", "1/stdout.log": "out 1\n", "1/stderr.log": "error 1\n", "2/stderr.log": "error 2\n",
    }  # fmt: skip


@pytest.mark.parametrize("module", ["run", "launch"])
def test_pytorchs_launchers_are_this_one(module: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(TELLS))
    launcher = ["-m", "adjoint.run", "-m", f"torch.distributed.{module}"]
    done = start(tmp_path, *launcher, "--nproc_per_node=2", "program.py", "x")
    assert done.status == 0, done.error
    told = (tmp_path / "1").read_text().split()
    assert told[:3] == ["1", "1", "2"]
    assert told[7:] == [*(["--local-rank=1"] if module == "launch" else []), "x", "torch"]


def test_a_command_is_started(tmp_path: Path) -> None:
    line = 'echo $RANK "$@" > told$RANK'
    done = start(
        tmp_path, "-m", "adjoint.distributed.run", "--nproc-per-node=2", "--no-python", "sh", "-c", line, "sh", "a b"
    )
    assert done.status == 0, done.error
    assert (tmp_path / "told1").read_text() == "1 a b\n"


SAVES_FIRST = """
    import os, signal, sys, time

    def save(number, frame):
        time.sleep(4)  # longer than others get
        open("saved" + os.environ["RANK"], "w").close()
        sys.exit(3)

    signal.signal(signal.SIGTERM, save)
    open("came" + os.environ["RANK"], "w").close()
    time.sleep(60)
"""


def test_ranks_may_save_what_they_have_after_a_signal(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(SAVES_FIRST))
    launcher = _begin_launcher(tmp_path, "--nproc-per-node=2", count=2)
    launcher.terminate()
    assert launcher.wait(60) == 128 + signal.SIGTERM
    assert len(list(tmp_path.glob("saved*"))) == 2


SSH = """\
#!/bin/sh
shift 2
export ADJOINT_NODE=$1
shift
exec sh -c "$*"
"""
HOLDS_ON = """
    import os, sys, time
    sys.stdin.read()  # a launcher beside it reads none of it
    open("came" + os.environ["RANK"] + os.environ["ADJOINT_NODE"], "w").close()
    time.sleep(60)
"""


def test_hosts_are_started_by_ssh_and_end_with_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "program.py").write_text(dedent(HOLDS_ON))
    launcher = _begin_launcher(tmp_path, "--hosts=here,there", "--nproc-per-node=2", count=4)
    assert sorted(path.name for path in tmp_path.glob("came*")) == [
        "came0here", "came1here", "came2there", "came3there",
    ]  # fmt: skip
    launcher.kill()  # no signal reaches the other ends: their input ends
    launcher.wait()
    end = time.monotonic() + 30
    while _running(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert _running(tmp_path) == []


def _begin_launcher(folder: Path, *options: str, count: int) -> subprocess.Popen[bytes]:
    """Start program.py in `folder`, and wait until `count` ranks have come."""
    command = [sys.executable, "-m", "adjoint.distributed.run", *options, "--adjoint", str(folder / "program.py")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)}
    launcher = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(list(folder.glob("came*"))) < count:
        assert launcher.poll() is None
        time.sleep(0.05)
    return launcher


def _running(folder: Path) -> list[str]:
    """Return the commands that have a path in `folder`."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line and "python" in line]
