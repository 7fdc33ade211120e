"""Mistaken programs: the error names the line to blame, and says what to write instead.

A file of `mistakes` holds programs, each under its name: the line to blame ends in `# <--`, the remedy follows after
`try:`. `--update-golden` writes the remedies anew.
"""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.explained_programs import find_marked_line, find_told, read_programs, run_program, write_told

import adjoint as ad
from adjoint import nn
from adjoint.core.runtime.package_name import display_name
from adjoint.diagnosis import error_explanation
from adjoint.diagnosis.error_explanation import EXPLANATION, add_explanation, add_uncaught_explanation
from adjoint.diagnosis.remedies import remedy_order

FOLDER = Path(__file__).with_name("mistakes")
HEAD = "import numpy as np\nimport adjoint as torch\nfrom adjoint import nn\nimport adjoint.nn.functional as F\n"


class Mistake(NamedTuple):
    """A program, and what its error is to say."""

    name: str
    program: str
    remedy: str


MISTAKES = {path: [Mistake(*each) for each in read_programs(path, "try")] for path in sorted(FOLDER.glob("*.txt"))}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("path", "mistake"),
    [pytest.param(path, each, id=each.name) for path, mistakes in MISTAKES.items() for each in mistakes],
)
def test_a_mistake_is_named(path: Path, mistake: Mistake, tmp_path: Path, request: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    if "sparse" in mistake.program:
        request.getfixturevalue("asking")
    failed: list[Exception] = []
    monkeypatch.setattr(remedy_order, "report_failed_remedy", failed.append)
    monkeypatch.setattr(error_explanation, "report_failed_search", failed.append)
    error = run_program(HEAD + mistake.program, tmp_path / f"{mistake.name}.py")
    assert error is not None, "nothing was raised"
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    line = find_marked_line(HEAD + mistake.program)
    assert f"{mistake.name}.py:{line}" in text or last_line(error, f"{mistake.name}.py") == line, text
    remedy = find_told(text, "try")
    if request.config.getoption("--update-golden"):
        write_told(path, mistake.name, "try", remedy)
    assert remedy == mistake.remedy
    assert not failed, f"a remedy, or the search for the cause, raises an error of its own: {failed}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("F.hardsigmoid(values)", "hardsigmoid(): argument 'input' (position 1) must be Tensor, not list"),
        ("torch.roll(values, 1)", "roll(): argument 'input' (position 1) must be Tensor, not list"),
        ("torch.relu(values)", "relu(): argument 'input' (position 1) must be Tensor, not list"),
        ("torch.sigmoid(values)", "sigmoid(): argument 'input' (position 1) must be Tensor, not list"),
        ("nn.LSTM(2, 2)(values)", "LSTM(): argument 'input' (position 1) must be Tensor, not list"),
        ("values.cumsum(0)", "'list' object has no attribute 'cumsum'"),
    ],
)
def test_an_uncaught_error_names_the_argument_that_is_no_tensor(line: str, message: str, tmp_path: Path) -> None:
    error = run_program(f"{HEAD}values = [1.0, -2.0]\n{line}\n", tmp_path / "misplaced.py")
    assert error is not None
    assert str(error) == message
    assert "values: [1.0, -2.0], from misplaced.py:5: values = [1.0, -2.0]" in error.__notes__[-1]


def test_an_uncaught_error_tells_where_its_values_come_from_without_a_remedy(tmp_path: Path) -> None:
    error = run_program(HEAD + "total, count = 3, 0\ntotal / count\n", tmp_path / "plain.py")
    assert error is not None
    assert "from plain.py:5: total, count = 3, 0" in error.__notes__[-1]


def test_a_name_without_an_import_is_imported_as_in_another_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    program = (
        "import adjoint as torch\nfrom file_without_import import mean\nmean(torch.ones(2))\n"
        "--- file_without_import.py\ndef mean(x):\n    return torch.mean(x)\n"
    )
    error = run_program(program, tmp_path / "importing.py")
    assert isinstance(error, NameError)
    assert "import adjoint as torch at the top of file_without_import.py" in error.__notes__[-1]


def last_line(error: BaseException, file: str) -> int:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename.endswith(file) else line
        trace = trace.tb_next
    return line


