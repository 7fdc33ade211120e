"""The API reference's examples print the same with PyTorch, except where the entry says what differs."""

import doctest
import inspect
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import api_reference  # noqa: E402 - tools/ is no package
from reference_examples import read_companion  # noqa: E402


class Torch(ModuleType):
    """PyTorch with the names that stand at another place there."""

    data = torch.utils.data

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@pytest.fixture(scope="module")
def reports() -> dict[str, list[str]]:
    """What the examples of each page say. They run in a process of their own, since they set much of PyTorch."""
    command = [sys.executable, __file__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return cast(dict[str, list[str]], json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_examples_print_the_same_with_pytorch(module: str, reports: dict[str, list[str]]) -> None:
    assert not reports[module], "".join(reports[module])


def compare_page(module: str) -> list[str]:
    """Run the examples of a page with PyTorch; return what they print that the page does not say."""
    head = scope_of(module)
    entries = api_reference.collect_entries()[module]
    alike = {name: entry for name, entry in entries.items() if not entry.section.difference}
    texts = {entry.section.example or inspect.getdoc(entry.value) or "": name for name, entry in alike.items()}
    try:
        return [line for text, name in texts.items() for line in run(f"{module}.{name}", text, head.copy())]
    finally:
        torch.set_default_device(None)  # "cpu", as an example sets it, is a mode of all functions from then on
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def scope_of(module: str) -> dict[str, Any]:
    """The names that the examples of a page begin with, of PyTorch."""
    scope = {"ad": Torch("torch"), "nn": torch.nn, "F": torch.nn.functional, "optim": torch.optim, "np": np}
    setup = read_companion(module).setup.replace("from adjoint import data", "from torch.utils import data")
    setup = setup.replace("world_size=1)", "world_size=1, store=dist.HashStore())")  # needs no network
    for statement in doctest.DocTestParser().get_examples(setup.replace("adjoint", "torch")):
        exec(compile(statement.source, module, "exec"), scope)
    return scope


def run(name: str, text: str, scope: dict[str, Any]) -> list[str]:
    """Run an example, in which the library is PyTorch; return what it says of other outputs."""
    test = doctest.DocTestParser().get_doctest(text.replace("from adjoint", "from torch"), scope, name, None, None)
    report: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(SameOutput(), verbose=False).run(test, out=report.append)
    return report


class SameOutput(doctest.OutputChecker):
    """Takes outputs for equal that differ in the library's name, in white space and in the count of final zeros."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return normalize(want) == normalize(got)


def normalize(output: str) -> str:
    """What an output says in both libraries: of an error only its class."""
    output = re.sub(r"<BLANKLINE>|\b(torch|adjoint)\.", "", output)
    if error := re.fullmatch(r"(\w+Error): .*", output.strip(), re.DOTALL):
        return error[1]
    output = re.sub(r"(return_types\.\w+|\w+Result)\(", "(", output)
    output = re.sub(r"-(0\.0*)(?=[],j)])", r"\1", output)
    output = re.sub(r"(\.\d*?)0+(?=[],+j)-])", r"\1", output)
    return re.sub(r"\s+", "", output)


def test_other_outputs_are_reported() -> None:
    assert not run("one", ">>> ad.ones(2, dtype=ad.float64)\ntensor([1., 1.], dtype=adjoint.float64)\n", {"ad": torch})
    assert "Got:" in "".join(run("one", ">>> ad.ones(2)\ntensor([1., 2.])\n", {"ad": torch}))
    error = ">>> ad.ones(2) @ ad.ones(3)\nTraceback (most recent call last):\n    ...\n{}: in other words\n"
    assert not run("one", error.format("RuntimeError"), {"ad": torch})
    assert "Got:" in "".join(run("one", error.format("ValueError"), {"ad": torch}))


if __name__ == "__main__":
    sys.stdout.write(json.dumps({module: compare_page(module) for module in api_reference.MODULES}))
