"""distributed.interface.placements: values that say how a tensor would lie on ranks."""

import importlib
from typing import Any

import pytest

from adjoint.distributed.interface.placements import Partial, Placement, Replicate, Shard, StridedShard

EVERY = [
    (Shard(0), "Shard(dim=0)", "S(0)", (True, False, False)),
    (Shard(-1), "Shard(dim=-1)", "S(-1)", (True, False, False)),
    (StridedShard(1, split_factor=2), "StridedShard(dim=1, split_factor=2)", "_S(1, 2)", (True, False, False)),
    (Replicate(), "Replicate()", "R", (False, True, False)),
    (Partial(), "Partial(reduce_op='sum')", "P(sum)", (False, False, True)),
    (Partial("max"), "Partial(reduce_op='max')", "P(max)", (False, False, True)),
]


@pytest.mark.parametrize(("placement", "shown", "short", "kinds"), EVERY)
def test_a_placement_is_a_value_that_prints(placement: Placement, shown: str, short: str, kinds: tuple[bool]) -> None:
    assert (repr(placement), str(placement)) == (shown, short)
    assert (placement.is_shard(), placement.is_replicate(), placement.is_partial()) == kinds
    assert [placement == other for other, *_ in EVERY].count(True) == 1
    assert len({placement, *(other for other, *_ in EVERY)}) == len(EVERY)


def test_questions_about_a_dimension_and_a_reduction() -> None:
    assert Shard(1).is_shard(1)
    assert not Shard(1).is_shard(0)
    assert Partial("avg").is_partial("avg")
    assert not Partial("avg").is_partial("sum")


@pytest.mark.parametrize("home", ["tensor", "_tensor", "tensor.placement_types", "_tensor.placement_types"])
def test_programs_find_them_where_pytorch_has_them(home: str) -> None:
    module: Any = importlib.import_module(f"adjoint.distributed.{home}")
    assert (module.Shard, module.Replicate, module.Partial) == (Shard, Replicate, Partial)
    with pytest.raises(NotImplementedError, match="tensors lie on one rank"):
        module.DTensor()
