"""The type bfloat16: its name without its package, promotion, limits, printing, pickles, files, random numbers."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.scripts import output_of

import adjoint as ad
import adjoint.nn.functional

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.needs_processes
def test_the_name_loads_nothing() -> None:
    said = output_of("import sys, adjoint as ad; print(ad.bfloat16, ad.bfloat16.itemsize, 'ml_dtypes' in sys.modules)")
    assert said == "adjoint.bfloat16 2 False"


@pytest.mark.needs_processes
def test_tensors_without_the_package_are_a_clear_error() -> None:
    said = output_of(
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import adjoint as ad\n"
        "assert ad.bfloat16 != ad.float16 and {ad.bfloat16: 1}[ad.bfloat16] == 1\n"
        "try: ad.ones(2, dtype=ad.bfloat16)\n"
        "except ImportError as error: print(error)"
    )
    assert said == "adjoint.bfloat16 needs the package ml_dtypes, which is not installed: pip install ml_dtypes"


@pytest.mark.needs_processes
def test_an_array_from_elsewhere_is_the_first() -> None:
    said = output_of(
        "import numpy as np, ml_dtypes, adjoint as ad\n"
        "x = ad.tensor(np.array([1.0, 3.0], ml_dtypes.bfloat16), requires_grad=True)\n"
        "y = (x / 3).sum(); y.backward(); print(y.item(), x.grad.dtype, x.dtype == np.dtype(ml_dtypes.bfloat16))"
    )
    assert said == "1.3359375 adjoint.bfloat16 True"


def test_it_is_equal_to_itself_and_its_numpy_type() -> None:
    assert ad.bfloat16 == np.dtype(ml_dtypes.bfloat16)
    assert ad.bfloat16 == ml_dtypes.bfloat16
    assert ad.bfloat16 not in (ad.float16, ad.float32, np.float16)
    assert hash(ad.bfloat16) == hash(np.dtype(ml_dtypes.bfloat16))
    assert pickle.loads(pickle.dumps(ad.bfloat16)) is ad.bfloat16


def test_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for name in ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"):
        ours, theirs = (str(t.promote_types(getattr(t, name), t.bfloat16)) for t in (ad, torch))
        assert ours.partition(".")[2] == theirs.partition(".")[2]
    limits, expected = ad.finfo(ad.bfloat16), torch.finfo(torch.bfloat16)
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(limits, name) == getattr(expected, name)
    for values in ([1.23456, 1e5, 3e-3], [1.5, float("nan")], [[1.0, 2.0]], 2.5, [], [0.1] * 30, [1.0] * 1001):
        ours, theirs = (str(t.tensor(values).bfloat16()) for t in (ad, torch))
        assert ours == theirs.replace("torch", "adjoint").replace(",\n       dtype", ",\n       dtype")
    for value in (1, 1.0, True, [1], [1.0]):
        ours, theirs = (t.ones(2, dtype=t.bfloat16) + (t.tensor(value) if value else value) for t in (ad, torch))
        assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]


def test_conversions() -> None:
    x = ad.tensor([1.0, 1.00390625, 1.01171875, 3.4e38, float("nan")])
    narrow = x.bfloat16()
    assert narrow.dtype is ad.bfloat16
    assert x.to(ad.bfloat16).dtype is x.type(ad.bfloat16).dtype is narrow.dtype
    assert narrow.tolist()[:4] == [1.0, 1.0, 1.015625, float("inf")]  # to the nearest, ties to even
    assert np.isnan(narrow[4].item())
    assert type(narrow[0].item()) is float
    assert narrow.is_floating_point()
    assert (narrow.float()[:3] == ad.tensor([1.0, 1.0, 1.015625])).all()
    assert isinstance(narrow, ad.BFloat16Tensor)
    raises(TypeError, "Got unsupported ScalarType BFloat16", narrow.numpy)
    raises(TypeError, "Got unsupported ScalarType BFloat16", lambda: np.asarray(narrow))


def test_memory_from_elsewhere_is_shared() -> None:
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    x = ad.from_numpy(array)
    x[0, 1] = 7.0
    assert array[0, 1] == 7
    assert x.unfold(1, 2, 1).dtype is ad.bfloat16
    assert x.as_strided((2, 2), (3, 1)).tolist() == [[0.0, 7.0], [3.0, 4.0]]


def test_default_type() -> None:
    ad.set_default_dtype(ad.bfloat16)
    try:
        assert repr(ad.tensor([1.5, 2])) == "tensor([1.5000, 2.0000])"
        assert {t.dtype for t in (ad.ones(2), ad.arange(3) / 2, ad.rand(2), ad.tensor([1]).sin())} == {ad.bfloat16}
        assert ad.nn.Linear(2, 2).weight.dtype is ad.bfloat16
        assert ad.finfo().bits == 16
    finally:
        ad.set_default_dtype(ad.float32)


def test_it_is_saved(tmp_path: Path) -> None:
    model = ad.nn.Linear(3, 2).bfloat16()
    ad.save({"model": model.state_dict(), "x": ad.ones(2)}, tmp_path / "file")
    for mapped in (False, True):
        found = ad.load(tmp_path / "file", mmap=mapped)
        other = ad.nn.Linear(3, 2, dtype=ad.bfloat16)
        other.load_state_dict(found["model"])
        assert (other.weight == model.weight).all()
        assert found["model"]["weight"].dtype is ad.bfloat16
    for twin in (pickle.loads(pickle.dumps(model.weight)), copy.deepcopy(model).weight):
        assert twin.dtype is ad.bfloat16
        assert (twin == model.weight).all()


DRAWS = [
    "t.rand(n, dtype=d)", "t.randn(n, dtype=d)", "t.empty(n, dtype=d).uniform_(-1.3, 2.7)",
    "t.empty(n, dtype=d).uniform_(1, 1.01)", "t.empty(n, dtype=d).normal_(0.5, 1.7)",
    "t.nn.functional.dropout(t.ones(n, dtype=d), 0.3)", "t.empty(n, dtype=d).exponential_(2.0)",
    "t.bernoulli(t.full((n,), 0.3, dtype=d))", "t.empty(n, dtype=d).bernoulli_(0.3)",
    "t.randint(0, 200, (n,), dtype=d)", "t.rand_like(t.ones(n, dtype=d))", "t.randn_like(t.ones(n, dtype=d))",
    "t.normal(t.zeros(n, dtype=d), t.ones(n, dtype=d))", "t.nn.init.kaiming_uniform_(t.empty(n, 4, dtype=d))",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_same_seed_gives_pytorchs_numbers(draw: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    for n in (1, 2, 7, 15, 16, 17, 31, 32, 100, 1000):
        found: list[Any] = []
        for t in (ad, torch):
            t.manual_seed(n)
            out = eval(draw, {"t": t, "n": n, "d": getattr(t, kind)})
            found.append((out.float().tolist(), t.rand(2).tolist()))  # the stream has moved as far, too
        assert found[0] == found[1]


def test_second_gradients_and_steps() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for t in (ad, torch):
        x = t.tensor([0.5, 1.25, -2.0]).bfloat16().requires_grad_()
        first = t.autograd.grad((x.exp() * x).sum(), x, create_graph=True)[0]
        second = t.autograd.grad(first.sum(), x)[0]
        x.grad = first.detach()
        for made in (t.optim.SGD([x], lr=0.1, momentum=0.9), t.optim.Adam([x], lr=0.01), t.optim.AdamW([x], lr=0.01)):
            made.step()
            made.step()
        results.append([v.detach().float().tolist() for v in (first, second, x)])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs, rel=2**-7)


def test_parameters_of_float32_get_gradients_of_float32() -> None:
    w = ad.ones(3, requires_grad=True)
    (w.bfloat16() * ad.tensor([1.0, 2.0, 3.0]).bfloat16()).sum().backward()
    assert w.grad.dtype is ad.float32
    assert w.grad.tolist() == [1.0, 2.0, 3.0]


def test_forward_mode_and_vmap() -> None:
    x = ad.tensor([[0.5, 1.0], [2.0, -1.0]]).bfloat16()
    value, tangent = ad.func.jvp(lambda v: (v.exp() * v).sum(), (x,), (ad.ones_like(x),))
    assert value.dtype is tangent.dtype is ad.bfloat16
    exact = ad.func.jvp(lambda v: (v.exp() * v).sum(), (x.float(),), (ad.ones(2, 2),))
    assert tangent.item() == pytest.approx(exact[1].item(), rel=2**-5)
    mapped = ad.vmap(lambda v: v.softmax(0))(x)
    assert mapped.dtype is ad.bfloat16
    assert (mapped == x.softmax(1)).all()


@pytest.mark.needs_processes
@pytest.mark.parametrize("first", ["float32", "bfloat16"])
def test_a_gradient_is_rounded_once_whatever_type_came_first(first: str) -> None:
    """The quotient's rule computes in float32 and rounds its result, where it ran for float32 before, and where not."""
    said = output_of(
        "import adjoint as ad\n"
        "def gradient(dtype):\n"
        "    x = (ad.arange(24) * 0.37 - 4).to(dtype).requires_grad_()\n"
        "    (ad.ones(24, dtype=dtype) / (x.abs() + 1)).sum().backward()\n"
        "    return x.grad\n"
        f"gradient(ad.{first})\n"
        "x = (ad.arange(24) * 0.37 - 4).bfloat16().float()\n"
        "print(ad.equal(gradient(ad.bfloat16), (-x.sign() / (x.abs() + 1).bfloat16().float().square()).bfloat16()))"
    )
    assert said == "True"


def test_programs_without_bfloat16_take_the_quick_path_of_each_call():
    assert output_of("""
        import adjoint as ad
        from adjoint.core.dtype.dtype import default

        x = ad.rand(2, 3)
        (x.float(), x.long().long(), x.double() @ x.double().T, ad.nn.Linear(3, 2)(x))
        print(default.narrow)
    """) == "False"
