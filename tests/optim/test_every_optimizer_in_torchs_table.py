"""Each input of PyTorch's own table of optimizers: a hundred steps, the state, and the errors are PyTorch's."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.optimizer_twins import to_torch

import adjoint as ad

torch = pytest.importorskip("torch")
table = pytest.importorskip("torch.testing._internal.common_optimizers")

ROUGH = {"Muon": 2e-3}  # its matrices are bfloat16: what rounds there to the other side shows
ROUGH_SLOPES = {"Adam": 1e-5, "AdamW": 1e-5, "NAdam": 1e-6}  # there PyTorch counts the steps, and 1 - βᵗ, in float32
SHAPES: list[tuple[int, ...]] = [(3, 4), (5,), (), (2, 3, 4), (1, 1)]
STEPS = 100
INPUTS = [
    pytest.param(info.optim_cls.__name__, given.kwargs, id=f"{info.optim_cls.__name__} {given.desc}")
    for info in table.optim_db
    if not info.only_supports_sparse_grads
    for given in info.optim_inputs_func("cpu", torch.float64)
]
ERRORS = [
    pytest.param(info.optim_cls.__name__, given, id=f"{info.optim_cls.__name__} {given.optimizer_error_input.desc}")
    for info in table.optim_db
    for given in info.optim_error_inputs_func("cpu", torch.float64)
]
COMPLEX = [info.optim_cls.__name__ for info in table.optim_db if info.supports_complex]
DIFFERENTIABLE = [info.optim_cls.__name__ for info in table.optim_db if "differentiable" in info.supported_impls]
each = pytest.mark.parametrize(("name", "options"), INPUTS)


class Walk:
    """Parameters of one library, and the optimizer that moves them towards (0, 1, 2, …) / 10 along noisy gradients."""

    def __init__(self, library: Any, name: str, options: dict[str, Any], dtype: str = "float64") -> None:
        rng = np.random.default_rng(3)
        shapes = [(3, 4), (4, 2), (1, 1)] if name == "Muon" else SHAPES
        kept = options if library is torch else {k: translated(v) for k, v in options.items()}
        self.library = library
        self.params = [library.tensor(_numbers(rng, shape, dtype), requires_grad=True) for shape in shapes]
        self.optimizer = getattr(library.optim, name)(self.params, **copy.deepcopy(kept))
        self.noise = np.random.default_rng(4)

    def loss(self) -> Any:
        self.optimizer.zero_grad()
        total = sum(
            (abs(p - self.library.arange(p.numel()).reshape(p.shape) / 10) ** 2).sum() * (i + 1)
            for i, p in enumerate(self.params)
        )
        total.backward()
        return total

    def step(self) -> None:
        if isinstance(self.optimizer, self.library.optim.LBFGS):
            self.optimizer.step(self.loss)
            return
        self.loss()
        with self.library.no_grad():
            for p in self.params:
                noise = 1 + 0.3 * self.noise.normal(size=tuple(p.shape))
                p.grad.mul_(self.library.tensor(np.asarray(noise)).to(p.grad.dtype))
        self.optimizer.step()

    def values(self) -> list[Any]:
        return [p.detach().numpy().copy() for p in self.params]


def _numbers(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    real = np.asarray(rng.normal(size=shape))
    return (real + 1j * rng.normal(size=shape) if dtype.startswith("complex") else real).astype(dtype)


def translated(value: Any, known: dict[int, Any] | None = None) -> Any:
    """An argument with our tensors for PyTorch's, and for the same one the same."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, torch.Tensor):
        found = ad.tensor(value.detach().numpy(), requires_grad=value.requires_grad)
        found.grad = None if value.grad is None else ad.tensor(value.grad.numpy())
        known[id(value)] = ad.nn.Parameter(found) if isinstance(value, torch.nn.Parameter) else found
        return known[id(value)]
    if isinstance(value, dict):
        return {key: translated(item, known) for key, item in value.items()}
    return type(value)(translated(item, known) for item in value) if type(value) in (list, tuple) else value


