"""Functions of lists of tensors give what PyTorch's give, write where they write, and refuse what they refuse."""

from typing import Any

import pytest

import adjoint as ad
from adjoint.compat.functions import foreach

torch = pytest.importorskip("torch")
WITH = {
    "add": ["2.0", "[2.0, 3.0]", "t()", "t(), alpha=-0.5", "lib.tensor(2.0), alpha=3"],
    "sub": ["2.0", "t(), alpha=2"], "mul": ["scalars=[2.0, 3.0]", "lib.tensor(2.0)"], "div": ["other=t()", "3"],
    "pow": ["2.0", "t()", "exponent=[2.0, 0.5]"], "lerp": ["t(), 0.3", "t(), weights=t()", "t(), [0.1, 0.2]"],
    "addcmul": ["t(), t()", "t(), t(), 2.0", "t(), t(), scalars=[2.0, 3.0]", "t(), t(), lib.tensor([2.0, 3.0])"],
    "addcdiv": ["t(), t(), value=2.0", "t(), t(), [2.0, 3.0]"], "copy": ["t()"], "mm": ["s()"],
    "norm": ["", "1", "float('inf')", "2, lib.float64"], "powsum": ["3"],
}  # fmt: skip
WITH |= {name: ["0.6", "[0.6, 1.5]", "t()"] for name in ("clamp_max", "clamp_min", "maximum", "minimum")}
BAD = [
    "lib._foreach_add(t(), [1, 2, 3])", "lib._foreach_add(t(), t()[:1])", "lib._foreach_add([], 1)",
    "lib._foreach_abs(t()[0])", "lib._foreach_abs((t()[0], 3))",
    "lib._foreach_addcmul(t(), t(), t(), lib.tensor([1.0]))", "lib._foreach_add_([lib.ones(2, dtype=lib.int64)], 0.5)",
]  # fmt: skip


def result(library: Any, text: str) -> Any:
    def tensors() -> Any:
        return [library.tensor([0.5, 0.25]), library.tensor([[0.75], [1.0], [1.5]])]

    def squares() -> Any:
        return [library.ones(2, 2), library.ones(1, 3)]

    return eval(text, {"lib": library, "t": tensors, "s": squares})


def numbers(results: Any) -> list[Any]:
    return [(str(x.dtype).rpartition(".")[2], x.tolist()) for x in results]


def test_the_names_are_pytorchs() -> None:
    assert {name for name in dir(torch) if name.startswith("_foreach")} == set(foreach.__all__)
    assert all(callable(getattr(ad, name)) for name in foreach.__all__)


@pytest.mark.parametrize("name", foreach.__all__)
def test_each_function_is_pytorchs(name: str) -> None:
    short = name.removeprefix("_foreach_")
    for given in WITH.get(short.removesuffix("_"), [""]):
        first = "[lib.ones(2, 2), lib.ones(3, 1)]" if short == "mm" else "t()"
        text = f"lib.{name}({first}, {given})"
        ours, theirs = result(ad, text), result(torch, text)
        assert type(ours) is type(theirs), text
        for (kind, values), (wanted_kind, wanted) in zip(numbers(ours), numbers(theirs), strict=True):
            assert kind == wanted_kind
            assert ad.allclose(ad.tensor(values), ad.tensor(wanted), rtol=1e-6, atol=1e-7, equal_nan=True), text


def test_a_number_may_have_tensors_for_exponents() -> None:
    assert numbers(result(ad, "lib._foreach_pow(2, t())")) == numbers(result(torch, "lib._foreach_pow(2, t())"))


def test_what_writes_returns_its_list_and_shares_memory() -> None:
    tensors = [ad.ones(2), ad.ones(3)]
    kept = tensors[0]
    assert ad._foreach_mul_(tensors, [2.0, 3.0]) is tensors
    assert kept.tolist() == [2, 2]
    assert tensors[1].tolist() == [3, 3, 3]


def test_results_are_differentiable() -> None:
    x = ad.ones(2, requires_grad=True)
    ad._foreach_mul([x, x], [2.0, 3.0])[1].sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("text", BAD)
def test_what_pytorch_refuses_is_refused(text: str) -> None:
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        result(torch, text)
    with pytest.raises(theirs.type):
        result(ad, text)


def test_another_name_is_none_of_them() -> None:
    with pytest.raises(AttributeError, match="_foreach_fold"):
        foreach._foreach_fold
