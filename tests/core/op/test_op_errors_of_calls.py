"""An error names the function that was called, and what it was given, eagerly and compiled."""

from __future__ import annotations

import re
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of losses, that shapes differ


def numbers(*shape: int) -> ad.Tensor:
    return ad.arange(float(ad.zeros(shape).numel())).reshape(shape) / 10 + 0.1


GIVEN: dict[str, Any] = {
    "ad": ad, "F": F, "a": numbers(2, 3), "b": numbers(4, 5), "c": numbers(2, 3, 4), "v": numbers(3), "w": numbers(4),
    "i": ad.ones(2, 3).long(), "far": ad.full((2, 3), 9), "few": ad.tensor([0, 1]), "q": ad.eye(3).long(),
}  # fmt: skip
NAMES = {  # of functions, by the faulty call
    "ad.{}(a, dim=5)": """
        all amax amin any argmax argmin argsort count_nonzero cummax cummin cumprod cumsum diff flip logcumsumexp
        logsumexp max mean median min mode nanmean nanmedian nansum prod softmax log_softmax sort std sum unbind
        unsqueeze squeeze var var_mean std_mean norm
    """,
    "ad.{}(a, (0, 0))": "sum mean std amax flip",
    "ad.{}(a, b)": """
        add sub mul div pow atan2 maximum minimum fmod remainder lt eq hypot logaddexp copysign nextafter ldexp
        float_power xlogy
    """,
    "F.{}(a, c)": """
        mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss soft_margin_loss hinge_embedding_loss
        pairwise_distance cosine_similarity
    """,
    "ad.linalg.{}(a)": "inv det slogdet cholesky eig eigh matrix_exp",
    "ad.linalg.{}(q)": "inv det svd qr matrix_norm vector_norm",
}
# the function, and a call with shapes, dimensions, positions or types that do not fit
FAULTS: list[tuple[str, str]] = [
    *[(name, call.format(name)) for call, names in NAMES.items() for name in names.split()],
    ("lerp", "ad.lerp(a, b, 0.5)"), ("addcmul", "ad.addcmul(a, a, b)"), ("addcdiv", "ad.addcdiv(a, a, b)"),
    ("clamp", "ad.clamp(a, min=b)"), ("mm", "ad.mm(a, a)"), ("bmm", "ad.bmm(c, c)"), ("matmul", "a @ a"),
    ("mv", "ad.mv(a, w)"), ("dot", "ad.dot(v, w)"), ("vdot", "ad.vdot(v, w)"), ("addmm", "ad.addmm(a, a, a)"),
    ("addmv", "ad.addmv(v, a, w)"), ("addbmm", "ad.addbmm(a, c, c)"), ("baddbmm", "ad.baddbmm(c, c, c)"),
    ("vecdot", "ad.linalg.vecdot(a, b)"), ("dist", "ad.dist(a, b)"), ("cdist", "ad.cdist(a, b)"),
    ("linear", "F.linear(a, b)"), ("bilinear", "F.bilinear(a, b, c)"), ("view", "a.view(7)"),
    ("reshape", "a.reshape(7)"), ("expand", "a.expand(5, 3)"), ("permute", "a.permute(0, 0)"),
    ("gather", "ad.gather(a, 5, i)"), ("scatter_add", "ad.scatter_add(a, 5, i, a)"),
    ("index_select", "ad.index_select(a, 5, few)"), ("index_add", "ad.index_add(a, 0, few, b)"),
    ("layer_norm", "F.layer_norm(a, (4,))"), ("group_norm", "F.group_norm(a, 2)"), ("rms_norm", "F.rms_norm(a, (4,))"),
    ("topk", "ad.topk(a, 9)"), ("kthvalue", "ad.kthvalue(a, 9)"), ("quantile", "ad.quantile(a, 0.5, 5)"),
    ("narrow", "ad.narrow(a, 0, 1, 4)"), ("split", "ad.split(a, [1, 4])"), ("renorm", "ad.renorm(a, 2, 5, 1.0)"),
    ("outer", "ad.outer(a, v)"), ("cross", "ad.cross(a, b)"), ("solve", "ad.linalg.solve(a, a)"),
    ("matrix_power", "ad.matrix_power(a, 2)"), ("logsumexp", "ad.logsumexp('x', 0)"), ("mm", "ad.mm(a, 1)"),
    ("cumsum", "ad.cumsum('x', 0)"), ("index_select", "ad.index_select(a, 0, 0)"), ("fft", "ad.fft.fft(a, dim=5)"),
    ("equal", "ad.equal(a, 1)"), ("narrow", "ad.narrow(a, 0, 1.5, 1)"), ("tril", "ad.tril(a, 1.5)"),
    ("topk", "ad.topk(a, 1.5)"), ("diag", "ad.diag(a, 'x')"), ("complex", "ad.complex(a, b)"),
]  # fmt: skip
OF_VALUES = ["ad.gather(a, 0, far)", "ad.scatter_add(a, 0, far, a)", "ad.index_select(a, 0, far[0])", "ad.take(a, far)"]


