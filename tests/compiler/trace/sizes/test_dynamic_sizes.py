"""Which sizes become symbols: those that differ, those that are marked, none that the step needs as a number."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import _dynamo
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, is_symbolic_number
from adjoint.compiler.trace.signature import Signature, VaryingIntegers
from adjoint.compiler.trace.sizes.argument_sizes import ArgumentSizes
from adjoint.compiler.trace.sizes.dynamic_sizes import MAX_SYMBOLIC_PROGRAMS, DynamicSizes
from adjoint.core.runtime import pytree


def key_of(*arguments: Any) -> Any:
    leaves, structure = pytree.flatten((arguments, {}))
    return VaryingIntegers().make_key(leaves, structure)[0]


@pytest.mark.parametrize(
    ("dynamic", "second", "chosen"),
    [
        (None, (5, 3), {}),
        (None, (6, 3), {0: (0,)}),
        (None, (6, 4), {0: (0, 1)}),
        (None, (1, 4), {0: (1,)}),
        (False, (6, 4), {}),
        (True, (5, 3), {0: (0, 1)}),
        (True, (0, 3), {0: (1,)}),
    ],
)
def test_dimensions_that_differ(dynamic: bool | None, second: tuple[int, int], chosen: Any) -> None:
    sizes, x, y = DynamicSizes(dynamic), ad.ones(5, 3), ad.ones(*second)
    sizes.note_program(key_of(x), Signature(), [])
    assert sizes.choose_dims(key_of(y), [y]) == chosen


def test_what_the_step_needs_and_what_is_marked() -> None:
    sizes, x, y = DynamicSizes(), ad.ones(5, 3), ad.ones(6, 4)
    sizes.note_program(key_of(x), Signature(), [])
    sizes.note_static(key_of(y), [(0, 1)])
    assert sizes.choose_dims(key_of(y), [y]) == {0: (0,)}
    _dynamo.mark_static(y, 0)
    assert sizes.choose_dims(key_of(y), [y]) == {}
    _dynamo.mark_dynamic(x, 0)
    _dynamo.maybe_mark_dynamic(x, 1)
    assert sizes.choose_dims(key_of(x), [x]) == {0: (0,)}
    assert sizes.find_refused_marks([x], [(0, 0), (0, 1)]) == [(0, 0)]


def test_programs_with_symbols_serve_the_sizes_without_one() -> None:
    sizes, signature = DynamicSizes(), Signature()
    assert sizes.find_signature(key_of(ad.ones(6, 3))) is None
    step = ad.compile(lambda x: x * 2, dynamic=True)
    step(ad.ones(5, 3))
    program = step._program()
    sizes.note_program(key_of(ad.ones(4, 3)), Signature(), [])
    sizes.note_program(key_of(ad.ones(5, 3)), signature, [program])
    assert program.own_sizes == {(4, 3)}
    assert sizes.find_signature(key_of(ad.ones(6, 3))) is signature
    assert sizes.find_signature(key_of(ad.ones(6))) is None
    assert not sizes.is_full(signature)
    signature.entries = [None] * MAX_SYMBOLIC_PROGRAMS  # type: ignore[list-item]
    assert sizes.is_full(signature)
    assert not sizes.is_full(Signature())


def test_the_sizes_of_arguments_are_found_anew_in_each_call() -> None:
    arithmetic = NumberArithmetic()
    sizes = ArgumentSizes(arithmetic)
    (n, three), (same,) = sizes.make_shape((5, 3), 0, 0, [0]), sizes.make_shape((5,), 1, 1, [0])
    assert n is same
    assert three == 3
    assert arithmetic.sources[0].code(str) == "x0.array.shape[0]"
    assert is_symbolic_number(n / 2)
    assert (n / 2).value == 2.5
    sizes.check_symbols()
    assert n < 100
    sizes.check_symbols()
    with pytest.raises(RuntimeError, match="only one number") as raised:
        range(n)
    assert raised.value.places == ((0, 0), (1, 0))  # type: ignore[attr-defined]


def test_a_number_that_other_arithmetic_settles_is_no_symbol() -> None:
    sizes = ArgumentSizes(NumberArithmetic())
    (n,) = sizes.make_shape((5,), 0, 0, [0])
    assert int(n / 2) == 2
    with pytest.raises(RuntimeError, match="only one number"):
        sizes.check_symbols()
