"""Functions of complex numbers beside PyTorch: value, gradient, second gradient, type, shape, error, text."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import errors_of

import adjoint as ad

torch = pytest.importorskip("torch")
Z = np.array([[1 + 2j, 0.5 - 1j, -0.3 + 0.1j], [-1.5 - 0.5j, 0.25 + 0.75j, 2 - 1.25j]])
W = np.array([[0.5 - 1j, 1.25 + 0.5j, -0.75 - 0.5j], [1 + 1j, -0.5 + 2j, 0.3 - 0.4j]])
R = np.array([[0.5, 1.25, 2.0], [0.75, 1.5, 0.25]])
S = (W @ Z.T)[None] + np.array([[2, 1j], [1, -3]])
NARROW = {"f": np.float32, "c": np.complex64}

HOLOMORPHIC = """
    acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log10 log1p log2 mean neg prod reciprocal rsqrt sigmoid
    sin sinc sinh sqrt square sum tan tanh
"""
PARTS = "abs angle conj conj_physical imag real sgn view_as_real"
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    **{name: (f"t.{name}(x)", (Z,)) for name in HOLOMORPHIC.split()},
    **{name: (f"t.{name}(x)", (Z,)) for name in PARTS.split()},
    **{f"{name} two": (f"t.{name}(x, y)", (Z, W)) for name in ["add", "sub", "mul", "div", "pow", "logaddexp"]},
    **{f"{name} mixed": (f"t.{name}(x, y)", (Z, R)) for name in ["add", "sub", "mul", "div", "pow"]},
    **{f"{name} mixed back": (f"t.{name}(y, x)", (Z, R)) for name in ["add", "sub", "mul", "div", "pow"]},
    "complex": ("t.complex(x, y)", (R, R * 2)), "complex broadcast": ("t.complex(x, y)", (R, R[0])),
    "polar": ("t.polar(x, y)", (R, R - 1)), "view_as_complex": ("t.view_as_complex(x)", (np.stack([R, R - 1], 2),)),
    "numbers": ("(x * (1 + 2j) - 3j) / (2 - 1j) + 1", (Z,)), "powers": ("x**3 + 2**x + x**(1 - 2j) + x**0", (Z,)),
    "number by real": ("(2j - x) * 1j / x", (R,)), "matmul": ("x @ y.mT", (Z, W)),
    "mv": ("t.mv(x, y[0])", (Z, W)), "bmm": ("t.bmm(x, x.mH)", (S,)), "dot": ("t.dot(x[0], y[0])", (Z, W)),
    "vdot": ("t.vdot(x[0], y[0])", (Z, W)), "outer": ("t.outer(x[0], y[1])", (Z, W)),
    "einsum": ("t.einsum('ij,kj->ik', x, y.conj())", (Z, W)),
    "linear": ("t.nn.functional.linear(x, y, y[:, 0])", (Z, W)),
    "addmm": ("t.addmm(x[:, :2], x, y.mT, beta=1j, alpha=2 - 1j)", (Z, W)), "det": ("t.linalg.det(x)", (S,)),
    "inv": ("t.linalg.inv(x)", (S,)), "sum dim": ("x.sum(1, keepdim=True)", (Z,)), "mean dim": ("x.mean(0)", (Z,)),
    "prod dim": ("x.prod(1)", (Z,)), "prod of zero": ("(x * y).prod(1)", (Z, np.array([1.0, 0, 1]))),
    "cumsum": ("x.cumsum(1)", (Z,)), "cumprod": ("x.cumprod(1)", (Z,)), "logsumexp": ("x.logsumexp(1)", (Z,)),
    "var": ("x.var(1)", (Z,)), "std": ("x.std(0, correction=0)", (Z,)), "norm": ("x.norm()", (Z,)),
    **{f"norm {p}": (f"t.linalg.vector_norm(x, {p}, 1)", (Z,)) for p in (1, 3, 0.5)},
    "norm inf": ("t.linalg.vector_norm(x, float('inf'), 1)", (Z,)), "where": ("t.where(x.real > 0, x, y)", (Z, W)),
    "index": ("x[:, [0, 0, 2]] * x[1]", (Z,)), "cat": ("t.cat([x, y])", (Z, R)),
    "stack": ("t.stack([x, x.conj()])", (Z,)),
    "cast": ("x.cdouble() * y", (R, Z)), "H": ("x.H @ y", (Z, W)), "adjoint": ("x.adjoint() * 1j", (S,)),
    "real of product": ("(x * y).real + (x / y).imag", (Z, W)), "abs squared": ("(x * x.conj()).real", (Z,)),
    "lerp": ("t.lerp(x, y, 0.3)", (Z, W)), "kron": ("t.kron(x, y)", (Z, W)), "diff": ("t.diff(x)", (Z,)),
}  # fmt: skip

SINGLE = "abs angle complex conj div mul exp matmul mean prod real sqrt sum view_as_real"


def evaluated(library: Any, expression: str, arrays: tuple[Any, ...]) -> list[Any]:
    """The result, the gradients of a weighted sum of its parts, and the gradients of the sum of their squares."""
    leaves = [library.tensor(a, requires_grad=True) for a in arrays]
    out = eval(expression, {"t": library, **dict(zip("xy", leaves, strict=False))})
    weights = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
    seed = library.tensor(weights * (1 - 0.5j) if out.is_complex() else weights).to(out.dtype)
    first = library.autograd.grad(out, leaves, seed, create_graph=True)
    total = sum(((g.real**2).sum() + 2 * (g.imag**2).sum()) if g.is_complex() else (g**2).sum() for g in first)
    second = [None] * len(leaves)
    if total.requires_grad:
        second = library.autograd.grad(total, leaves, allow_unused=True)
    zeros = [library.zeros_like(x) for x in leaves]
    return [out, *first, *(z if g is None else g for g, z in zip(second, zeros, strict=True))]


def compare(expression: str, arrays: tuple[Any, ...], close: float) -> None:
    """Hold what both libraries give next to each other."""
    ours, theirs = (evaluated(library, expression, arrays) for library in (ad, torch))
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).partition(".")[2] == str(b.dtype).partition(".")[2]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().resolve_conj().numpy(), rtol=close, atol=close)


@pytest.mark.parametrize("name", CASES)
def test_beside_torch(name: str) -> None:
    expression, arrays = CASES[name]
    compare(expression, arrays, 1e-10)


@pytest.mark.parametrize("name", [
    "abs", "angle", "complex", "conj", "div", "mul", "exp", "matmul", "mean", "prod", "real", "sqrt", "sum",
    "view_as_real",
])  # fmt: skip
def test_single_precision(name: str) -> None:
    expression, arrays = next(case for key, case in CASES.items() if key.split()[0] == name)
    compare(expression, tuple(a.astype(NARROW[a.dtype.kind]) for a in arrays), 2e-4)


@pytest.mark.parametrize("name", [name for name in CASES if name != "prod of zero"])
def test_gradcheck(name: str) -> None:
    expression, arrays = CASES[name]

    def function(*given: Any) -> Any:
        return eval(expression, {"t": ad, **dict(zip("xy", given, strict=False))})

    leaves = [ad.tensor(a, requires_grad=True) for a in arrays]
    assert ad.autograd.gradcheck(function, leaves, check_forward_ad=True)


@pytest.mark.parametrize("call", ["x.abs()", "x.sgn().real", "x.sgn().imag", "t.angle(x)", "x.norm()", "x.abs() ** 2"])
def test_slope_at_zero(call: str) -> None:
    found = []
    for library in (torch, ad):
        x = library.tensor([0j, 3 - 4j], requires_grad=True)
        eval(call, {"t": library, "x": x}).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


REFUSING_TWO = "lt le gt ge maximum minimum fmax fmin remainder fmod atan2 xlogy"
REFUSING = "sign floor ceil trunc round frac relu erf lgamma signbit max min amax argmax sort median"
ERRORS: dict[str, str] = {
    **{name: f"t.{name}(x, x)" for name in REFUSING_TWO.split()},
    **{name: f"t.{name}(x)" for name in REFUSING.split()},
    "floor_divide": "x // x", "topk": "t.topk(x, 1)", "cummax": "t.cummax(x, 0)", "unique": "t.unique(x)",
    "mode": "t.mode(x)", "isposinf": "t.isposinf(x)", "nansum": "t.nansum(x)", "clamp": "t.clamp(x, min=0)",
    "float": "float(x[0, 0])", "int": "int(x[0, 0])", "backward": "(x * 1).sum().backward()",
    "add_": "t.ones(3).add_(1j)", "setitem": "t.ones(3).__setitem__(0, 2j)", "alpha": "t.add(t.ones(3), 1, alpha=1j)",
    "masked_fill": "t.ones(3).masked_fill(t.ones(3) > 0, 1j)", "imag": "t.imag(t.ones(3))", ".imag": "t.ones(3).imag",
    "view_as_real": "t.view_as_real(t.ones(3))", "last size": "t.view_as_complex(t.ones(3))",
    "integers": "t.view_as_complex(t.ones(3, 2, dtype=t.int32))", "0-d": "t.view_as_complex(t.tensor(1.0))",
    "stride": "t.view_as_complex(t.ones(2, 3).t())", "odd stride": "t.view_as_complex(t.ones(3, 3)[:, :2])",
    "two types": "t.complex(t.ones(2), t.ones(2, dtype=t.float64))", "of integers": "t.polar(t.arange(2), t.arange(2))",
    "H": "t.ones(1, 2, 3, dtype=t.cfloat).H", "set imag": "setattr(t.ones(3), 'imag', 1)",
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    ours, theirs = errors_of(
        lambda t: eval(ERRORS[name], {"t": t, "x": t.tensor(Z, requires_grad=name == "backward")}), ad, torch
    )
    assert isinstance(ours, (type(theirs), NotImplementedError))


def test_scalar_backward_says_why() -> None:
    x = ad.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got adjoint"):
        (x * x).backward()
    (x * x).backward(ad.tensor(1 + 0j))
    assert x.grad.item() == 2 - 4j


TYPES = [
    "x * t.ones(3, dtype=t.float64)", "x.cfloat() * t.ones(3, dtype=t.float64)", "x.cfloat() * 2.5", "t.ones(3) * 1j",
    "t.ones(3, dtype=t.float64) * 1j", "t.ones(3, dtype=t.int64) * 1j", "t.ones(3, dtype=t.int64) * x.cfloat()",
    "x.cfloat() * t.tensor(1.0, dtype=t.float64)", "x.real", "x.cfloat().abs()", "t.sgn(t.tensor([True]))",
    "t.angle(t.tensor([1, -1]))", "t.angle(t.tensor([1.0, -1.0, float('nan'), -0.0]))", "t.isreal(x)", "x == x.real",
    "t.full((2,), 1j)", "t.linspace(0, 1j, 3)", "t.eye(2, dtype=t.cfloat)", "t.ones(3).sum(dtype=t.cfloat)",
    "t.std_mean(x)[0]", "x.bool()", "t.real(t.ones(3))", "t.resolve_conj(x)", "t.resolve_neg(x)", "t.view_as_real(x)",
    "t.count_nonzero(x)", "t.isclose(x, x + 1e-9)", "t.nan_to_num(x)", "x.to(t.complex64)", "t.result_type(x, 1.0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", TYPES)
def test_types_and_shapes(expression: str) -> None:
    ours, theirs = (eval(expression, {"t": lib, "x": lib.tensor(Z)}) for lib in (ad, torch))
    if not isinstance(theirs, torch.Tensor):
        assert str(ours).partition(".")[2] == str(theirs).partition(".")[2]
        return
    assert (str(ours.dtype)[8:], tuple(ours.shape)) == (str(theirs.dtype)[6:], tuple(theirs.shape))
    np.testing.assert_allclose(ours.numpy(), theirs.resolve_conj().numpy(), rtol=1e-6)


NAMES = {
    "x.real": "SelectBackward0", "x.imag": "SelectBackward0", "x.conj()": "ConjBackward0",
    "t.angle(x)": "AngleBackward0",
    "t.view_as_real(x)": "ViewAsRealBackward0", "x.conj_physical()": "ConjPhysicalBackward0", "x.sgn()": "SgnBackward0",
    "t.complex(x.real, x.imag)": "ComplexBackward0", "t.polar(x.real, x.imag)": "PolarBackward0",
    "t.view_as_complex(t.view_as_real(x))": "ViewAsComplexBackward0",
}  # fmt: skip


@pytest.mark.parametrize("expression", NAMES)
def test_node_names(expression: str) -> None:
    for library in (torch, ad):
        out = eval(expression, {"t": library, "x": library.tensor(Z, requires_grad=True)})
        assert out.grad_fn.name() == NAMES[expression]


def test_parts_are_views_that_may_be_written() -> None:
    for library in (torch, ad):
        x = library.tensor(Z)
        assert x.real.data_ptr() == x.data_ptr()
        x.real = library.tensor(R)
        x.imag = 3
        x.real.mul_(2)
        library.view_as_real(x)[0, 0, 1] = 5
        expected = 2 * R + 3j
        expected[0, 0] = 1 + 5j
        np.testing.assert_array_equal(x.numpy(), expected)
        parts = library.tensor(np.stack([R, R], 2))
        library.view_as_complex(parts).mul_(1j)
        np.testing.assert_array_equal(parts.numpy(), np.stack([-R, R], 2))


def test_gradients_through_written_parts() -> None:
    found = []
    for library in (torch, ad):
        x, y = (library.tensor(a, requires_grad=True) for a in (Z, R))
        z = x * 1
        z.real = y * y
        z.imag.mul_(2)
        (z * z * (1 - 1j)).real.sum().backward()
        found.append((x.grad.numpy(), y.grad.numpy()))
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_in_place_and_out() -> None:
    x = ad.tensor(Z)
    assert x.conj_physical_() is x
    np.testing.assert_array_equal(x.numpy(), Z.conj())
    x.sgn_()
    np.testing.assert_allclose(x.abs().numpy(), np.ones(Z.shape))
    out = ad.empty(2, 3, dtype=ad.complex128)
    assert ad.complex(ad.tensor(R), ad.tensor(R), out=out) is out
    np.testing.assert_array_equal(out.numpy(), R + 1j * R)


def test_casting_to_real_warns() -> None:
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert ad.tensor(Z).float().dtype is ad.float32


DRAWS = ["rand(5, dtype=t.cfloat)", "randn(20, dtype=t.cdouble)", "empty(3, dtype=t.cfloat).uniform_(-2, 3)"]


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_are_those_of_torch(draw: str) -> None:
    drawn = []
    for library in (torch, ad):
        library.manual_seed(3)
        drawn.append(eval(f"t.{draw}", {"t": library}).numpy())
    np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-6)


def test_linear_layer() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Linear(3, 2, dtype=torch.complex64)
    ad.manual_seed(0)
    ours = ad.nn.Linear(3, 2, dtype=ad.complex64)
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-6)
    for layer, library in ((ours, ad), (theirs, torch)):
        layer(library.tensor(Z.astype(np.complex64))).abs().sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e7])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (40, 60)])
def test_prints_as_torch_does(shape: tuple[int, ...], scale: float) -> None:
    numbers = np.random.default_rng(len(shape))
    z = (numbers.normal(size=shape) * scale + 1j * np.round(numbers.normal(size=shape) * 3)).astype(np.complex64)
    assert str(ad.tensor(z)) == str(torch.tensor(z))
    assert str(ad.tensor(z.astype(np.complex128))).replace("adjoint", "torch") == str(
        torch.tensor(z.astype(np.complex128))
    )


def test_a_number_is_its_own_transpose() -> None:
    x = ad.tensor(1 + 2j)
    assert x.mT.item() == x.mH.item() == ad.adjoint(x).item() == 1 + 2j
    assert ad.linalg.vecdot(x, x).item() == 5


def test_the_package_has_the_function_of_its_name() -> None:
    assert ad.adjoint(ad.tensor([[1j, 2.0]])).tolist() == [[-1j], [2.0]]
    assert ad.view_as_complex(ad.zeros(0, 2)).shape == (0,)
