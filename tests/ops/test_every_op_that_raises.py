"""What values alone can make raise: every such op says so, and raises in a compiled step too, whoever reads its result.

The rule: a compiled step raises what the eager step raises, and it leaves what that leaves: what stands before the op.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op.evaluation import evaluate

BAD_VALUES: dict[str, tuple[Any, ...]] = {"f": (np.nan, -1.0, 0.0), "i": (0, -1, 100, -100)}
CHECKED_IN_GRAPH = ("index", "index_add", "put_index")  # compiler/passes/index_checks.py
CHECKED_BY_FUNCTIONS = ("gather", "scatter", "scatter_add", "scatter_reduce", "check_range")  # by check_range
BOOL = np.dtype(bool)
NEVER_TRACED = "fused"  # the family of ops of which a trace sees the composite


def _spoilt(sample: Sample) -> Iterator[tuple[Any, ...]]:
    """The sample's inputs with one element replaced, also as integers."""
    elementwise = sample.op.family in ("unary", "binary")  # what else takes integers has samples of them
    for inputs in (sample.inputs, tuple(map(_as_integers, sample.inputs))) if elementwise else (sample.inputs,):
        if _error(sample, inputs) is not None:
            continue
        for i, x in enumerate(inputs):
            for bad in BAD_VALUES.get(x.dtype.kind, ()) if isinstance(x, np.ndarray) and x.size else ():
                spoilt = x.copy()
                spoilt.flat[0] = bad
                yield (*inputs[:i], spoilt, *inputs[i + 1 :])


def _as_integers(x: Any) -> Any:
    return np.nan_to_num(x, posinf=9, neginf=-9).astype(int) if getattr(x, "dtype", BOOL).kind == "f" else x


def _error(sample: Sample, inputs: tuple[Any, ...]) -> Exception | None:
    try:
        evaluate(sample.op, inputs, sample.settings())
    except (RuntimeError, IndexError) as error:
        return error
    return None


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_an_op_that_values_make_raise_says_so(sample: Sample) -> None:
    op = sample.op
    known = op.effect or op.family == NEVER_TRACED or op.name in CHECKED_IN_GRAPH + CHECKED_BY_FUNCTIONS
    for inputs in _spoilt(sample):
        if not known and _error(sample, inputs) is not None:
            raises_by = op.raises(*inputs, **sample.params) if callable(op.raises) else op.raises
            assert raises_by, f"declare {op.name} with raises=: {_error(sample, inputs)}"


Step = Callable[..., Any]
BAD_INDEX = ad.tensor([0, 100])
SQUARE = ad.tensor([[1.0, 2.0], [2.0, 4.0]])
INTEGERS = ad.tensor([[3, -2], [0, 1]])

REFUSED: dict[str, tuple[Step, tuple[Any, ...]]] = {
    "floor_divide": (lambda x, y: x // y, (INTEGERS, INTEGERS)),
    "remainder": (lambda x, y: x % y, (INTEGERS, INTEGERS)),
    "fmod": (ad.fmod, (INTEGERS, INTEGERS)),
    "div_floor": (lambda x, y: ad.div(x, y, rounding_mode="floor"), (INTEGERS, INTEGERS)),
    "div_trunc": (lambda x, y: ad.div(x, y, rounding_mode="trunc"), (INTEGERS, INTEGERS)),
    "divided_number": (lambda x: 5 // x, (INTEGERS,)),
    "pow": (lambda x: x**-2, (INTEGERS,)),
    "index": (lambda x, i: x[i], (SQUARE, BAD_INDEX)),
    "index_column": (lambda x, i: x[:, i], (SQUARE, BAD_INDEX)),
    "index_pair": (lambda x, i: x[i, i], (SQUARE, BAD_INDEX)),
    "set_index": (lambda x, i: x.clone().__setitem__(i, 0.0), (SQUARE, BAD_INDEX)),
    "set_column": (lambda x, i: x.clone().__setitem__((slice(None), i), 0.0), (SQUARE, BAD_INDEX)),
    "index_put": (lambda x, i: x.index_put((i,), ad.tensor(1.0), accumulate=True), (SQUARE, BAD_INDEX)),
    "index_select": (lambda x, i: x.index_select(0, i), (SQUARE, BAD_INDEX)),
    "index_add": (lambda x, i: x.index_add(0, i, x), (SQUARE, BAD_INDEX)),
    "index_copy": (lambda x, i: x.index_copy(0, i, x), (SQUARE, BAD_INDEX)),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), (SQUARE, BAD_INDEX)),
    "gather": (lambda x, i: x.gather(0, i[None]), (SQUARE, BAD_INDEX)),
    "scatter": (lambda x, i: x.scatter(0, i[None], 1.0), (SQUARE, BAD_INDEX)),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[None], x), (SQUARE, BAD_INDEX)),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i[None], x, "amax"), (SQUARE, BAD_INDEX)),
    "take": (ad.take, (SQUARE, BAD_INDEX)),
    "take_along_dim": (lambda x, i: ad.take_along_dim(x, i[None], 0), (SQUARE, BAD_INDEX)),
    "embedding": (lambda x, i: F.embedding(i, x), (SQUARE, BAD_INDEX)),
    "one_hot": (lambda i: F.one_hot(i, 3), (BAD_INDEX,)),
    "cross_entropy": (F.cross_entropy, (SQUARE, BAD_INDEX)),
    "nll_loss": (F.nll_loss, (SQUARE, BAD_INDEX)),
    "inv": (ad.linalg.inv, (SQUARE,)),
    "solve": (ad.linalg.solve, (SQUARE, SQUARE)),
    "cholesky": (ad.linalg.cholesky, (-SQUARE,)),
    "eigh": (ad.linalg.eigh, (ad.ones(5, 5) * np.nan,)),
    "eigvalsh": (ad.linalg.eigvalsh, (ad.ones(5, 5) * np.nan,)),
    "eig": (ad.linalg.eig, (SQUARE * np.nan,)),
    "svd": (ad.linalg.svd, (SQUARE * np.nan,)),
    "svdvals": (ad.linalg.svdvals, (SQUARE * np.nan,)),
    "pinv": (ad.linalg.pinv, (SQUARE * np.nan,)),
    "matrix_rank": (ad.linalg.matrix_rank, (SQUARE * np.nan,)),
    "histc": (ad.histc, (SQUARE * np.nan,)),
    "bernoulli": (ad.bernoulli, (SQUARE,)),
    "poisson": (ad.poisson, (-SQUARE,)),
    "multinomial": (lambda p: ad.multinomial(p, 1), (-SQUARE,)),
    "normal": (lambda s: ad.normal(0.0, s), (-SQUARE,)),
}