def error_of(call: Any, *given: Any) -> Exception:
    with pytest.raises((RuntimeError, LookupError, TypeError, ValueError)) as caught:
        call(*given)
    return caught.value


def read_call(expression: str) -> tuple[Any, list[Any]]:
    """A function of what the expression names, and what that is."""
    labels = [label for label in GIVEN if re.search(rf"\b{label}\b", expression) and label not in ("ad", "F")]
    return eval(f"lambda {', '.join(labels)}: {expression}", GIVEN), [GIVEN[label] for label in labels]


@pytest.mark.parametrize(("name", "expression"), FAULTS, ids=[expression for _, expression in FAULTS])
def test_function_and_operands(name: str, expression: str) -> None:
    call, given = read_call(expression)
    error = error_of(call, *given)
    assert re.search(rf"\b{name}_?\b", str(error)), error
    if not isinstance(error, TypeError):
        text = str(error).replace(" ", "")
        shapes = [",".join(map(str, x.shape)) for x in given]
        assert any(f"[{s}]" in text or f"({s})" in text or f"({s},)" in text for s in shapes), error


@pytest.mark.parametrize("expression", [expression for _, expression in FAULTS])
def test_a_compiled_step_says_the_same(expression: str) -> None:
    pytest.importorskip("llvmlite")
    call, given = read_call(expression)
    if given:
        error, compiled = error_of(call, *given), error_of(ad.compile(call), *given)
        assert (type(compiled), str(compiled)) == (type(error), str(error))


@pytest.mark.parametrize("expression", OF_VALUES)
def test_positions_that_a_compiled_step_meets(expression: str) -> None:
    pytest.importorskip("llvmlite")
    call = eval(f"lambda a, far: {expression}", GIVEN)
    given = GIVEN["a"], GIVEN["far"]
    name = expression.split("(", maxsplit=1)[0].removeprefix("ad.")
    for error in (error_of(call, *given), error_of(ad.compile(call), *given)):
        assert name in str(error)
        assert "9" in str(error)


@pytest.mark.parametrize("expression", [
    "ad.equal(a, 1)", "ad.narrow(a, 0, 1.5, 1)", "ad.tril(a, 1.5)", "ad.topk(a, 1.5)", "ad.diag(a, 'x')",
    "ad.repeat_interleave(a, 1.5)", "ad.mm(a, 1)", "ad.gather(a, 0, 0)", "ad.cumsum('x', 0)", "ad.kron(a, 1)",
])  # fmt: skip
def test_other_kinds_of_arguments_are_type_errors(expression: str) -> None:
    assert isinstance(error_of(lambda: eval(expression, GIVEN)), TypeError)


def test_shapes_that_do_not_fit_are_runtime_errors() -> None:
    for call in (lambda: ad.complex(GIVEN["a"], GIVEN["b"]), lambda: F.cosine_similarity(GIVEN["a"], GIVEN["c"])):
        assert type(error_of(call)) is RuntimeError


def test_errors_of_the_users_own_code_are_left_alone() -> None:
    class Own(ad.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise RuntimeError("mine")

    assert str(error_of(ad.sum, ad.ones(2).as_subclass(Own))) == "mine"


def test_the_outermost_function_is_named_once() -> None:
    error = error_of(lambda: ad.nanmean(numbers(2, 3), dim=5))
    assert str(error).startswith("nanmean(f32[2,3]): Dimension out of range (expected to be in range of [-2, 1]")
