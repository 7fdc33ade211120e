"""The user's line: of a file by its path, of a notebook as IPython names it."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.graph.source_location import Site

CELLS = {"/tmp/ipykernel_7/26.py": ("Cell", "In[26]")}
STEP = """
def step(x):
    y = ad.sqrt(x)
    y.add_(1.0)
    return y.sum()
"""


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a cell of a notebook defined, as IPython runs it."""
    ipython = ModuleType("IPython")
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=CELLS.get))
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    names: dict[str, Any] = {"ad": ad}
    exec(compile(STEP, next(iter(CELLS)), "exec"), names)
    return names


@pytest.mark.usefixtures("notebook")
def test_lines_of_a_notebook_are_named_as_ipython_names_them() -> None:
    site = Site(next(iter(CELLS)), 3, "step")
    assert str(site) == site.describe_briefly() == "Cell In[26], line 3"
    assert str(Site("/home/me/train.py", 3, "step")) == "/home/me/train.py:3"
    assert Site("/home/me/train.py", 3, "step").describe_briefly() == "train.py:3"


def test_errors_of_backward_name_the_cell(notebook: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"Cell In\[26\], line 4"):
        notebook["step"](ad.ones(3, requires_grad=True)).backward()


def test_explain_names_the_cell(notebook: dict[str, Any]) -> None:
    pytest.importorskip("llvmlite")
    step = ad.compile(notebook["step"])
    step(ad.ones(3))
    assert "Cell In[26], line 3 in step" in str(step.explain())
