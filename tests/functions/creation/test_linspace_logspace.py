"""`linspace`, `logspace` and `range` against PyTorch, and the grids made of `linspace`: PyTorch's bits."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.oracle import same, same_error, torch

import adjoint as ad
from adjoint.nn import functional as F

ENDS = [
    (-1, 1, 28), (0, 1, 64), (1e-4, 0.02, 1000), (-3.14159, 3.14159, 2000), (2, 6, 65), (0, 10, 7), (1, 0, 9),
    (0, 10, 1), (0, 10, 0), (3, 3, 4), (-5, 5, 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("ends", ENDS)
def test_linspace_has_the_same_bits(ends: tuple[float, float, int], kind: str) -> None:
    ours = ad.linspace(*ends, dtype=getattr(ad, kind)).numpy()
    theirs = torch.linspace(*ends, dtype=getattr(torch, kind)).numpy()
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("aligned", [False, True])
def test_the_identity_of_a_spatial_transformer_has_the_same_gradient(aligned: bool) -> None:
    """Each place of the grid stands on an element, where the last bit decides which neighbours it lies between."""
    image = np.random.default_rng(0).standard_normal((2, 1, 28, 28)).astype(np.float32)
    found = []
    for t, f in ((ad, F), (torch, torch.nn.functional)):
        theta = t.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2).requires_grad_()
        grid = f.affine_grid(theta, (2, 1, 28, 28), align_corners=aligned)
        out = f.grid_sample(t.tensor(image), grid, align_corners=aligned)
        out.pow(2).sum().backward()
        found.append((grid.detach().numpy(), theta.grad.numpy()))
    (grid, gradient), (same_grid, same_gradient) = found
    np.testing.assert_array_equal(grid, same_grid)
    np.testing.assert_allclose(gradient, same_gradient, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("expression", [
    "t.logspace(0, 2, 3)", "t.logspace(0, 2, 3, base=2, dtype=t.int64)", "t.logspace(0, 2, 0)",
    "t.logspace(1, 2, 1)", "t.logspace(-1, 1.5, 7, 3.0, dtype=t.float64)", "t.logspace(2, 0, 4)",
    "t.logspace(0, 2, 3, 2, dtype=t.complex64)", "t.logspace(t.tensor(0.0), t.tensor(2.0), 4)",
    "t.logspace(0, 2, 3, out=t.empty(3, dtype=t.float64))", "t.logspace(0, 2, 3, requires_grad=True)",
    "t.range(0, 5)", "t.range(1, 2, 0.25)", "t.range(3, 1, -1)", "t.range(0, 3, dtype=t.int64)",
    "t.range(0, 0.9999)", "t.range(0, 3, out=t.empty(4, dtype=t.int64))",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.logspace(0, 2, -1)", "number of steps must be non-negative"),
        ("t.range(5)", 'range() missing 1 required positional arguments: "end"'),
        ("t.range(3, 1)", "upper bound and lower bound inconsistent with step sign"),
        ("t.range(1, 3, 0)", "step must be nonzero"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head)


def test_range_is_deprecated() -> None:
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated"):
        ad.range(0, 1)


@pytest.mark.parametrize(("start", "end", "expected"), [(0, 1.2, [1, 2, 4, 10]), (4.3, 1.2, [10_000, 1_000, 100, 10])])
def test_ratios_of_integers_lie_between_whole_powers(start: float, end: float, expected: list[int]) -> None:
    for kind in (ad.uint8, ad.int16, ad.int32, ad.int64):
        if max(expected) <= ad.iinfo(kind).max:
            assert ad.logspace(start, end, 4, dtype=kind).tolist() == expected


@pytest.mark.parametrize("kind", [ad.float32, ad.float64, ad.int64])
@pytest.mark.parametrize("function", [ad.linspace, ad.logspace])
def test_each_example_of_a_batch_has_ends_of_its_own(function: Callable[..., ad.Tensor], kind: ad.dtype) -> None:
    first, last = ad.tensor([0.0, 1.5]), ad.tensor([2.0, 4.0])
    ends = ad.tensor(3.0)
    for given in ((first, last), (first, 3.0), (1, last), (first, ends), (ends, last)):
        dims = tuple(0 if isinstance(x, ad.Tensor) and x.ndim else None for x in given)
        mapped = ad.vmap(lambda a, b: function(a, b, 5, dtype=kind), in_dims=dims)(*given)
        for i in range(2):
            alone = [x[i] if d == 0 else x for x, d in zip(given, dims, strict=True)]
            assert mapped[i].tolist() == function(*alone, 5, dtype=kind).tolist()


def test_ends_of_batches_within_batches() -> None:
    first, last = ad.tensor([0.0, 1.0]), ad.tensor([2.0, 4.0, 6.0])
    found = ad.vmap(lambda a: ad.vmap(lambda b: ad.linspace(a, b, 3))(last))(first)
    assert found.tolist() == [[[a, (a + b) / 2, b] for b in last.tolist()] for a in first.tolist()]
