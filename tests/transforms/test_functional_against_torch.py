"""The functions of `autograd.functional` against PyTorch's: structure, values, second derivatives and error texts."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import functional as AF

torch: Any = pytest.importorskip("torch")
TF = torch.autograd.functional

forward_mode = pytest.mark.skipif(find_spec("adjoint.autograd.forward_ad") is None, reason="needs forward mode")
MANNERS = [
    pytest.param({"vectorize": False}, id="row by row"),
    pytest.param({"vectorize": True}, id="rows at once"),
    pytest.param({"vectorize": False, "strategy": "forward-mode"}, marks=forward_mode, id="forward"),
    pytest.param({"vectorize": True, "strategy": "forward-mode"}, marks=forward_mode, id="forward at once"),
]

# Functions of tensors of either library; the sizes of their inputs, () around one size for a lone tensor.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "one to one": (lambda x: (x * x).sin() * x[0], [(3,)]),
    "one to a scalar": (lambda x: x.exp().sum(), [(2, 3)]),
    "scalar to one": (lambda x: x.unsqueeze(0).repeat(4) * x, [()]),
    "scalar to scalar": (lambda x: x.tanh() * x, [()]),
    "one to a tuple of one": (lambda x: ((x * x).sum(1),), [(2, 2)]),
    "one to many": (lambda x: (x * x, x.sum(), x.cos()[0]), [(2, 2)]),
    "many to one": (lambda x, y: (x.cos() * x) @ y.sin(), ((2, 3), (3, 2))),
    "many to many": (lambda x, y: ((x * x) @ y, x @ (x.sum(1) * y), y.sum()), ((3, 2), (2, 3))),
    "a tuple of one": (lambda x: x.pow(3), ((2,),)),
    "inputs given back": (lambda x, y: (x, y, x), ((2,), (3,))),
    "unrelated": (lambda x, y: (x * x, y.sum()), ((2,), ())),
    "no history": (lambda x, y: (x.detach() * 2, y * y), ((2,), (3,))),
    "views": (lambda x: x.transpose(0, 1).reshape(6)[1:5] * x.view(6)[::2][:1], [(2, 3)]),
}
SCALARS: dict[str, tuple[Callable[..., Any], Any]] = {
    "one": (lambda x: (x**3).sum() * x[0], [(3,)]),
    "a scalar": (lambda x: x.exp() * x, [()]),
    "one element": (lambda x: x.pow(3).sum().view(1, 1, 1), [(2, 2)]),
    "many": (lambda x, y, z: ((x.tanh() * x) @ y.sin() @ z).sum(), ((2, 3), (3, 2), (2, 2))),
    "a tuple of one": (lambda x: (x.sin() * x).sum(), ((2,),)),
    "linear": (lambda x, y: (2 * x).sum() + (y * y).sum(), ((2,), (3,))),
    "unrelated": (lambda x, y: x.pow(3).sum(), ((2,), (3,))),
}

jacobian_manner = pytest.mark.parametrize("manner", MANNERS)
functions = pytest.mark.parametrize(("function", "sizes"), FUNCTIONS.values(), ids=FUNCTIONS)
scalars = pytest.mark.parametrize(("function", "sizes"), SCALARS.values(), ids=SCALARS)
graph_or_not = pytest.mark.parametrize("create_graph", [False, True])


def values(sizes: Any, seed: int = 0) -> Any:
    """Random arrays: one for a list of one size, a tuple for a tuple of sizes."""
    noise = np.random.default_rng(seed)
    made = tuple(np.asarray(noise.uniform(0.2, 1.5, size)) for size in sizes)
    return made if isinstance(sizes, tuple) else made[0]


def mine(arrays: Any, requires_grad: bool = False) -> Any:
    if isinstance(arrays, tuple):
        return tuple(mine(array, requires_grad) for array in arrays)
    return ad.tensor(arrays, requires_grad=requires_grad)


def theirs(arrays: Any, requires_grad: bool = False) -> Any:
    if isinstance(arrays, tuple):
        return tuple(theirs(array, requires_grad) for array in arrays)
    return torch.tensor(arrays, requires_grad=requires_grad)


def assert_same(found: Any, expected: Any, needs_grad: bool | None = None) -> None:
    """Equal structure, shapes, dtypes and values, and the same wish for gradients, or `needs_grad`."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            assert_same(f, e, needs_grad)
        return
    assert isinstance(found, ad.Tensor)
    assert found.requires_grad == (expected.requires_grad if needs_grad is None else needs_grad)
    a, b = found.detach().numpy(), expected.detach().numpy()
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def flat(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, tuple) else [result]


