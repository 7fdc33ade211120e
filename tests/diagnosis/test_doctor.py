"""`ad.doctor`: mistakes that raise no error are found by line and name; corrected programs give no finding."""

from __future__ import annotations

import contextlib
import io
import linecache
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.workloads import TINY
from benchmarks.workloads.workload import Workload
from tests.support.mistaken_programs import PRELUDE, Mistake, read_blocks, read_mistakes
from tests.support.mistaken_programs.by_field import FIELD_MISTAKES
from tests.support.mistaken_programs.histories import HISTORY_MISTAKES
from tests.support.mistaken_programs.layers import LAYER_MISTAKES
from tests.support.mistaken_programs.loops import LOOP_MISTAKES
from tests.support.mistaken_programs.loss_terms import TERM_MISTAKES
from tests.support.mistaken_programs.losses import LOSS_MISTAKES
from tests.support.mistaken_programs.options import OPTION_MISTAKES
from tests.support.mistaken_programs.other_kinds import OTHER_MISTAKES
from tests.support.mistaken_programs.parameters import PARAMETER_MISTAKES
from tests.support.mistaken_programs.sequences import SEQUENCE_MISTAKES
from tests.support.mistaken_programs.sound import SOUND_PROGRAMS
from tests.support.mistaken_programs.sound_models import SOUND_MODELS
from tests.support.mistaken_programs.sound_options import SOUND_OPTIONS
from tests.support.mistaken_programs.states import STATE_MISTAKES
from tests.support.mistaken_programs.targets import TARGET_MISTAKES

import adjoint as ad
from adjoint import Tensor, nn, optim
from adjoint.autograd.backward import pass_watchers
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.data import DataLoader
from adjoint.diagnosis.findings import Report
from adjoint.nn.module.hooks import global_hooks
from adjoint.optim.step.hooks import GLOBAL_STEP_POST_HOOKS, GLOBAL_STEP_PRE_HOOKS

MISTAKES = [
    *LOSS_MISTAKES,
    *PARAMETER_MISTAKES,
    *LOOP_MISTAKES,
    *HISTORY_MISTAKES,
    *OPTION_MISTAKES,
    *TARGET_MISTAKES,
    *SEQUENCE_MISTAKES,
    *LAYER_MISTAKES,
    *TERM_MISTAKES,
    *STATE_MISTAKES,
    *OTHER_MISTAKES,
    *FIELD_MISTAKES,
    *read_mistakes("spellings.txt"),
    *read_mistakes("causes.txt"),
    *read_mistakes("public_threads.txt"),
    *read_mistakes("program_texts.txt"),
    *read_mistakes("value_flows.txt"),
    *read_mistakes("later_kinds.txt"),
    *read_mistakes("blamed_lines.txt"),
]
EACH = pytest.mark.parametrize("mistake", [pytest.param(mistake, id=mistake.title) for mistake in MISTAKES])


