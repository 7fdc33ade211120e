"""Without llvmlite a step runs eagerly, says so once at the user's line, and explains itself."""

import copy
import pickle
import sys
from collections.abc import Iterator

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler.program import eager_step


@pytest.fixture(autouse=True)
def _without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    eager_step.has_llvmlite.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.warns(RuntimeWarning, match="llvmlite"):
        eager_step.has_llvmlite()
    yield
    eager_step.has_llvmlite.cache_clear()


def double(x: ad.Tensor) -> ad.Tensor:
    """Twice x."""
    return 2 * x


def test_it_runs_and_explains_itself() -> None:
    step = ad.compile(double)
    assert step(ad.ones(2)).tolist() == [2, 2]
    assert (step.__name__, step.__doc__, step.compilations) == ("double", "Twice x.", 0)
    assert list(step.kernels) == list(step.recompilations) == list(step.explain().entries) == []
    assert str(step.explain()).startswith("double: not compiled. adjoint.compile needs the package llvmlite")
    assert "llvmlite" in step._repr_html_()
    assert "llvmlite" in repr(step)
    assert str(step.advice()) == str(step.explain())


@pytest.mark.parametrize("report", ["graph", "memory", "source", "page"])
def test_reports_of_a_program_say_why_there_is_none(report: str) -> None:
    step = ad.compile(double)
    with pytest.raises(RuntimeError, match=f"'double' has no program whose {report}.*needs the package llvmlite"):
        getattr(step, report)()


def test_it_warns_once_at_the_users_line() -> None:
    eager_step.has_llvmlite.cache_clear()
    with pytest.warns(RuntimeWarning, match="llvmlite, which is not installed") as caught:
        ad.compile(verbose=True)(double)
    assert caught[0].filename == __file__
    assert ad.compile(double)(ad.zeros(1)).item() == 0  # a second warning would be an error


def test_a_method_and_a_module_are_wrapped_as_compiled_ones() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(ad.tensor(3.0))

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return self.scale * x

    class Holder:
        factor = 4

        @ad.compile
        def times(self, x: ad.Tensor) -> ad.Tensor:
            return self.factor * x

    assert Holder().times(ad.ones(1)).item() == 4
    model = ad.compile(Scaled())
    assert isinstance(model, nn.Module)
    assert model(ad.ones(1)).item() == 3
    model.extra = 7
    assert model.function.extra == 7
    assert [name for name, _ in model.named_parameters()] == ["scale"]
    assert model.compilations == 0


def test_it_is_copied_and_pickled_as_a_step_to_compile() -> None:
    step = ad.compile(double)
    for other in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
        assert type(other) is type(step)
        assert other(ad.ones(1)).item() == 2