def like_outputs(function: Any, arrays: Any) -> Any:
    """A vector for `vjp`, of the shapes of the outputs."""
    outputs = function(*theirs(arrays if isinstance(arrays, tuple) else (arrays,)))
    if isinstance(outputs, tuple):
        return values(tuple(tuple(y.shape) for y in outputs), seed=1)
    return values([tuple(outputs.shape)], seed=1)


@functions
@jacobian_manner
def test_a_jacobian_is_pytorchs(function: Any, sizes: Any, manner: dict[str, Any]) -> None:
    arrays = values(sizes)
    assert_same(AF.jacobian(function, mine(arrays), **manner), TF.jacobian(function, theirs(arrays)))


@scalars
@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", pytest.param("forward-mode", marks=forward_mode)])
def test_a_hessian_is_pytorchs(function: Any, sizes: Any, vectorize: bool, strategy: str) -> None:
    arrays = values(sizes)
    given = mine(arrays)
    found = AF.hessian(function, given, vectorize=vectorize, outer_jacobian_strategy=strategy)
    assert_same(found, TF.hessian(function, theirs(arrays)))
    assert not any(x.requires_grad for x in flat(given))


@functions
@graph_or_not
def test_vjp_and_jvp_are_pytorchs(function: Any, sizes: Any, create_graph: bool) -> None:
    arrays = values(sizes)
    vectors = {"vjp": like_outputs(function, arrays), "jvp": values(sizes, seed=1)}
    for name, v in vectors.items():
        found = getattr(AF, name)(function, mine(arrays, True), mine(v, True), create_graph)
        assert_same(found, getattr(TF, name)(function, theirs(arrays, True), theirs(v, True), create_graph))


@scalars
@graph_or_not
@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_products_with_a_hessian_are_pytorchs(name: str, function: Any, sizes: Any, create_graph: bool) -> None:
    arrays, v = values(sizes), values(sizes, seed=1)
    found = getattr(AF, name)(function, mine(arrays, True), mine(v, True), create_graph)
    assert_same(found, getattr(TF, name)(function, theirs(arrays, True), theirs(v, True), create_graph))


def random_program(seed: int) -> Callable[..., Any]:
    """A function of two (3, 3) tensors of either library, made of six ops chosen at random."""
    steps = [
        lambda a, b: a * b, lambda a, b: (a + b).sin(), lambda a, b: a @ b / 3, lambda a, b: a.tanh() - b,
        lambda a, b: a.exp() / (1 + b * b), lambda a, b: a.sum(0) * b, lambda a, b: a[1:].cos().sum() + b,
        lambda a, b: a.transpose(0, 1) * b.max(),
    ]  # fmt: skip
    noise = np.random.default_rng(seed)
    chosen = [(steps[noise.integers(len(steps))], *noise.integers(0, k, 2)) for k in range(2, 8)]

    def program(x: Any, y: Any) -> Any:
        pool = [x, y]
        for step, i, j in chosen:
            pool.append(step(pool[i], pool[j]))
        return pool[-1], pool[-2].sum(1)

    return program


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    program, arrays = random_program(seed), values(((3, 3), (3, 3)), seed)
    expected = TF.jacobian(program, theirs(arrays))
    for vectorize in (False, True):
        assert_same(AF.jacobian(program, mine(arrays), vectorize=vectorize), expected)
    v = values(((3, 3), (3, 3)), seed + 100)
    assert_same(AF.jvp(program, mine(arrays), mine(v)), TF.jvp(program, theirs(arrays), theirs(v)))
    total = lambda x, y: program(x, y)[0].sum()  # noqa: E731
    assert_same(AF.hessian(total, mine(arrays)), TF.hessian(total, theirs(arrays)))
    assert_same(AF.hvp(total, mine(arrays), mine(v)), TF.hvp(total, theirs(arrays), theirs(v)))


