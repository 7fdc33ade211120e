"""Losses, embedding and one_hot against PyTorch: values, gradients, errors."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, tensor
from tests.support.second_gradients import same_second_gradients

import adjoint as ad
import adjoint.nn.functional as F

RNG = np.random.default_rng(4)
REDUCTIONS = ["mean", "sum", "none"]


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("call", [
    "mse_loss(x, y", "l1_loss(x, y", "smooth_l1_loss(x, y", "smooth_l1_loss(x, y, beta=0.3",
    "smooth_l1_loss(x, y, beta=0",
    "huber_loss(x, y", "huber_loss(x, y, delta=0.4", "binary_cross_entropy_with_logits(x, y",
    "binary_cross_entropy_with_logits(x, y, y.detach().abs()",
    "binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()",
    "binary_cross_entropy(x.sigmoid(), y.sigmoid()", "binary_cross_entropy(x.sigmoid(), y.sigmoid(), w.detach()",
])  # fmt: skip
def test_elementwise(call: str, reduction: str, dtype: Any) -> None:
    x, y, w = (normal(3, 4, dtype=dtype) * 2 for _ in range(3))
    same(f"t.nn.functional.{call}, reduction={reduction!r})", x=x, y=y, w=np.abs(w[0]), factor=10)
    same(
        f"t.nn.functional.{call}, reduction={reduction!r})", x=x[0, 0, ...], y=y[0, 0, ...], w=np.abs(w)[0, 0, ...],
        factor=10,
    )  # fmt: skip


def test_equal_inputs_have_no_gradient() -> None:
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        same(f"t.nn.functional.{name}(x, y)", x=np.ones((2, 3)), y=np.ones((2, 3)))


def test_saturated_probabilities() -> None:
    p, y = np.array([0.0, 1.0, 0.0, 1.0, 0.5]), np.array([0.0, 1.0, 1.0, 0.0, 0.5])
    # PyTorch rounds the 1e-12 in the gradient to float32
    same("t.nn.functional.binary_cross_entropy(p, y.detach(), reduction='none')", p=p, y=y, factor=1e5)
    x = np.array([-1000.0, -50.0, 0.0, 50.0, 1000.0])
    same("t.nn.functional.binary_cross_entropy_with_logits(x, y.detach(), reduction='none')", x=x, y=y)


def test_size_warning_and_legacy_arguments() -> None:
    x, y = ad.zeros(3), ad.ones(2, 1)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match=r"target size \(.*2, 1.* is different to the input size \(.*\[3\]"):
            assert loss(x, y, reduction="none").shape == (2, 3)
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.mse_loss(x, ad.ones(3), size_average=False).item() == 3.0
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.l1_loss(x, ad.ones(3), reduce=False).shape == (3,)
    with pytest.warns(UserWarning, match="please use reduction='mean' instead"):
        assert F.nll_loss(ad.zeros(2, 3), ad.tensor([0, 1]), size_average=True).item() == 0.0


def test_elementwise_errors() -> None:
    for call in ("mse_loss(x, z)", "l1_loss(x, z)", "huber_loss(x, x, delta=0.0)", "smooth_l1_loss(x, x, beta=-1.0)",
                 "binary_cross_entropy(x, z)", "binary_cross_entropy_with_logits(x, z)",
                 "mse_loss(x, x, reduction='no')"):  # fmt: skip
        same(f"t.nn.functional.{call}", x=normal(2, 3), z=normal(4))


TARGETS: list[Any] = [
    (normal(5, 4), np.array([0, 3, 1, 2, 3])), (normal(4), np.array(2)),
    (normal(2, 3, 4), RNG.integers(0, 3, (2, 4))), (normal(2, 3, 2, 2), RNG.integers(0, 3, (2, 2, 2))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(TARGETS)))
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("settings", ["", ", weight=w.detach()", ", ignore_index=1", ", w.detach(), ignore_index=2"])
def test_classes(case: int, reduction: str, settings: str) -> None:
    x, y = TARGETS[case]
    w = np.abs(normal(x.shape[0 if x.ndim == 1 else 1])) + 0.1
    same(f"t.nn.functional.nll_loss(x, y{settings}, reduction={reduction!r})", x=x, y=y, w=w, factor=10)
    for smoothing in ("", ", label_smoothing=0.2"):
        call = f"t.nn.functional.cross_entropy(x, y{settings}, reduction={reduction!r}{smoothing})"
        same(call, x=x, y=y, w=w, factor=10)
        same(call, x=x.astype(np.float32), y=y, w=w.astype(np.float32), factor=10)


@pytest.mark.parametrize(
    ("reduction", "settings", "smoothing"), [*product(REDUCTIONS, ["", ", w.detach()"], [0.0, 0.3])]
)
@pytest.mark.parametrize("shape", [(5, 4), (4,), (2, 4, 3)])
def test_class_probabilities(shape: Any, reduction: str, settings: str, smoothing: float) -> None:
    y = (
        RNG.dirichlet(np.ones(4), (2, 3)).transpose(0, 2, 1)
        if len(shape) == 3
        else RNG.dirichlet(np.ones(4), shape[:-1])
    )
    call = f"t.nn.functional.cross_entropy(x, y{settings}, reduction={reduction!r}, label_smoothing={smoothing})"
    same(call, x=normal(*shape), y=y, w=np.abs(normal(4)), factor=10)


def test_all_ignored() -> None:
    same("t.nn.functional.cross_entropy(x, y)", x=normal(2, 3), y=np.full(2, -100), gradient=False)
    same("t.nn.functional.cross_entropy(x, y, reduction='sum')", x=normal(2, 3), y=np.full(2, -100))


def test_extreme_logits() -> None:
    same("t.nn.functional.cross_entropy(x, y)", x=np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]]), y=np.array([0, 0]))


def test_class_errors() -> None:
    x = normal(2, 3)
    same_error("t.nn.functional.nll_loss(x[0, 0], y)", "Expected 1 or more dimensions (got 0)", x=x, y=np.array(0))
    same_error("t.nn.functional.cross_entropy(x, y)", "Target 7 is out of bounds", x=x, y=np.array([0, 7]))
    same_error("t.nn.functional.nll_loss(x, y)", "Target -1 is out of bounds", x=x, y=np.array([0, -1]))
    both = "t.nn.functional.nll_loss(x, y)", "t.nn.functional.cross_entropy(x, y)"
    for loss in both:
        same_error(loss, "0D or 1D target tensor expected, multi-target not supported", x=x, y=np.zeros((2, 2), int))
    same_error("t.nn.functional.cross_entropy(x, y)", "Expected input batch_size (2) to match target batch_size (3)",
               x=x, y=np.array([0, 1, 1]))  # fmt: skip
    head = "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [2]"
    same_error("t.nn.functional.cross_entropy(x, y, w)", head, x=x, y=np.array([0, 1]), w=normal(2))
    for call in ("cross_entropy(x, y.float())", "cross_entropy(x, y, reduction='all')",
                 "cross_entropy(x.sum(), y)", "cross_entropy(x, y.bool())"):  # fmt: skip
        same(f"t.nn.functional.{call}", x=x, y=np.array([0, 1]))


def test_cross_entropy_is_what_its_name_says() -> None:
    x = tensor(ad, normal(3, 4))
    y = ad.tensor([1, 0, 3])
    expected = -np.log(np.exp(x.detach().numpy()) / np.exp(x.detach().numpy()).sum(1, keepdims=True))[
        range(3), y.numpy()
    ]
    np.testing.assert_allclose(F.cross_entropy(x, y, reduction="none").detach().numpy(), expected, rtol=1e-12)


def test_second_derivative() -> None:
    call = "t.nn.functional.cross_entropy(x, t.tensor([0, 2, 1, 1]))"
    same_second_gradients(call, 10, x=normal(4, 3))


@pytest.mark.parametrize("padding", ["None", "1", "-1"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_embedding(shape: Any, padding: str) -> None:
    indices = np.asarray(RNG.integers(0, 5, shape))
    same(f"t.nn.functional.embedding(i, w, {padding})", i=indices, w=normal(5, 4), gradient=bool(indices.size))


def test_embedding_repeats_add_up() -> None:
    same("t.nn.functional.embedding(i, w, padding_idx=2)", i=np.array([[1, 1, 2], [2, 1, 0]], np.int32), w=normal(3, 2))


def test_embedding_errors() -> None:
    for bad in (5, -1):
        same_error(
            "t.nn.functional.embedding(i, w)", "index out of range in self", i=np.array([0, bad]), w=normal(5, 4)
        )
    same("t.nn.functional.embedding(x, w)", x=normal(2), w=normal(5, 4))


def test_one_hot_of_as_many_classes_as_a_tensor_says() -> None:
    assert F.one_hot(ad.tensor([1]), ad.tensor(3)).tolist() == [[0, 1, 0]]


def test_one_hot() -> None:
    same("t.nn.functional.one_hot(i)", i=np.array([[0, 2], [1, 2]]))
    same("t.nn.functional.one_hot(i, 5)", i=np.array([0, 2, 4]))
    for call in ("one_hot(i, 2)", "one_hot(i - 3)"):
        with pytest.raises(RuntimeError, match="Class values must be non-negative"):
            eval(f"F.{call}", {"F": F, "i": ad.tensor([0, 2])})


def test_probabilities_outside_0_and_1_are_refused() -> None:
    loss = ad.nn.functional.binary_cross_entropy
    for bad in (1.5, -0.1, float("nan")):
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            loss(ad.tensor([0.5, bad]), ad.tensor([0.0, 1.0]))
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            ad.compile(loss)(ad.tensor([0.5, bad]), ad.tensor([0.0, 1.0]))


def test_targets_of_cosine_embedding_are_one_per_pair() -> None:
    loss = ad.nn.functional.cosine_embedding_loss
    with pytest.raises(RuntimeError, match="0D or 1D target tensor expected"):
        loss(ad.ones(3, 2), ad.ones(3, 2), ad.ones(3, 1))
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D input tensors"):
        loss(ad.ones(2), ad.ones(2), ad.ones(2))


@pytest.mark.parametrize(("truths", "message"), [
    (ad.tensor([0, 1]), "Found dtype Long but expected Float"),
    (ad.tensor([True, False]), "Found dtype Bool but expected Float"),
    (ad.tensor([0.0, 1.0], dtype=ad.float64), "Found dtype Double but expected Float"),
    (ad.tensor([0.0, 2.0]), "all elements of target should be between 0 and 1"),
])  # fmt: skip
def test_truths_of_another_type_or_range_are_refused(truths: ad.Tensor, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.binary_cross_entropy(ad.tensor([0.25, 0.5]), truths)
