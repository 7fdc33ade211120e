"""`associative_scan`: running sums of any associative function, against loops."""

from __future__ import annotations

from typing import Any

import pytest
from adjoint.func.scan import associative_scan
from tests.support.checks import raises

import adjoint as ad


def loop(combine: Any, xs: list[Any]) -> list[Any]:
    done = xs[:1]
    for x in xs[1:]:
        done.append(combine(done[-1], x))
    return done


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_matrices(n: int, reverse: bool) -> None:
    x = ad.randn(2, n, 3, 3, dtype=ad.float64, requires_grad=True)
    parts = list(x.unbind(1))
    wanted = ad.stack(loop(ad.matmul, parts[::-1])[::-1] if reverse else loop(ad.matmul, parts), 1)
    found = associative_scan(ad.matmul, x, 1, reverse, "generic")
    ad.testing.assert_close(found, wanted)
    weight = ad.randn_like(wanted)
    (by_scan,) = ad.autograd.grad((found * weight).sum(), x)
    (by_loop,) = ad.autograd.grad((wanted * weight).sum(), x)
    ad.testing.assert_close(by_scan, by_loop)


def test_a_recurrence_as_a_pair() -> None:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    a, b = ad.rand(2, 3, 7, dtype=ad.float64), ad.rand(2, 3, 7, dtype=ad.float64)
    h, states = ad.zeros(2, 3, dtype=ad.float64), []
    for i in range(7):
        h = a[..., i] * h + b[..., i]
        states.append(h)
    ad.testing.assert_close(associative_scan(combine, (a, b), -1)[1], ad.stack(states, -1))


def test_what_is_refused() -> None:
    raises(ValueError, "Combine_mode", lambda: associative_scan(ad.add, ad.ones(3), 0, combine_mode="other"))
    raises(ValueError, "tree of tensors", lambda: associative_scan(ad.add, [], 0))