@pytest.mark.sweep(3)  # each op in one of the uses
@pytest.mark.parametrize("use", ["returned", "unused", "overwritten"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_compiled_step_raises_and_leaves_what_the_eager_one_leaves(name: str, use: str) -> None:
    function, arguments = REFUSED[name]
    state, counts = ad.zeros(3), {"before": 0, "after": 0}

    def step(*arguments: Any) -> Any:
        state.add_(1.0)
        counts["before"] += 1
        out = function(*arguments)
        counts["after"] += 1
        state.mul_(2.0)
        if use == "overwritten" and isinstance(out, ad.Tensor):
            out.zero_()
        return out if use == "returned" else None

    error: Any = None
    try:
        step(*arguments)
    except (RuntimeError, IndexError) as raised:
        error = type(raised)
    assert error is not None
    state.zero_()
    compiled = ad.compile(step)
    for k in range(1, 4):
        raises(error, None, lambda: compiled(*arguments))
        assert state.tolist() == [k, k, k]
        assert counts == {"before": k + 1, "after": 0}


POWERS = [2**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
NUMBERS = [0, 1, -1, 7, 100, 200, *POWERS, *(-n for n in POWERS), *(n - 1 for n in POWERS)]
OF_NUMBER: dict[str, Callable[[Any, int], Any]] = {
    "//": lambda x, n: x // n, "%": lambda x, n: x % n, "**": lambda x, n: x**n, "n //": lambda x, n: n // x,
    "n %": lambda x, n: n % x, "n **": lambda x, n: n**x, "fmod": ad.fmod, "+": lambda x, n: x + n,
    "*": lambda x, n: x * n, "n -": lambda x, n: n - x, "<<": lambda x, n: x << n, ">>": lambda x, n: x >> n,
    "&": lambda x, n: x & n, "<": lambda x, n: x < n, "==": lambda x, n: x == n,
    "where": lambda x, n: ad.where(x > 1, x, n), "clamp": lambda x, n: x.clamp(min=n),
    "add": lambda x, n: ad.add(x, x, alpha=n), "//=": lambda x, n: x.clone().floor_divide_(n),
    "pow_": lambda x, n: x.clone().pow_(n), "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
}  # fmt: skip
INTEGER_DTYPES = [ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64]


@pytest.mark.sweep(5)  # each op in one of the types
@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("name", OF_NUMBER)
def test_numbers_wrap_in_a_compiled_step_as_in_eager_code(name: str, dtype: Any) -> None:
    x = ad.tensor([0, 1, 3, -2 if dtype.is_signed else 4]).to(dtype)
    for number in NUMBERS:

        def step(x: Any, number: int = number) -> Any:
            return OF_NUMBER[name](x, number)

        assert _outcome(step, x) == _outcome(ad.compile(step), x), number


def _outcome(step: Step, x: Any) -> object:
    try:
        out = step(x)
    except (RuntimeError, OverflowError) as error:
        return type(error)
    return out.dtype, out.tolist()
