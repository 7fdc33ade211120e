"""`python -m adjoint.run`: a program sees what Python itself would show it."""

import sys
from pathlib import Path

import pytest
from tests.support.scripts import SOURCE, run, start

SHOWN = """
    import sys
    import beside
    print(__name__, __file__, __package__, sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
    print(beside.__name__, "__annotations__" in globals(), __doc__, __builtins__.__name__)
"""


def test_a_script_sees_what_python_would_show_it(tmp_path: Path) -> None:
    files = {"script": SHOWN, "beside": ""}
    ours = run(tmp_path, "script.py", "one", "--two=2", **files)
    assert ours == start(tmp_path, "script.py", "one", "--two=2")
    assert ours.status == 0
    assert str(tmp_path) in ours.out


def test_a_module_sees_what_python_would_show_it(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "beside.py").write_text("there = 1", encoding="utf-8")
    text = "import sys\nfrom .beside import there\nprint(__name__, __package__, sys.argv, sys.path[0], there)\n"
    (package / "__main__.py").write_text(text, encoding="utf-8")
    ours = run(tmp_path, "-m", "package", "one")
    assert ours == start(tmp_path, "-m", "package", "one")
    assert ours.status == 0


@pytest.mark.parametrize("ending", ["sys.exit(3)", "sys.exit()", "raise SystemExit('over')", "1 / 0", "def f(:"])
def test_a_script_ends_as_python_would_end_it(tmp_path: Path, ending: str) -> None:
    text = f"import sys\ndef last():\n    {ending}\nlast()\n"
    ours = run(tmp_path, "script.py", script=text)
    assert ours == start(tmp_path, "script.py")  # the traceback too: it begins in the script


def test_a_programs_own_excepthook_is_called(tmp_path: Path) -> None:
    text = "import sys\nsys.excepthook = lambda kind, error, trace: print(kind.__name__, trace.tb_lineno)\n1 / 0\n"
    done = run(tmp_path, "script.py", script=text)
    assert (done.status, done.out, done.error) == (1, "ZeroDivisionError 3", "")


@pytest.mark.parametrize(("arguments", "status", "told"), [
    ([], 2, "usage: python -m adjoint.run"), (["--help"], 0, "usage: python -m adjoint.run"),
    (["nowhere.py"], 2, "can't open file"), (["-m", "nowhere"], 1, "No module named nowhere"),
])  # fmt: skip
def test_what_cannot_run_is_told(tmp_path: Path, arguments: list[str], status: int, told: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.status == status
    assert told in done.out + done.error
    assert "Traceback" not in done.error


def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    assert run(tmp_path, "script.py", script="import torch, torch.nn.functional").status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


PROCESSES = """
    import multiprocessing
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return torch.tensor(index) ** 2

    if __name__ == "__main__":
        print("main")
        loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context={way!r})
        print([batch.tolist() for batch in loader])
"""


@pytest.mark.parametrize("form", ["script", "module"])
@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_worker_processes_run_on_adjoint_too(tmp_path: Path, way: str, form: str) -> None:
    if way != "spawn" and sys.platform == "win32":
        pytest.skip("Windows only spawns")
    arguments = ["script.py"] if form == "script" else ["-m", "script"]
    done = run(tmp_path, *arguments, script=PROCESSES.format(way=way))
    assert (done.status, done.error) == (0, "")
    assert done.out.splitlines() == ["main", "[[0, 1], [4, 9]]"]


def test_a_training_step_runs_and_counts_as_adjoints(tmp_path: Path) -> None:
    text = """
        import torch, sys
        from torch import nn, optim
        import torch.nn.functional as F

        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(torch.ones(2, 3)), torch.tensor([0, 1]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(losses == sorted(losses, reverse=True), torch.nn.Linear.__module__, sys.modules["torch.nn"].__name__)
    """
    done = run(tmp_path, "script.py", script=text)
    assert (done.out, done.error) == ("True adjoint.nn.layers.linear adjoint.nn", "")
    assert SOURCE.is_dir()


LISTS_FILES = """
import os
import warnings
import torch

def flipped(x, **options):
    def step(x):
        if not os.listdir(".") or x.sum() < 0:
            x = x * -1
        return x * 2
    return torch.compile(step, **options)(x)

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(flipped(torch.full((3,), -1.0)).tolist(), flipped(torch.ones(3), fullgraph=False).tolist(), len(told))
print("runs eagerly" in str(told[0].message))
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
model.compile()
print(model(torch.ones(1, 2)).shape)
try:
    flipped(torch.ones(3), fullgraph=True)
except Exception as error:
    print(type(error).__name__)
"""


def test_what_torch_compile_cannot_take_runs_eagerly_unless_the_whole_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    done = run(tmp_path, "script.py", script=LISTS_FILES)
    assert done.error == ""
    assert done.out.splitlines() == ["[2.0, 2.0, 2.0] [2.0, 2.0, 2.0] 2", "True", "torch.Size([1, 2])", "TraceError"]


FORGETFUL = """
import torch
from torch import nn
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 3)
for _ in range(4):
    model(x).square().mean().backward()
    optimizer.step()
print("done")
"""


def test_a_watched_script_is_reported_on_at_its_end(tmp_path: Path) -> None:
    ours = run(tmp_path, "--doctor", "script.py", script=FORGETFUL)
    assert (ours.status, ours.out) == (0, "done")
    assert "script.py:8: model(x).square().mean().backward()\n  optimizer made 4 steps" in ours.error
    assert run(tmp_path, "script.py", script=FORGETFUL).error == ""


def test_a_program_that_stands_in_may_ask_for_the_watch(tmp_path: Path) -> None:
    text = f"import adjoint.run\nadjoint.run.stand_in(doctor=True)\n{FORGETFUL}"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    ours = start(tmp_path, "program.py")
    assert ours.out == "done"
    assert "zero-grad-forgotten" in ours.error