def cubic(x: Any, y: Any) -> Any:
    return x.pow(3) * y, (x * y.exp()).sum()


def energy(x: Any, y: Any) -> Any:
    return (x.pow(3) * y.exp()).sum()


# What is differentiated once more; `lib` is either library's module of these functions.
AGAIN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "vjp": lambda lib, xs, v: lib.vjp(cubic, xs, (v[0], v[1].sum()), create_graph=True),
    "jvp": lambda lib, xs, v: lib.jvp(cubic, xs, v, create_graph=True),
    "vhp": lambda lib, xs, v: lib.vhp(energy, xs, v, create_graph=True),
    "hvp": lambda lib, xs, v: lib.hvp(energy, xs, v, create_graph=True),
    "jacobian": lambda lib, xs, v: lib.jacobian(cubic, xs, create_graph=True),
    "rows at once": lambda lib, xs, v: lib.jacobian(cubic, xs, create_graph=True, vectorize=True),
    "hessian": lambda lib, xs, v: lib.hessian(energy, xs, create_graph=True),
    "hessian at once": lambda lib, xs, v: lib.hessian(energy, xs, create_graph=True, vectorize=True),
    "of a jacobian": lambda lib, xs, v: lib.jacobian(
        lambda x, y: lib.jacobian(cubic, (x, y), create_graph=True)[0][1], xs, create_graph=True
    ),
}


@pytest.mark.parametrize("call", AGAIN.values(), ids=AGAIN)
def test_results_with_a_graph_are_differentiated_again(call: Any) -> None:
    arrays, vector = values(((3,), (3,))), values(((3,), (3,)), 1)

    def gradients(lib: Any, xs: Any, v: Any, grad: Any) -> Any:
        waves = [part.cos().sum() for part in flat(call(lib, (xs[0].sin(), xs[1]), v))]
        return tuple(grad(sum(waves), (*xs, *v), allow_unused=True, materialize_grads=True))

    found = gradients(AF, mine(arrays, True), mine(vector, True), ad.autograd.grad)
    expected = gradients(TF, theirs(arrays, True), theirs(vector, True), torch.autograd.grad)
    assert_same(found, expected, needs_grad=False)


def detached(x: Any) -> Any:
    return x.detach() * 2


def unconnected(x: Any) -> Any:
    return x.long().to(x.dtype).requires_grad_().clone()


def double(x: Any) -> Any:
    return 2 * x


def first_of_two(x: Any, y: Any) -> Any:
    return (x * x).sum()


def product_and_constant(x: Any, y: Any) -> Any:
    return x * x, (y * 2).sum()


def total(function: Any) -> Any:
    """The sum of the function's result, still known by the function's name."""
    return lambda *xs: function(*xs).sum()


