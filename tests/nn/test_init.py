"""First values against PyTorch: number for number from the same seed."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.errors import errors_of
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn

CALLS = [
    "uniform_(w)", "uniform_(w, -2.0, 3.0)", "normal_(w)", "normal_(w, 1.0, 0.5)", "constant_(w, 1.5)", "ones_(w)",
    "zeros_(w)", "xavier_uniform_(w)", "xavier_uniform_(w, gain=2.0)", "xavier_normal_(w)", "xavier_normal_(w, 0.5)",
    "kaiming_uniform_(w)", "kaiming_uniform_(w, a=5**0.5)", "kaiming_uniform_(w, mode='fan_out', nonlinearity='relu')",
    "kaiming_normal_(w)", "kaiming_normal_(w, mode='fan_out', nonlinearity='tanh')",
    "kaiming_normal_(w, 0.2, nonlinearity='selu')",
]  # fmt: skip
SHAPES = [(3, 4), (5, 2, 3), (40, 20), (2, 3, 4, 5)]


def drawn(library: Any, call: str, shape: Any, dtype: str) -> Any:
    library.manual_seed(11)
    w = library.nn.Parameter(library.empty(*shape, dtype=getattr(library, dtype)))
    result = eval(f"init.{call}", {"init": library.nn.init, "w": w, "lib": library})
    assert result is w
    assert w.requires_grad
    return w.detach().numpy()


OF_SOME_SHAPES = [
    *(("eye_(w)", shape) for shape in ((3, 3), (2, 4), (4, 2))),
    ("dirac_(w)", (3, 4, 5)), ("dirac_(w, 2)", (4, 2, 5, 3)), ("dirac_(w)", (4, 2, 5, 3, 3)), ("dirac_(w)", (2, 4, 2)),
    *product(("sparse_(w, 0.3)", "sparse_(w, 1.0)", "sparse_(w, 0.0, std=2.0)"), ((10, 5), (3, 20))),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("call", "shape"), [*product(CALLS, SHAPES), *OF_SOME_SHAPES])
def test_same_numbers(call: str, shape: Any, dtype: str) -> None:
    np.testing.assert_array_equal(drawn(ad, call, shape, dtype), drawn(torch, call, shape, dtype), strict=True)


@pytest.mark.parametrize("call", [
    "trunc_normal_(w)", "trunc_normal_(w, std=0.02)", "trunc_normal_(w, 0.5, 1.0, 0.0, 1.0)",
    "trunc_normal_(w, 0.0, 1.0, 1.5, 3.0)", "trunc_normal_(w, 0.0, 1.0, -0.1, 0.2)",
])  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES)
def test_trunc_normal(call: str, shape: Any) -> None:
    np.testing.assert_allclose(
        drawn(ad, call, shape, "float32"), drawn(torch, call, shape, "float32"), rtol=2e-6, atol=1e-7
    )


def test_trunc_normal_stays_inside_and_warns_far_outside() -> None:
    w = nn.init.trunc_normal_(ad.empty(1000), a=-0.5, b=1.0)
    assert -0.5 <= w.min().item() <= w.max().item() <= 1.0
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        nn.init.trunc_normal_(ad.empty(10), mean=5.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal(shape: Any) -> None:
    ours = drawn(ad, "orthogonal_(w, gain=2.0)", shape, "float64")
    flat = ours.reshape(shape[0], -1)
    gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)
    np.testing.assert_allclose(ours, drawn(torch, "orthogonal_(w, gain=2.0)", shape, "float64"), atol=1e-12)


def test_generator() -> None:
    for call in ("uniform_", "normal_", "xavier_uniform_", "kaiming_normal_", "trunc_normal_", "orthogonal_"):
        ours, theirs = (
            getattr(t.nn.init, call)(t.empty(4, 6), generator=t.Generator().manual_seed(5)).numpy() for t in (ad, torch)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_gains_and_fans() -> None:
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    for shape in SHAPES:
        fans = nn.init._calculate_fan_in_and_fan_out(ad.empty(*shape))
        assert fans == torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(*shape))


@pytest.mark.parametrize(("call", "shape"), [
    ("xavier_uniform_(w)", (3,)), ("kaiming_normal_(w)", (3,)), ("eye_(w)", (3,)), ("orthogonal_(w)", (3,)),
    ("kaiming_uniform_(w, mode='fan')", (3, 3)), ("calculate_gain('swish')", (1,)),
])  # fmt: skip
def test_errors_in_the_same_words(call: str, shape: Any) -> None:
    ours, theirs = errors_of(lambda library: drawn(library, call, shape, "float32"), ad, torch)
    assert (type(ours), str(ours)) == (type(theirs), str(theirs)) == (ValueError, str(ours))


def test_nothing_to_draw() -> None:
    with pytest.warns(UserWarning, match="zero-element tensors"):
        nn.init.kaiming_uniform_(ad.empty(0, 3))
    assert nn.init.orthogonal_(ad.empty(0, 3)).numel() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("dirac_(lib.empty(3, 3))", "Only tensors with 3, 4, or 5 dimensions are supported"),
        ("dirac_(lib.empty(3, 2, 2), 2)", "dim 0 must be divisible by groups"),
        ("sparse_(lib.empty(3), 0.1)", "Only tensors with 2 dimensions are supported"),
        ("eye_(lib.empty(3))", "Only tensors with 2 dimensions are supported"),
        ("calculate_gain('leaky_relu', True)", "negative_slope True not a valid number"),
        ("calculate_gain('leaky_relu', 'a')", "negative_slope a not a valid number"),
        ("calculate_gain('none')", "Unsupported nonlinearity none"),
    ],
)
def test_errors_are_pytorchs(call: str, message: str) -> None:
    for library in (ad, torch):
        with pytest.raises(ValueError, match=message):
            eval(f"lib.nn.init.{call}", {"lib": library})


@pytest.mark.parametrize(("old", "shape"), [
    *((f"{name}(w)", (4, 3)) for name in ("uniform", "normal", "eye", "xavier_uniform", "xavier_normal")),
    *((f"{name}(w)", (4, 3)) for name in ("kaiming_uniform", "kaiming_normal", "orthogonal")),
    ("constant(w, 2)", (4, 3)), ("sparse(w, 0.4)", (4, 3)), ("dirac(w)", (4, 3, 2)),
])  # fmt: skip
def test_old_names_warn(old: str, shape: Any) -> None:
    name = old.partition("(")[0]
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
        given = drawn(ad, old, shape, "float32")
    np.testing.assert_array_equal(given, drawn(ad, old.replace("(", "_(", 1), shape, "float32"))