def test_an_error_that_is_caught_is_explained_too(tmp_path: Path) -> None:
    x, w = ad.ones(3, 4), ad.ones(5, 2)
    with pytest.raises(RuntimeError) as caught:
        x @ w
    assert "x: f32[3,4], from test_error_explanation.py:" in "\n".join(caught.value.__notes__)


def test_errors_that_a_line_raises_again_and_again_are_explained_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(error_explanation, "monotonic", lambda: now)

    def fail() -> RuntimeError:
        with pytest.raises(RuntimeError) as caught:
            ad.ones(2) @ ad.ones(3)
        return caught.value

    assert all(hasattr(fail(), EXPLANATION) for _ in range(error_explanation.MAX_EXPLAINED_ERRORS_OF_LINE))
    error = fail()
    assert not hasattr(error, EXPLANATION)
    add_uncaught_explanation(error, error.__traceback__)
    assert "at test_error_explanation.py:" in getattr(error, EXPLANATION)
    now += error_explanation.SECONDS_BETWEEN_FURTHER_ONES
    assert hasattr(fail(), EXPLANATION)
    assert not hasattr(fail(), EXPLANATION)


def test_errors_of_other_libraries_and_of_the_program_stay_as_they_are() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, inputs, output: {}["missing"])
    with pytest.raises(KeyError) as caught:
        model(ad.ones(1, 2))
    assert not any("try:" in note for note in caught.value.__notes__)
    error = ZeroDivisionError("division by zero")
    add_explanation(error)
    add_uncaught_explanation(error, None)
    assert not hasattr(error, "__notes__") or EXPLANATION in vars(error)


def test_an_error_is_explained_once_however_many_calls_it_leaves() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3)), nn.Linear(4, 2))
    with pytest.raises(RuntimeError) as caught:
        model(ad.ones(1, 2))
    notes = [note for note in caught.value.__notes__ if "try:" in note]
    assert len(notes) == 1
    assert "model[1]: Linear(in_features=4" in notes[0]


def test_what_is_explained_runs_none_of_the_users_code() -> None:
    class Holder:
        @property
        def weight(self) -> Any:
            raise AssertionError("the property is the user's code")

        def __repr__(self) -> str:
            raise AssertionError("so is the repr")

    holder, x = Holder(), ad.ones(3)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        _ = (x + ad.ones(4), holder)


def test_an_explained_error_keeps_no_local_variable_alive() -> None:
    def fail(x: ad.Tensor, model: nn.Module) -> None:
        model(x)

    x, model = ad.ones(2, 3), nn.Linear(4, 2)
    reference = weakref.ref(x)
    with pytest.raises(RuntimeError, match="Linear"):
        fail(x, model)
    del x
    assert reference() is None


def test_what_locals_gave_before_an_error_stays() -> None:
    x, model = ad.ones(2, 3), nn.Linear(4, 2)
    held = locals()
    with pytest.raises(RuntimeError, match="Linear"):
        model(x)
    assert held["x"] is x


def test_the_hook_of_uncaught_errors_calls_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.core.runtime.explanation_slot import explain_uncaught_errors

    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: shown.append(error))
    explain_uncaught_errors()
    x = ad.ones(2)
    try:
        x.meen()
    except AttributeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert shown[0].__notes__[-1].endswith("is meant, perhaps") or "try:" in shown[0].__notes__[-1]


def test_remedies_are_tried_too_where_the_library_stands_in_for_torch(tmp_path: Path) -> None:
    program = HEAD + "mask, x = torch.ones(3, 5).bool(), torch.ones(3, 6, 5)\nx.masked_fill(mask, 0.0)\n"
    display_name.rename("torch")
    try:
        error = run_program(program, tmp_path / "program.py")
    finally:
        display_name.rename("adjoint")
    assert error is not None
    assert "x.masked_fill(mask.unsqueeze(1), 0.0), where mask.unsqueeze(1) is (3, 1, 5)" in error.__notes__[-1]


def test_arguments_are_followed_through_the_calls_that_the_doctor_watches(tmp_path: Path) -> None:
    program = (
        HEAD + "import io\nclass Net(nn.Module):\n    def forward(self, x, rows):\n        return x[rows]\n"
        "far = torch.tensor([7])\nwith torch.doctor(file=io.StringIO()):\n    Net()(torch.ones(3), far)\n"
    )
    error = run_program(program, tmp_path / "watched.py")
    assert error is not None
    assert "from watched.py:9: far = torch.tensor([7])" in error.__notes__[-1]
