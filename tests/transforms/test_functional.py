"""Jacobians, Hessians and their products with vectors: against differences, with graphs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.scripts import output_of

import adjoint as ad
from adjoint.autograd import functional as AF

forward_mode = pytest.mark.skipif(find_spec("adjoint.autograd.forward_ad") is None, reason="needs forward mode")
graph_or_not = pytest.mark.parametrize("create_graph", [False, True])


def tensors(*sizes: Any, seed: int = 0, requires_grad: bool = False) -> Any:
    """Random float64 tensors: a tuple, or the one for one size."""
    noise = np.random.default_rng(seed)
    made = tuple(ad.tensor(noise.uniform(0.2, 1.5, size), requires_grad=requires_grad) for size in sizes)
    return made if len(made) > 1 else made[0]


def differences(function: Any, xs: tuple[Any, ...], i: int, eps: float = 1e-6) -> Any:
    """∂function/∂xs[i] by central differences, of shape (*output, *input)."""
    columns = []
    for place in np.ndindex(*xs[i].shape):
        moved = []
        for step in (eps, -eps):
            shifted = xs[i].numpy().copy()
            shifted[place] += step
            moved.append(function(*xs[:i], ad.tensor(shifted), *xs[i + 1 :]).numpy())
        columns.append((moved[0] - moved[1]) / (2 * eps))
    return np.stack(columns, -1).reshape(*columns[0].shape, *xs[i].shape)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", pytest.param("forward-mode", marks=forward_mode)])
def test_a_jacobian_is_what_differences_say(vectorize: bool, strategy: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x @ y).sin() * y.sum()

    xs = tensors((2, 3), (3, 2))
    for i, found in enumerate(AF.jacobian(function, xs, vectorize=vectorize, strategy=strategy)):
        np.testing.assert_allclose(found.numpy(), differences(function, xs, i), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", pytest.param("forward-mode", marks=forward_mode)])
def test_a_hessian_is_what_differences_of_the_gradient_say(vectorize: bool, strategy: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.exp() * y).sum() ** 2

    xs = tensors((2,), (2,))
    found = AF.hessian(function, xs, vectorize=vectorize, outer_jacobian_strategy=strategy)
    for i, j in product(range(2), repeat=2):
        slope = lambda *xs, i=i: AF.jacobian(function, xs)[i]  # noqa: E731
        np.testing.assert_allclose(found[i][j].numpy(), differences(slope, xs, j), rtol=1e-6, atol=1e-8)


def test_products_agree_with_the_whole_matrices() -> None:
    x, v = tensors((4,), (4,))
    curve = lambda x: x**3 + x.sum() * x  # noqa: E731
    whole = AF.jacobian(curve, x)
    np.testing.assert_allclose(AF.jvp(curve, x, v)[1].numpy(), (whole @ v).numpy())
    np.testing.assert_allclose(AF.vjp(curve, x, v)[1].numpy(), (v @ whole).numpy())
    energy = lambda x: curve(x).sin().sum()  # noqa: E731
    whole = AF.hessian(energy, x)
    np.testing.assert_allclose(AF.hvp(energy, x, v)[1].numpy(), (whole @ v).numpy())
    np.testing.assert_allclose(AF.vhp(energy, x, v)[1].numpy(), (v @ whole).numpy())


def cubic(x: Any, y: Any) -> Any:
    return x.pow(3) * y, (x * y.exp()).sum()


def energy(x: Any, y: Any) -> Any:
    return (x.pow(3) * y.exp()).sum()


# Each with a graph, as a function of two inputs and of a vector like them.
AGAIN: dict[str, Callable[..., Any]] = {
    "vjp": lambda x, y, u, v: AF.vjp(cubic, (x, y), (u, v.sum()), create_graph=True)[1],
    "jvp": lambda x, y, u, v: AF.jvp(cubic, (x, y), (u, v), create_graph=True)[1],
    "vhp": lambda x, y, u, v: AF.vhp(energy, (x, y), (u, v), create_graph=True)[1],
    "hvp": lambda x, y, u, v: AF.hvp(energy, (x, y), (u, v), create_graph=True)[1],
    "jacobian": lambda x, y, u, v: AF.jacobian(cubic, (x.sin() * u, y * v), create_graph=True)[0],
    "rows at once": lambda x, y, u, v: AF.jacobian(cubic, (x * u, y * v), create_graph=True, vectorize=True)[0],
    "hessian": lambda x, y, u, v: AF.hessian(energy, (x * u, y * v), create_graph=True)[1],
}


@pytest.mark.parametrize("function", AGAIN.values(), ids=AGAIN)
def test_results_with_a_graph_have_the_gradients_that_differences_have(function: Any) -> None:
    inputs = tensors((2,), (2,), (2,), (2,), requires_grad=True)
    assert ad.autograd.gradcheck(function, inputs)
    assert ad.autograd.gradgradcheck(function, inputs)


@forward_mode
@pytest.mark.parametrize("vectorize", [False, True])
def test_forward_mode_with_a_graph(vectorize: bool) -> None:
    x = tensors((3,), requires_grad=True)
    whole = AF.jacobian(lambda x: x**3, x, create_graph=True, strategy="forward-mode", vectorize=vectorize)
    (g,) = ad.autograd.grad(whole.sum(), x)
    np.testing.assert_allclose(g.numpy(), 6 * x.detach().numpy())


@forward_mode
def test_forward_mode_gives_the_dtype_of_the_output_and_reverse_mode_that_of_the_input() -> None:
    x = ad.tensor([1.0, 2.0])
    assert AF.jacobian(lambda x: x.double() * 2, x).dtype == ad.float32
    assert AF.jacobian(lambda x: x.double() * 2, x, strategy="forward-mode").dtype == ad.float64


@graph_or_not
def test_no_grad_outside_changes_nothing(create_graph: bool) -> None:
    x = tensors((2,), requires_grad=True)
    square = lambda x: x * x  # noqa: E731
    with ad.no_grad():
        results = [
            AF.jacobian(square, x, create_graph), *AF.vjp(square, x, x, create_graph),
            *AF.jvp(square, x, x, create_graph), AF.hessian(lambda x: square(x).sum(), x, create_graph),
        ]  # fmt: skip
        assert not ad.is_grad_enabled()
    assert [(y.grad_fn is not None) for y in results[:-1]] == [create_graph] * 5
    np.testing.assert_allclose(results[0].detach().numpy(), np.diag(2 * x.detach().numpy()))
    np.testing.assert_allclose(results[-1].detach().numpy(), 2 * np.eye(2))


def test_inputs_and_vectors_are_left_as_they_were() -> None:
    x, y = tensors((2,), (2,))
    x.requires_grad_()
    leaf = x.grad_fn
    AF.jacobian(cubic, (x, y))
    AF.hessian(energy, (x, y), create_graph=True)
    AF.hvp(energy, (x, y), (y, x))
    assert (x.grad, y.grad, x.grad_fn) == (None, None, leaf)
    assert (x.requires_grad, y.requires_grad) == (True, False)


@graph_or_not
def test_a_tensor_that_the_function_holds_counts_as_a_constant(create_graph: bool) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    assert AF.jacobian(lambda a: a * a * x, x, create_graph).tolist() == [[2.0, 0.0], [0.0, 8.0]]
    assert x.grad is None


def test_a_function_that_writes_to_what_it_made() -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        y.mul_(x)
        y[0] = x[1] * 5
        return y

    assert AF.jacobian(function, ad.tensor([1.0, 2.0, 3.0])).tolist() == [[0, 5, 0], [0, 4, 0], [0, 0, 6]]


def test_outputs_without_elements_or_without_a_number_give_empty_blocks() -> None:
    x = tensors((3,))
    for manner in ({}, {"vectorize": True}):
        assert AF.jacobian(lambda x: x[:0], x, **manner).shape == (0, 3)
        assert AF.jacobian(lambda x: (x[:0], x), x, **manner)[0].shape == (0, 3)
        assert AF.jacobian(lambda x: (), x, **manner) == ()
        assert AF.jacobian(lambda x: x.sum() * ad.ones(2), x[:0], **manner).shape == (2, 0)
    assert AF.vjp(lambda x: (x, x[:0]), x, (x, x[:0]))[1].tolist() == x.tolist()


@forward_mode
def test_forward_mode_without_elements() -> None:
    found = AF.jacobian(lambda x: x.sum() * ad.ones(2), ad.ones(0), strategy="forward-mode", vectorize=True)
    assert found.shape == (2, 0)


def test_outputs_of_integers_have_no_derivative() -> None:
    x = tensors((3,))
    outputs, products = AF.jvp(lambda x: (x * 2, x.argmax()), x, x)
    assert (products[0] == outputs[0]).all()
    assert products[1].item() == 0
    assert AF.jacobian(lambda x: x.argmax(), x).tolist() == [0.0, 0.0, 0.0]


def test_a_lone_scalar_needs_no_vector() -> None:
    x = ad.tensor(3.0)
    assert AF.vjp(lambda x: x * x, x)[1].item() == 6.0
    assert AF.jvp(lambda x: x * x, x)[1].item() == 6.0
    assert AF.vhp(lambda x: x**3, x)[1].item() == 18.0
    assert AF.hvp(lambda x: x**3, x)[1].item() == 18.0


def test_vectors_of_another_dtype_are_cast() -> None:
    x, v = ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=ad.float64)
    assert AF.vjp(lambda x: x * x, x, v)[1].dtype == ad.float32
    assert AF.jvp(lambda x: x * x, x, v)[1].tolist() == [6.0, 16.0]


def test_standard_basis() -> None:
    xs = ad.ones(2, dtype=ad.float64), ad.ones(()), ad.ones(1, 3)
    columns = AF._construct_standard_basis_for(xs, [2, 1, 3])
    assert [c.dtype for c in columns] == [x.dtype for x in xs]
    np.testing.assert_array_equal(np.concatenate([c.numpy() for c in columns], 1), np.eye(6))


def constant(x: Any) -> Any:
    return x.detach() * 2


def unconnected(x: Any) -> Any:
    return ad.ones(2, requires_grad=True) * 2


class Cut(ad.autograd.Function):
    """x · x in a single number, with a gradient that leads nowhere."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (2 * g * ctx.saved_tensors[0]).detach()