def examine(text: str, folder: Path) -> Report:
    """Run a program under watch and return the report."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    with warnings.catch_warnings(), ad.doctor(file=io.StringIO()) as report:
        warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec"), {"__name__": "program"})
    assert report.failures == []
    return report


@pytest.mark.sweep(3)
@EACH
def test_mistake_is_found_with_its_line_and_name(mistake: Mistake, tmp_path: Path) -> None:
    report = examine(mistake.mistaken, tmp_path)
    found = [finding for finding in report if finding.kind == mistake.kind]
    assert found, report
    assert f"program.py:{mistake.blamed_line}" in found[0].line, report
    assert mistake.name in found[0].name, report
    assert found[0].advice
    assert found[0].problem in str(report)


@pytest.mark.sweep(6)
@EACH
def test_corrected_program_has_no_finding(mistake: Mistake, tmp_path: Path) -> None:
    assert str(examine(mistake.corrected, tmp_path)).startswith("doctor: nothing found")


SOUND_TEXTS = read_blocks("sound_values.txt") | read_blocks("sound_threads.txt") | read_blocks("sound_styles.txt")
SOUND = SOUND_PROGRAMS | SOUND_OPTIONS | SOUND_MODELS | SOUND_TEXTS


@pytest.mark.sweep(3)
@pytest.mark.parametrize("source", [pytest.param(source, id=title) for title, source in SOUND.items()])
def test_sound_program_has_no_finding(source: str, tmp_path: Path) -> None:
    assert str(examine(PRELUDE + source, tmp_path)).startswith("doctor: nothing found")


def hooks_in_place() -> tuple[object, ...]:
    """What a watch changes while it lasts."""
    return (
        [getattr(Tensor, name) for name in ("detach", "item", "numpy", "tolist")],
        vars(nn.Module)["train"], vars(nn.Module)["zero_grad"], vars(optim.Optimizer)["zero_grad"],
        vars(DataLoader)["__iter__"], vars(optim.lr_scheduler.LRScheduler)["step"], list(pass_watchers),
        nn.Module.__call__, dict(global_hooks._forward_hooks), dict(GLOBAL_STEP_PRE_HOOKS),
        dict(GLOBAL_STEP_POST_HOOKS), mode.anomaly_detector, nondefault.count,
    )  # fmt: skip


def test_functions_of_a_namesake_are_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    namesake = ModuleType("torch")  # as a program has it that imports torch before the doctor begins
    namesake.__dict__["argmax"] = before = ad.argmax
    monkeypatch.setitem(sys.modules, "torch", namesake)
    with ad.doctor(file=io.StringIO()):
        assert namesake.argmax is ad.argmax is not before
    assert namesake.argmax is ad.argmax is before


def test_nothing_is_left_behind() -> None:
    before = hooks_in_place()
    model = nn.Linear(2, 1)
    opt = optim.SGD(model.parameters(), lr=0.1)
    with ad.doctor(steps=2, file=io.StringIO()):
        assert hooks_in_place() != before
        for _ in range(4):
            opt.zero_grad()
            model(ad.randn(3, 2)).square().mean().backward()
            opt.step()
    assert hooks_in_place() == before


def test_nothing_is_left_behind_after_an_error_in_the_middle_of_a_module_and_a_step() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("in forward")

    def fail() -> Tensor:
        raise KeyError("in the closure")

    before = hooks_in_place()
    opt = optim.SGD([nn.Parameter(ad.ones(1))], lr=0.1)
    for call in (lambda: nn.Sequential(Broken())(ad.ones(1)), lambda: opt.step(fail)):
        with pytest.raises(KeyError), ad.doctor(file=io.StringIO()):
            call()
        assert hooks_in_place() == before


def test_an_error_of_the_program_is_reported_after_what_was_found() -> None:
    file = io.StringIO()
    with pytest.raises(ValueError, match="stop"), ad.doctor(file=file):
        raise ValueError("stop")
    assert file.getvalue() == "doctor: nothing found in 0 steps\n"


def test_step_function_is_called_and_its_report_returned() -> None:
    model = nn.Linear(2, 1)
    opt = optim.SGD(model.parameters(), lr=0.1)
    calls = []

    def step(x: Tensor) -> None:
        calls.append(x)
        model(x).square().mean().backward()
        opt.step()

    file = io.StringIO()
    report = ad.doctor(step, ad.ones(3, 2), calls=4, file=file)
    assert len(calls) == 4
    assert report.kinds() == ["zero-grad-forgotten"]
    assert file.getvalue() == f"{report}\n"
    assert len(report) == 1
    assert list(report) == report.findings
    assert report.findings[0].name == "opt"


def test_values_are_those_of_the_program_without_it() -> None:
    def train(is_watched: bool) -> list[float]:
        ad.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
        opt = optim.Adam(model.parameters(), lr=0.01)
        x, y = ad.randn(16, 4), ad.randint(0, 2, (16,))
        losses = []
        with ad.doctor(file=io.StringIO()) if is_watched else contextlib.nullcontext():
            for _ in range(6):
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                opt.step()
                losses.append(loss.item())
        return losses

    assert train(True) == pytest.approx(train(False), rel=1e-5)


def test_ops_of_three_steps_are_watched_and_recurrent_layers_run_whole_in_them() -> None:
    model = nn.LSTM(3, 4)
    opt = optim.SGD(model.parameters(), lr=0.1)
    watched: list[int] = []
    nodes: set[str] = set()
    with ad.doctor(file=io.StringIO()):
        for i in range(20):
            opt.zero_grad()
            out, _ = model(ad.randn(5, 2, 3))
            nodes.add(type(out.node.parents[0]).__name__)
            watched += [i] if mode.anomaly_detector is not None else []
            out.square().mean().backward()
            opt.step()
    assert watched == [0, 1, 3]
    assert nodes == {"OutputSlot"}  # of one sweep


USES_LITTLE = """
import sys
import adjoint as ad
from adjoint import nn, optim
import adjoint.nn.functional as F
x, y = ad.randn(32, 4), ad.randint(0, 2, (32,))
model = nn.Linear(4, 2)
opt = optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
train(2)
with ad.doctor():
    train(20)
print(sorted({"adjoint.distributed", "adjoint.onnx", "numpy.ma"} & sys.modules.keys()))
"""


def test_a_watch_imports_nothing_that_the_program_does_not_use(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(USES_LITTLE, encoding="utf-8")
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_compiled_step_is_examined_too() -> None:
    model = nn.Linear(3, 2)
    opt = optim.SGD(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(x).softmax(1), y)
        loss.backward()
        opt.step()
        return loss

    x, y = ad.randn(8, 3), ad.randint(0, 2, (8,))
    step(x, y)
    with ad.doctor(file=io.StringIO()) as report:
        for _ in range(30):
            step(x, y)
    assert "softmax-before-cross-entropy" in report.kinds()
    count = step.compilations
    step(x, y)
    step(x, y)
    assert step.compilations <= count + 1


@pytest.mark.parametrize("workload", [pytest.param(each, id=name) for name, each in TINY.items()])
def test_workload_has_no_finding(workload: Workload) -> None:
    start = workload.start()
    step = workload.step(ad, start)
    batches = [tuple(map(ad.tensor, batch)) for batch in start.batches]
    with ad.doctor(file=io.StringIO()) as report:
        for i in range(6):
            step(*batches[i % len(batches)])
    assert (report.findings, report.failures) == ([], [])