ONE, TWO = [(3,)], ((3,), (3,))
# Each call that PyTorch refuses: function, argument sizes, sizes of v (or None), keywords.
STRICT: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "vjp detached": (detached, ONE, ONE, {}),
    "vjp unconnected": (unconnected, ONE, ONE, {}),
    "vjp constant": (double, ONE, ONE, {"create_graph": True}),
    "jvp detached": (detached, ONE, ONE, {}),
    "jvp unconnected": (unconnected, ONE, ONE, {}),
    "jvp constant": (double, ONE, ONE, {"create_graph": True}),
    "jvp unused": (first_of_two, TWO, TWO, {}),
    "vjp unused": (first_of_two, TWO, None, {}),
    "jacobian detached": (detached, ONE, None, {}),
    "jacobian unconnected": (unconnected, ONE, None, {}),
    "jacobian constant": (double, ONE, None, {"create_graph": True}),
    "jacobian unused": (first_of_two, TWO, None, {}),
    "jacobian of one output unused": (product_and_constant, TWO, None, {}),
    "vhp detached": (total(detached), ONE, ONE, {}),
    "vhp unconnected": (total(unconnected), ONE, ONE, {}),
    "vhp linear": (total(double), ONE, ONE, {}),
    "vhp square": (lambda x: (x * x).sum(), ONE, ONE, {"create_graph": True}),
    "vhp unused": (first_of_two, TWO, TWO, {}),
    "hvp detached": (total(detached), ONE, ONE, {}),
    "hvp unconnected": (total(unconnected), ONE, ONE, {}),
    "hvp linear": (total(double), ONE, ONE, {}),
    "hvp square": (lambda x: (x * x).sum(), ONE, ONE, {"create_graph": True}),
    "hvp unused": (first_of_two, TWO, TWO, {}),
    "hessian detached": (total(detached), ONE, None, {}),
    "hessian unconnected": (total(unconnected), ONE, None, {}),
    "hessian linear": (total(double), ONE, None, {}),
    "hessian square": (lambda x: (x * x).sum(), ONE, None, {"create_graph": True}),
    "hessian unused": (first_of_two, TWO, None, {}),
    "jacobian at once": (double, ONE, None, {"vectorize": True}),
    "jacobian forward": (double, ONE, None, {"strategy": "forward-mode"}),
    "hessian at once": (lambda x: (x**3).sum(), ONE, None, {"vectorize": True}),
}


def outcome(lib: Any, make: Any, name: str, function: Any, sizes: Any, vector: Any, options: dict[str, Any]) -> Any:
    """The error of a call, as (kind, text without the library's name), or its result."""
    arguments = [make(values(sizes), True), *([] if vector is None else [make(values(vector, 1))])]
    try:
        return getattr(lib, name)(function, *arguments, **options)
    except (RuntimeError, TypeError, AssertionError) as error:
        text = str(error).replace(" (yet)", "").replace("vectorized=", "vectorize=")
        return type(error), text.replace("torch.", "").replace("adjoint.", "")


@pytest.mark.parametrize("title", STRICT)
def test_strict_refuses_what_pytorch_refuses(title: str) -> None:
    function, sizes, vector, options = STRICT[title]
    arguments = (title.split(maxsplit=1)[0], function, sizes, vector, {**options, "strict": True})
    expected = outcome(TF, theirs, *arguments)
    assert expected[0] is RuntimeError
    assert outcome(AF, mine, *arguments) == expected


@pytest.mark.parametrize("title", [title for title, case in STRICT.items() if set(case[3]) <= {"create_graph"}])
def test_what_strict_refuses_is_zero_otherwise(title: str) -> None:
    function, sizes, vector, options = STRICT[title]
    arguments = (title.split(maxsplit=1)[0], function, sizes, vector, options)
    assert_same(outcome(AF, mine, *arguments), outcome(TF, theirs, *arguments))


def second_is_text(x: Any) -> Any:
    return x, "text"


def a_list(x: Any) -> Any:
    return [x]


def twice(x: Any) -> Any:
    return x.sum(), x.sum()