class CutLater(Cut):
    """The same, with a gradient whose own gradient leads nowhere."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (2 * x).detach() + Cut.apply(x)


REFUSED: list[tuple[Any, str]] = [  # with strict=True
    (lambda x: AF.vjp(constant, x, x, strict=True), "Output 0 of the user-provided function does not require grad"),
    (lambda x: AF.vjp(unconnected, x, x, strict=True), "The output of the user-provided function is independent of"),
    (lambda x: AF.jvp(unconnected, x, x, strict=True), "The output of the user-provided function is independent of"),
    (lambda x: AF.jacobian(unconnected, x, strict=True), "Output 0 of the user-provided function is independent of"),
    (lambda x: AF.vhp(lambda x: x.sum(), x, x, strict=True), "While computing the hessian, found that the jacobian"),
    (lambda x: AF.hvp(lambda x: x.sum(), x, x, strict=True), "While computing the hessian, found that the jacobian"),
    (lambda x: AF.jvp(Cut.apply, x, x, strict=True), "The gradient with respect to input 0 is independent of the"),
    (lambda x: AF.hvp(CutLater.apply, x, x, strict=True), "The hessian of the user-provided function with respect to"),
    (lambda x: AF.hessian(lambda x: x.sum(), x, strict=True), "While computing the hessian, found that the jacobian"),
    (lambda x: AF.jacobian(lambda x: x * 2, x, create_graph=True, strict=True), "strict mode when create_graph=True"),
    (lambda x: AF.jacobian(lambda x: x, x, strict=True, vectorize=True), "not supported together"),
    (lambda x: AF.jacobian(lambda x: x, x, strict=True, strategy="forward-mode"), "not supported together"),
]


@pytest.mark.parametrize(("call", "complaint"), REFUSED)
def test_strict_refuses_a_derivative_that_nothing_leads_to(call: Any, complaint: str) -> None:
    with pytest.raises(RuntimeError, match=complaint):
        call(tensors((2,), requires_grad=True))


def test_strict_names_the_input_that_the_jacobian_does_not_depend_on() -> None:
    x, y = tensors((2,), (2,), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"independent of input 1\. This is not allowed in strict"):
        # PyTorch names input 0 here: it counts the outputs.
        AF.jacobian(lambda x, y: x * x + y, (x, y), create_graph=True, strict=True)


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"])
def test_inputs_and_outputs_must_be_tensors(name: str) -> None:
    function, x = getattr(AF, name), ad.ones(2)
    vector = () if name in ("jacobian", "hessian") else (x,)
    with pytest.raises(TypeError, match=f"The inputs given to {name} must be .* index 1 has type <class 'int'>"):
        function(lambda x, y: x, (x, 2), *vector)
    with pytest.raises(TypeError, match=f"The outputs of the user-provided function given to {name} must be either"):
        function(lambda x: [x], x, *vector)


@pytest.mark.parametrize(("name", "keyword"), [("jacobian", "strategy"), ("hessian", "outer_jacobian_strategy")])
def test_an_unknown_strategy(name: str, keyword: str) -> None:
    with pytest.raises(AssertionError, match='either "forward-mode" or "reverse-mode"'):
        getattr(AF, name)(lambda x: x.sum(), ad.ones(2), **{keyword: "sideways"})


def test_integers_have_no_jacobian() -> None:
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        AF.jacobian(lambda x: x * 2, ad.tensor([1, 2]))


def test_the_module_is_imported_when_it_is_asked_for() -> None:
    program = """
import sys
import adjoint as ad
name = "adjoint.autograd.functional"
print(name in sys.modules, "functional" in dir(ad.autograd), ad.autograd.functional is sys.modules[name])
"""
    assert output_of(program).split() == ["False", "True", "True"]


def test_autograd_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match=r"module 'adjoint.autograd' has no attribute 'functionals'"):
        _ = ad.autograd.functionals


def test_inputs_of_a_subclass_stay_what_they_are() -> None:
    class Marked(ad.Tensor):
        pass

    seen = []

    def squares(x: Any) -> Any:
        seen.append(type(x))
        return x * x

    x = ad.ones(2).as_subclass(Marked)
    AF.jacobian(squares, x)
    AF.jacobian(squares, x.requires_grad_(), create_graph=True)
    AF.vjp(squares, x, ad.ones(2))
    assert set(seen) == {Marked}
