"""`adjoint.fft` beside `torch.fft`: value, gradient, second gradient, types, shapes, errors."""

import numpy as np
import pytest
from tests.functions.elementwise.test_complex import compare
from tests.support.errors import errors_of
from tests.support.oracle import torch

import adjoint as ad

X = np.random.default_rng(5).normal(size=(3, 4, 5))
Z = X + 1j * np.random.default_rng(6).normal(size=X.shape)
ONE = ["", "n=3", "n=8, dim=1", "norm='ortho'", "norm='forward', dim=0", "norm='backward', n=7, dim=-2"]
SEVERAL = ["", "s=(3, 6)", "s=(5, 3), dim=(0, 2)", "norm='ortho'", "norm='forward', dim=(2, 0)", "s=(-1, 4)", "dim=1"]
REAL = ("rfft", "ihfft")
NAMES = [f"{head}{tail}" for tail in ("fft", "fft2", "fftn") for head in ("", "i", "r", "ir", "h", "ih")]
CASES = [(name, given) for name in NAMES for given in (ONE if name.endswith("t") else SEVERAL)]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_transforms(name: str, given: str) -> None:
    for array in (X,) if name.rstrip("2n").removesuffix("n") in REAL else (X, Z):
        compare(f"t.fft.{name}(x, {given})", (array,), 1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_modes_agree(name: str) -> None:
    array = X if name.rstrip("2n") in REAL else Z
    x = ad.tensor(array[:2, :2, :3], requires_grad=True)
    assert ad.autograd.gradcheck(getattr(ad.fft, name), x, check_forward_ad=True, check_batched_grad=True)
    assert ad.autograd.gradgradcheck(getattr(ad.fft, name), x)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision(name: str) -> None:
    array = (X if name.rstrip("2n") in REAL else Z).astype(np.float32 if name.rstrip("2n") in REAL else np.complex64)
    ours, theirs = (getattr(library.fft, name)(library.tensor(array)) for library in (ad, torch))
    assert str(ours.dtype)[8:] == str(theirs.dtype)[6:]
    np.testing.assert_allclose(ours.numpy(), theirs.resolve_conj().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_batches_are_loops(name: str) -> None:
    array = ad.tensor(X if name.rstrip("2n") in REAL else Z)
    function = getattr(ad.fft, name)
    together = ad.vmap(function, in_dims=1)(array)
    np.testing.assert_allclose(together[2].numpy(), function(array[:, 2]).numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pair", [("fft", "ifft"), ("rfft", "irfft"), ("ihfft", "hfft"), ("rfftn", "irfftn")])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_inverses(pair: tuple[str, str], norm: str) -> None:
    there, back = (getattr(ad.fft, name) for name in pair)
    size = {"s": X.shape} if pair[0].endswith("n") else {"n": 5}
    found = back(there(ad.tensor(X), norm=norm), norm=norm, **size)
    np.testing.assert_allclose(found.real.numpy(), X, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 6])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str, n: int) -> None:
    for dtype in ("float32", "float64"):
        ours, theirs = (getattr(lib.fft, name)(n, 0.3, dtype=getattr(lib, dtype)) for lib in (ad, torch))
        assert ours.dtype.name == dtype
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("given", ["", "dim=0", "dim=(0, 2)", "dim=-1"])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name: str, given: str) -> None:
    compare(f"t.fft.{name}(x, {given})", (Z,), 0.0)


ERRORS = [
    "fft(x, n=0)", "fft(x, n=-1)", "fft(x, dim=5)", "fft(t.tensor(1.0))", "fft(t.zeros(0))", "rfft(z)", "ihfft(z)",
    "irfft(z, n=0)", "irfft(z[..., :1])", "fft(x, norm='bad')", "fft(x.half())", "fftn(x, dim=(0, 0))",
    "fftn(x, s=(1, 2, 3, 4))", "fftn(x, s=(3, 2), dim=(0,))", "fftn(x, s=(-2, 2))", "fftn(x, s=(0, 2))",
    "rfftn(x, dim=())", "irfftn(z, dim=())", "rfftn(t.tensor(1.0))", "fft2(x, dim=(0, 1, 1))", "fft2(x[0, 0])",
    "irfftn(z, dim=(1, 1))", "ihfftn(z)", "fftfreq(-1)", "fftfreq(5, dtype=t.int64)", "fftshift(x, dim=3)",
    "fft(x, out=t.zeros(3, 4, 5))", "fft(x, n='a')", "fft(x, dim=(0,))",
]  # fmt: skip


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    ours, theirs = errors_of(lambda t: eval(f"t.fft.{call}", {"t": t, "x": t.tensor(X), "z": t.tensor(Z)}), ad, torch)
    assert type(ours) is type(theirs)


@pytest.mark.parametrize(
    "call", ["fft(t.arange(3))", "rfft(t.tensor([True, False]))", "fftn(x, dim=())", "fft2(x, dim=0)"]
)
def test_types_and_shapes(call: str) -> None:
    ours, theirs = (eval(f"t.fft.{call}", {"t": lib, "x": lib.tensor(X)}) for lib in (ad, torch))
    assert (str(ours.dtype)[8:], tuple(ours.shape)) == (str(theirs.dtype)[6:], tuple(theirs.shape))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-6)


def test_out() -> None:
    out = ad.empty(3, 4, 5, dtype=ad.complex128)
    assert ad.fft.fft(ad.tensor(X), out=out) is out
    np.testing.assert_allclose(out.numpy(), np.fft.fft(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "fftn", "hfft"])
def test_node_names(name: str) -> None:
    kinds = {
        library.__name__: getattr(library.fft, name)(library.tensor(X if name == "rfft" else Z, requires_grad=True))
        for library in (ad, torch)
    }
    assert kinds["adjoint"].grad_fn.name() == kinds["torch"].grad_fn.name()