WRONG: dict[str, tuple[str, Any, Any, Any]] = {  # function's name, function, inputs, v; arrays become tensors
    "vjp inputs": ("vjp", double, (np.ones(2), 2), None),
    "vjp lone input": ("vjp", double, "text", None),
    "vjp list of inputs": ("vjp", double, [1.0], None),
    "vjp outputs": ("vjp", second_is_text, np.ones(2), None),
    "vjp list of outputs": ("vjp", a_list, np.ones(2), None),
    "vjp v missing": ("vjp", double, np.ones(2), None),
    "vjp v of two": ("vjp", double, np.ones(2), (np.ones(2), np.ones(2))),
    "vjp v of one": ("vjp", product_and_constant, (np.ones(2), np.ones(2)), np.ones(2)),
    "vjp v too short": ("vjp", double, np.ones(3), np.ones(2)),
    "vjp entry of v too short": ("vjp", product_and_constant, (np.ones(2), np.ones(2)), (np.ones(2), np.ones(1))),
    "vjp v of text": ("vjp", double, np.ones(3), (np.ones(3), "text")),
    "jvp inputs": ("jvp", double, (np.ones(2), 2), None),
    "jvp outputs": ("jvp", second_is_text, np.ones(2), np.ones(2)),
    "jvp v missing": ("jvp", double, np.ones(2), None),
    "jvp v of two": ("jvp", double, np.ones(2), (np.ones(2), np.ones(2))),
    "jvp v too short": ("jvp", double, np.ones(3), np.ones(2)),
    "jvp lone v": ("jvp", double, np.ones(3), 2.0),
    "jacobian inputs": ("jacobian", double, (np.ones(2), None), None),
    "jacobian outputs": ("jacobian", second_is_text, np.ones(2), None),
    "hessian inputs": ("hessian", double, (np.ones(2), 2), None),
    "hessian outputs": ("hessian", second_is_text, np.ones(2), None),
    "hessian of two outputs": ("hessian", twice, np.ones(2), None),
    "hessian of two elements": ("hessian", double, np.ones(2), None),
    "vhp inputs": ("vhp", double, (np.ones(2), 2), None),
    "vhp outputs": ("vhp", second_is_text, np.ones(2), np.ones(2)),
    "vhp of two outputs": ("vhp", twice, np.ones(2), np.ones(2)),
    "vhp of two elements": ("vhp", double, np.ones(2), np.ones(2)),
    "vhp v missing": ("vhp", total(double), np.ones(2), None),
    "vhp v too short": ("vhp", total(double), np.ones(2), np.ones(3)),
    "vhp v of text": ("vhp", total(double), np.ones(2), (np.ones(2), "text")),
    "hvp of two outputs": ("hvp", twice, np.ones(2), np.ones(2)),
    "hvp of two elements": ("hvp", double, np.ones(2), np.ones(2)),
    "hvp v missing": ("hvp", total(double), np.ones(2), None),
}


@pytest.mark.parametrize("title", WRONG)
def test_mistakes_are_told_in_pytorchs_words(title: str) -> None:
    name, function, inputs, v = WRONG[title]

    def told(lib: Any, tensor: Any) -> tuple[type, str]:
        def made(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(made(entry) for entry in value)
            return tensor(value) if isinstance(value, np.ndarray) else value

        with pytest.raises((RuntimeError, TypeError)) as caught:
            getattr(lib, name)(function, made(inputs), *([] if v is None else [made(v)]))
        return caught.type, str(caught.value).replace("torch.", "").replace("adjoint.", "")

    assert told(AF, ad.tensor) == told(TF, torch.tensor)


@pytest.mark.parametrize(("name", "keyword"), [("jacobian", "strategy"), ("hessian", "outer_jacobian_strategy")])
def test_an_unknown_strategy(name: str, keyword: str) -> None:
    with pytest.raises(AssertionError) as caught:
        getattr(AF, name)(total(double), ad.ones(2), **{keyword: "sideways"})
    with pytest.raises(AssertionError) as expected:
        getattr(TF, name)(total(double), torch.ones(2), **{keyword: "sideways"})
    assert str(caught.value) == str(expected.value)
