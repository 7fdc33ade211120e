"""Kinds of equations: the same for all turns of a loop, whatever place they read, and for nothing else."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.passes.loops.equation_kinds import EquationKinds, move_places

GRAPH = Graph.parse("""graph step
  %0: f32[8,9] = argument 0
  %1: f32[8] = select(%0, axis=1, at=3)
  %2: f32[8] = select(%0, axis=1, at=4)
  %3: f32[9] = select(%0, axis=0, at=4)
  %4: f32[8,2] = slice(%0, bounds=((0, 8, 1), (2, 4, 1)))
  %5: f32[8,2] = slice(%0, bounds=((0, 8, 1), (4, 6, 1)))
  %6: f32[8] = mul(%1, 0.0)
  %7: f32[8] = mul(%1, -0.0)
  %8: f32[8] = mul(%2, 0.0)
  return %8""")
EQUATIONS = GRAPH.equations


def kind(i: int) -> object:
    return EquationKinds().kind_of(EQUATIONS[i - 1])[0]


def test_places_are_told_apart_from_the_kind() -> None:
    assert kind(1) == kind(2) != kind(3)
    assert kind(4) == kind(5)
    assert EquationKinds().kind_of(EQUATIONS[1])[1] == [4]
    assert EquationKinds().kind_of(EQUATIONS[4])[1] == [0, 8, 1, 4, 6, 1]


def test_numbers_are_told_apart_by_their_digits() -> None:
    assert kind(6) != kind(7)
    assert kind(6) == kind(8)


def test_places_are_put_back() -> None:
    for value in EQUATIONS[:5]:
        _, places = EquationKinds().kind_of(value)
        assert move_places(value, [7, *places, 8], 1) == (value.params, 1 + len(places))
    moved, _ = move_places(EQUATIONS[3], [0, 8, 1, 6, 8, 1], 0)
    assert moved == {"bounds": ((0, 8, 1), (6, 8, 1))}


def test_a_kind_without_shape_is_that_of_longer_operands() -> None:
    graph = Graph.parse("""graph step
  %0: f32[2,3] = argument 0
  %1: f32[4,3] = cat(%0, %0, axis=0)
  %2: f32[6,3] = cat(%0, %0, %0, axis=0)
  %3: f32[2,6] = cat(%0, %0, axis=1)
  return %3""")
    kinds = EquationKinds()
    first, second, third = map(kinds.kind_without_shape, graph.equations)
    assert first == second != third
