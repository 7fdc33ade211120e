"""`python -m adjoint`: its commands, what they print, and how they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint

SCRIPT = """
import sys
import adjoint as ad
from adjoint import nn, optim

model = nn.Linear(4, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1)

def plain(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

class Scale:
    def times(self, x):
        return x * 2.0

def uncalled(x):
    return x

step = ad.compile(plain)
number = 1
if sys.argv[1:] == ["fail"]:
    raise LookupError("the script's own")
for i in range(4):
    print("call", i, sys.argv[1:])
    step(ad.ones(3, 4))
    plain(ad.ones(3, 4))
    Scale().times(ad.ones(3))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("main") / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "adjoint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "ADJOINT_X": "y"})


class TestExplain:
    """Of functions that the script compiles, and of others."""

    @pytest.fixture(autouse=True)
    def needs_llvmlite(self) -> None:
        pytest.importorskip("llvmlite")

    @pytest.mark.parametrize("name", ["step", "plain"])
    def test_a_training_step(self, name: str, script: str) -> None:
        done = run("explain", f"{script}:{name}", "--epochs", "3")
        assert (done.returncode, done.stderr) == (0, "call 0 ['--epochs', '3']\ncall 1 ['--epochs', '3']\n")
        assert done.stdout.startswith("plain: ")
        assert "train.py:11 in plain · Linear · backward" in done.stdout

    def test_a_method(self, script: str) -> None:
        assert "train.py:18 in times" in run("explain", f"{script}:Scale.times").stdout

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("{}:uncalled", "train.py does not call 'uncalled' with these arguments"),
            ("{}:number", "train.py does not call 'number' with these arguments"),
            ("{}:nothing", "train.py has no function 'nothing'"),
            ("{}", "expected script.py:function, not "),
            ("{}.txt:step", "train.py.txt': No such file or directory"),
        ],
    )
    def test_what_cannot_be_explained(self, target: str, message: str, script: str) -> None:
        done = run("explain", target.format(script))
        assert (done.returncode, done.stdout) == (2, "")
        last = done.stderr.splitlines()[-1]
        assert last.startswith("adjoint explain: ")
        assert message in last

    def test_an_error_of_the_script(self, script: str) -> None:
        done = run("explain", f"{script}:step", "fail")
        assert done.returncode == 1
        assert done.stderr.endswith("LookupError: the script's own\n")


def test_info_names_versions_threads_and_settings() -> None:
    done = run("info")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()][:3] == ["adjoint", "Python", "NumPy"]
    assert "threads     " in done.stdout
    assert "ADJOINT_X   y" in done.stdout


def test_run_is_adjoint_run(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import sys, torch\nprint(torch.__name__, sys.argv[1:])\n")
    assert run("run", str(path), "-x").stdout == "torch ['-x']\n"
    assert run("run").stderr.startswith("usage: python -m adjoint.run")


def test_a_script_alone_is_run(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import sys, torch\nprint(torch.__name__, sys.argv[1:])\n")
    assert run(str(path), "run", "-x").stdout == "torch ['run', '-x']\n"


def test_launch_is_adjoint_distributed_run() -> None:
    done = run("launch", "--help")
    assert done.returncode == 0
    assert "--nproc" in done.stdout


def test_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"adjoint {adjoint.__version__}\n"


def test_an_installed_command_finds_modules_where_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("print('found', __name__)")
    installed = tmp_path / "bin" / "adjoint"  # as pip writes it
    installed.parent.mkdir()
    installed.write_text("import sys\nfrom adjoint.__main__ import main\nsys.exit(main())\n")
    command = [sys.executable, str(installed), "run", "-m", "beside"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "found __main__\n"), done.stderr
    done = subprocess.run([sys.executable, str(installed), "--help"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("usage: adjoint ")


@pytest.mark.parametrize(("arguments", "status"), [((), 2), (("sing",), 2), (("--help",), 0)])
def test_usage(arguments: tuple[str, ...], status: int) -> None:
    done = run(*arguments)
    assert done.returncode == status
    assert "usage: python -m adjoint [-h] [--version] command" in done.stdout + done.stderr
