"""Every random function against PyTorch, for sizes of 1 to 1,000: the same bits, or 2 units in the last place.

Whole numbers and uniform ones agree to the bit, and so does the place in the stream afterwards, always. Where a
logarithm, a sine or a power enters, the libraries of the two may round another way.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional

torch = pytest.importorskip("torch")

SIZES = (1, 2, 7, 15, 16, 17, 31, 40, 333, 1000)
WIDE, FLOATS = ("float32", "float64"), ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
KINDS = (*FLOATS, *WHOLE)
COMPLEX = ("complex64", "complex128")

# A call of n numbers of type d; `like` and `chances` are tensors of them. Exact ones agree to the bit.
EXACT: dict[str, tuple[str, ...]] = {
    "t.rand(n, dtype=d)": (*FLOATS, *COMPLEX), "t.rand(3, n, dtype=d)": WIDE,
    "t.rand_like(like)": (*FLOATS, *COMPLEX), "t.zeros(n, dtype=d).uniform_(-0.3, 1.7)": FLOATS,
    "t.nn.init.uniform_(like, -2.0, 0.5)": WIDE, "t.nn.init.xavier_uniform_(t.zeros(3, n, dtype=d))": WIDE,
    "t.nn.init.kaiming_uniform_(t.zeros(3, n, dtype=d), 5**0.5)": WIDE,
    "t.randint(-3, 9, (n,), dtype=d)": (*FLOATS, *WHOLE[:4]), "t.randint(2, (n,), dtype=d)": (*KINDS, "bool"),
    "t.randint(2**40, (n,), dtype=d)": ("int64", "float64"), "t.randint_like(like, 100)": KINDS,
    "t.randint_like(like, 3, 100)": KINDS, "like.random_()": (*KINDS, "bool"), "like.random_(100)": KINDS,
    "like.random_(3, 90)": KINDS, "like.random_(5, None)": KINDS,
    "like.random_(-(2**63), None)": ("int64", "float32", "float64", "bfloat16"),
    "t.randperm(n, dtype=d)": ("int64", "int32", "int16", "float32", "float64", "bfloat16"),
    "t.bernoulli(chances)": FLOATS, "chances.bernoulli(0.3)": FLOATS, "like.bernoulli_()": (*KINDS, "bool"),
    "like.bernoulli_(0.2)": (*KINDS, "bool"), "like.bernoulli_(t.linspace(0.125, 0.875, n).float())": (*KINDS, "bool"),
    "like.bernoulli_(t.full((n,), 0.4, dtype=t.float64))": (*KINDS, "bool"), "t.poisson(chances * 4)": FLOATS,
    "t.poisson(chances * 40)": FLOATS, "t.binomial(like + 9, chances)": WIDE, "t.binomial(like + 300, chances)": WIDE,
    "t.multinomial(t.arange(1, 9).to(d), n, True)": FLOATS, "t.multinomial(chances, 1)": FLOATS,
    "t.multinomial(t.arange(1, n + 1).to(d), n)": WIDE,
    "t.multinomial(t.arange(1, n + 5).to(d).expand(3, n + 4), 4)": WIDE, "like.geometric_(0.2)": KINDS,
    "t.nn.functional.dropout(t.ones(n, dtype=d), 0.3)": FLOATS,
    "t.nn.functional.dropout1d(t.ones(3, n, 2, dtype=d), 0.3)": WIDE,
    "t.nn.functional.dropout2d(t.ones(3, n, 2, 2, dtype=d), 0.3)": WIDE,
    "t.nn.functional.dropout3d(t.ones(3, n, 2, 1, 2, dtype=d), 0.3)": WIDE,
    "t.nn.functional.alpha_dropout(t.ones(n, dtype=d), 0.3, True)": FLOATS,
    "t.nn.functional.feature_alpha_dropout(t.ones(3, n, 2, dtype=d), 0.3, True)": WIDE,
    "t.dropout(t.ones(n, dtype=d), 0.6, True)": FLOATS, "t.alpha_dropout(t.ones(n, dtype=d), 0.6, True)": FLOATS,
    "t.feature_dropout(t.ones(n, 3, 2, dtype=d), 0.6, True)": FLOATS,
}  # fmt: skip
NEAR: dict[str, tuple[str, ...]] = {
    "t.randn(n, dtype=d)": (*FLOATS, *COMPLEX), "t.randn(3, n, dtype=d)": WIDE,
    "t.randn_like(like)": (*FLOATS, *COMPLEX), "like.normal_(1.5, 0.1)": (*FLOATS, *COMPLEX),
    "t.normal(0.5, 2.0, (n,), dtype=d)": FLOATS, "t.normal(chances, 2.0)": FLOATS, "t.normal(0.5, chances)": FLOATS,
    "t.normal(chances, chances)": FLOATS, "like.log_normal_(0.1, 0.5)": FLOATS, "like.exponential_(1.5)": FLOATS,
    "like.cauchy_(0.0, 2.0)": FLOATS, "t._standard_gamma(chances)": WIDE, "t._standard_gamma(chances + 5)": WIDE,
    "t._sample_dirichlet(t.full((n, 3), 0.7, dtype=d))": WIDE, "t.nn.init.normal_(like)": FLOATS,
    "t.nn.init.trunc_normal_(like)": FLOATS, "t.nn.init.trunc_normal_(like, 0.0, 1.0, 1.0, 1.5)": FLOATS,
    "t.nn.init.kaiming_normal_(t.zeros(3, n, dtype=d))": WIDE,
    "t.nn.init.xavier_normal_(t.zeros(3, n, dtype=d))": WIDE, "t.nn.init.sparse_(t.zeros(12, n, dtype=d), 0.3)": WIDE,
    "t.rrelu(t.rand(n, dtype=d) - 0.5, training=True)": (*WIDE, "bfloat16"),
}  # fmt: skip
# What PyTorch fills that does not lie in rows: in the order of memory, and normals one pair after the other.
SCATTERED = [
    f"{place}.{fill}"
    for place in (
        "t.zeros(n, 3).t()", "t.zeros(n, 6)[:, ::2]", "t.zeros(2 * n)[::2]", "t.zeros(2, n, 3).permute(2, 0, 1)",
        "t.zeros(n, 1, 3).transpose(0, 1)",
    )
    for fill in (
        "uniform_()", "normal_(1, 2)", "random_(9)", "bernoulli_()", "exponential_()", "cauchy_()", "log_normal_()",
        "geometric_(0.4)",
    )
] + [
    "t.rand_like(t.zeros(n, 2, 3).transpose(0, 2))", "t.randn_like(t.zeros(n, 2, 3).transpose(0, 2))",
    "t.randn_like(t.zeros(n, 6)[:, ::2])", "t.randn_like(t.zeros(n, 1).expand(n, 8))",
    "t.randn_like(t.zeros(3, 1, n).expand(3, 8, n).transpose(0, 2))",
    "t.randint_like(t.zeros(n, 2, 3).transpose(0, 2), 99)", "t.rand(3, n, out=t.zeros(n, 3).t())",
    "t.randn(3, n, out=t.zeros(n, 3, dtype=t.float64).t())", "t.normal(0.0, 2.0, (3, n), out=t.zeros(n, 3).t())",
    "t.normal(t.ones(3, n), 2.0, out=t.zeros(n, 3).t())", "t.normal(t.ones(3, n), t.ones(n), out=t.zeros(n, 3).t())",
    "t.randint(9, (3, n), out=t.zeros(n, 3, dtype=t.int64).t())", "t.normal(t.rand(n, 3).t(), 1.0)",
    "t.bernoulli(t.rand(n, 3).t())", "t.rand(n, 3).t().bernoulli(0.4)", "t.poisson(9 * t.rand(n, 3).t())",
    "t.zeros(n, 3).t().bernoulli_(t.rand(n))", "t.multinomial(t.rand(n, 4).t(), 1)",
    "t.multinomial(t.rand(n, 4).t(), n, True)", "t.nn.functional.dropout(t.ones(n, 3).t(), 0.3)",
    "t.nn.functional.dropout(t.ones(n, 3).t(), 0.3, inplace=True)",
    "t.nn.functional.alpha_dropout(t.ones(n, 3).t(), 0.3, True)", "t.nn.init.trunc_normal_(t.zeros(n, 3).t())",
    "t.nn.init.trunc_normal_(t.zeros(n, 3).t(), 0.0, 1.0, 1.0, 1.5)", "t.nn.init.kaiming_normal_(t.zeros(n, 3).t())",
]  # fmt: skip


def test_the_table_has_forty_functions() -> None:
    assert len({call.split("(")[0] for call in (*EXACT, *NEAR)}) >= 40


@pytest.mark.parametrize("call", EXACT)
def test_same_bits(call: str) -> None:
    for kind in EXACT[call]:
        for n in SIZES:
            ours, theirs = both(call, n, kind)
            np.testing.assert_array_equal(ours, theirs, strict=True, err_msg=f"{n} of {kind}")


@pytest.mark.parametrize("call", NEAR)
def test_within_two_units(call: str) -> None:
    for kind in NEAR[call]:
        for n in SIZES:
            assert_near(*both(call, n, kind))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("call", SCATTERED)
@pytest.mark.parametrize("n", [5, 40])
def test_in_the_order_of_memory(call: str, n: int) -> None:
    assert_near(*both(call, n, "float32"))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("call", [*EXACT, *NEAR])
def test_compiled_draws_the_same(call: str) -> None:
    pytest.importorskip("llvmlite")
    if "nn.init" in call:
        pytest.skip("sets a parameter up before there is a step")
    kind = (EXACT | NEAR)[call][0]
    code = compile(call, "the call", "eval")

    def step() -> Any:
        return eval(code, names_in(ad, 17, kind))

    compiled = ad.compile(step)
    for seed in (1, 2):
        results = []
        for run in (step, compiled):
            ad.manual_seed(seed)
            results.append((run().detach().clone(), ad.get_rng_state()))
        (eager, place), (native, reached) = results
        np.testing.assert_array_equal(native.double().numpy(), eager.double().numpy())
        np.testing.assert_array_equal(reached.numpy(), place.numpy())


def both(call: str, n: int, kind: str) -> tuple[Any, Any]:
    """The numbers of one call with a seed, ours and PyTorch's, after which the streams are at one place."""
    (ours, name, place), (theirs, expected, reached) = (drawn(library, call, n, kind) for library in (ad, torch))
    assert name == expected
    np.testing.assert_array_equal(place, reached)
    return ours, theirs


def drawn(library: Any, call: str, n: int, kind: str) -> tuple[Any, str, Any]:
    library.manual_seed(n + 77)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gaps between the integers of a narrow type
        out = eval(call, names_in(library, n, kind)).detach()
    name = str(out.dtype).rpartition(".")[2]
    return np.asarray(out.float() if name == "bfloat16" else out), name, library.get_rng_state().numpy()


def names_in(library: Any, n: int, kind: str) -> dict[str, Any]:
    dtype = getattr(library, kind)
    chances = (library.arange(n) % 7 + 1).double() / 8
    return {
        "t": library, "n": n, "d": dtype, "like": library.zeros(n, dtype=dtype),
        "chances": chances.to(dtype) if "int" not in kind and kind != "bool" else None,
    }  # fmt: skip


def assert_near(ours: Any, theirs: Any) -> None:
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if ours.dtype.kind == "c":
        ours, theirs = (x.view(x.real.dtype) for x in (ours, theirs))
    if ours.dtype.kind != "f":
        np.testing.assert_array_equal(ours, theirs)
        return
    np.testing.assert_array_max_ulp(ours, theirs, 2)