def same(ours: list[Any], theirs: list[Any], tolerance: float) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def same_state(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    """The two state dicts, to their dtypes and shapes."""
    assert ours["state"].keys() == theirs["state"].keys()
    for number, entries in theirs["state"].items():
        found = to_torch(torch, ours["state"][number])
        assert found.keys() == entries.keys()
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(
                    found[key], value, rtol=tolerance, atol=tolerance, msg=lambda m, key=key: f"{key}: {m}"
                )
    groups = copy.deepcopy(theirs["param_groups"])
    for mine, group in zip(ours["param_groups"], groups, strict=True):
        assert mine.keys() == group.keys()
        for key, value in group.items():
            assert mine[key] == (translated(value) if isinstance(value, torch.Tensor) else value), key


@pytest.mark.sweep(3)
@each
def test_a_hundred_steps(name: str, options: dict[str, Any]) -> None:
    ours, theirs = Walk(ad, name, options), Walk(torch, name, options)
    tolerance = ROUGH.get(name, 1e-12)
    for k in range(3 if name == "LBFGS" else STEPS):
        ours.step()
        theirs.step()
        if k < 3:
            same(ours.values(), theirs.values(), tolerance)
    same(ours.values(), theirs.values(), tolerance)
    same_state(ours.optimizer.state_dict(), theirs.optimizer.state_dict(), tolerance)
    assert repr(ours.optimizer) == repr(theirs.optimizer)


@pytest.mark.sweep(2)
@each
def test_state_goes_both_ways(name: str, options: dict[str, Any]) -> None:
    tolerance = ROUGH.get(name, 1e-12)
    for first, second in ((ad, torch), (torch, ad)):
        source, target, expected = Walk(first, name, options), Walk(second, name, options), Walk(torch, name, options)
        for _ in range(3):
            source.step()
            expected.step()
        expected.optimizer.load_state_dict(copy.deepcopy(expected.optimizer.state_dict()))  # it casts some numbers
        state = source.optimizer.state_dict()
        target.optimizer.load_state_dict(to_torch(torch, state) if first is ad else state)
        with second.no_grad():
            for p, value in zip(target.params, source.values(), strict=True):
                p.copy_(second.tensor(value))
        target.noise = source.noise
        for _ in range(3):
            target.step()
            expected.step()
        same(target.values(), expected.values(), tolerance)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters(name: str) -> None:
    ours, theirs = Walk(ad, name, {}, "complex128"), Walk(torch, name, {}, "complex128")
    for _ in range(1 if name == "LBFGS" else 10):
        ours.step()
        theirs.step()
    same(ours.values(), theirs.values(), 1e-11)
    same_state(ours.optimizer.state_dict(), theirs.optimizer.state_dict(), 1e-11)


@pytest.mark.parametrize(("name", "given"), ERRORS)
def test_errors(name: str, given: Any) -> None:
    params, options = given.optimizer_error_input.params, given.optimizer_error_input.kwargs
    if "requires dense" in given.error_regex:
        pytest.skip("the table's sparse parameters: tests/functions/sparse")
    params = translated([torch.ones(2, 2, requires_grad=True)] if params is None else params)
    if given.error_type is UserWarning:
        with pytest.warns(UserWarning, match=given.error_regex):
            getattr(ad.optim, name)(params, **options)
        return
    options = translated(options)
    if given.error_on is table.OptimizerErrorEnum.CONSTRUCTION_ERROR:
        assert_raises(given.error_type, given.error_regex, lambda: getattr(ad.optim, name)(params, **options))
        return
    optimizer = getattr(ad.optim, name)(params, **options)
    assert_raises(given.error_type, given.error_regex + ": parameter 0 of its group", optimizer.step)


def test_sparse_adam_refuses() -> None:
    p = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SparseAdam([("table", p)])
    optimizer.step()
    p.grad = ad.ones(2)
    assert_raises(RuntimeError, r"SparseAdam does not support dense gradients.*parameter 'table'", optimizer.step)
    assert_raises(ValueError, "Invalid learning rate: 0", ad.optim.SparseAdam, [p], lr=0)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize(
    "options", [{}, {"maximize": True}, {"weight_decay": 0.1}], ids=["default", "maximize", "decay"]
)
def test_a_recorded_step_has_pytorchs_gradients(name: str, options: dict[str, Any]) -> None:
    if name == "Rprop" and "weight_decay" in options:
        pytest.skip("Rprop has no weight decay")
    slopes = []
    for library in (ad, torch):
        start = library.tensor([1.0, 2.0, -0.7], dtype=library.float64, requires_grad=True)
        gradient = library.tensor([0.5, -1.5, 0.25], dtype=library.float64, requires_grad=True)
        p = start.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch reads .grad of a tensor that is no leaf
            optimizer = getattr(library.optim, name)([p], lr=0.1, differentiable=True, **options)
            p.retain_grad()
            p.grad = gradient * 1.0
            optimizer.step()
        result = (p**3).sum() + sum(
            (value**2).sum()
            for key, value in optimizer.state[p].items()
            if isinstance(value, library.Tensor) and value.requires_grad
        )
        found = library.autograd.grad(result, [start, gradient], allow_unused=True)
        slopes.append([np.zeros(3) if g is None else g.numpy() for g in found])
    same(slopes[0], slopes[1], ROUGH_SLOPES.get(name, 1e-10))


@pytest.mark.parametrize(
    ("name", "options", "given"),
    [
        ("Adam", {"amsgrad": True}, {"step": 10.0, "exp_avg": 0.3, "exp_avg_sq": 0.6, "max_exp_avg_sq": 0.5}),
        ("AdamW", {"amsgrad": True}, {"step": 10.0, "exp_avg": 0.3, "exp_avg_sq": 0.6, "max_exp_avg_sq": 0.8}),
        ("ASGD", {}, {"step": 10.0, "eta": 0.9, "mu": 1.0, "ax": 0.4}),
    ],
)
def test_a_recorded_step_has_gradients_for_its_state(
    name: str, options: dict[str, Any], given: dict[str, float]
) -> None:
    slopes = []
    for library in (ad, torch):

        def of(value: float, requires_grad: bool = True, library: Any = library) -> Any:
            return library.tensor([value, 2 * value], dtype=library.float64, requires_grad=requires_grad)

        start, gradient = of(0.7), of(-0.4)
        single = ("step", "eta", "mu")
        state = {k: library.tensor(v, dtype=library.float64) if k in single else of(v) for k, v in given.items()}
        p = start.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch reads .grad of a tensor that is no leaf
            p.retain_grad()
            p.grad = gradient
            optimizer = getattr(library.optim, name)([p], lr=0.9, differentiable=True, **options)
            optimizer.state[p].update({k: v.clone() for k, v in state.items()})
            optimizer.step()
        kept = [v for v in optimizer.state[p].values() if v.requires_grad]
        inputs = [start, gradient, *(v for v in state.values() if v.requires_grad)]
        found = library.autograd.grad((p**2).sum() + sum((v**3).sum() for v in kept), inputs, allow_unused=True)
        slopes.append([np.zeros(2) if g is None else g.numpy() for g in found])
    same(slopes[0], slopes[1], 1e-10)


@pytest.mark.parametrize("name", sorted({*DIFFERENTIABLE} - {"Rprop", "ASGD"}))  # whose rate is read once
def test_several_recorded_steps_follow_the_rate(name: str) -> None:
    """d(loss) / d(lr) through three steps, against finite differences."""

    def after(lr: Any) -> Any:
        p = ad.tensor([1.0, 2.0, -0.7], dtype=ad.float64, requires_grad=True) * 1.0
        optimizer = getattr(ad.optim, name)([p], lr=lr, differentiable=True)
        for _ in range(3):
            p.retain_grad()
            (p.grad,) = ad.autograd.grad((p.clone() ** 3).sum(), [p], create_graph=True)
            optimizer.step()
        return (p**2).sum()

    lr = ad.tensor(0.05, dtype=ad.float64, requires_grad=True)
    slope: Any = ad.autograd.grad(after(lr), [lr])[0]
    low, high = (after(0.05 + h).item() for h in (-1e-6, 1e-6))
    assert slope.item() == pytest.approx((high - low) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("name", sorted({info.optim_cls.__name__ for info in table.optim_db} - {"SparseAdam", "LBFGS"}))
def test_no_gradient_is_no_step(name: str) -> None:
    p = ad.ones(2, 2, requires_grad=True)
    optimizer = getattr(ad.optim, name)([p])
    optimizer.step()
    assert p.tolist() == [[1, 1], [1, 1]]
    assert not optimizer.state[p] or name == "Adagrad"


def test_signatures_are_pytorchs() -> None:
    import inspect

    for info in table.optim_db:
        name = info.optim_cls.__name__
        ours, theirs = (inspect.signature(getattr(lib.optim, name)) for lib in (ad, torch))
        assert [(p.name, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.kind) for p in theirs.parameters.values()
        ], name
        for mine, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
            assert mine.default == other.default, (name, mine.name)


def test_all_names_are_there() -> None:
    swapping = "swap_in_optimizer_params_and_state"  # of tensors that stand for others while PyTorch exports a program
    assert set(torch.optim.__all__) - set(ad.optim.__all__) == {swapping}
    assert set(torch.optim.lr_scheduler.__all__) == set(ad.optim.lr_scheduler.__all__)
    assert set(torch.optim.swa_utils.__all__) == set(ad.optim.swa_utils.__all__)
