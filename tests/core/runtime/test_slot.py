"""Calls upward: which slots there are, and that importing the package fills them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.scripts import output_of

from adjoint.core.runtime.slot import SLOTS, Slot

FILLED_ON_IMPORT = {  # slot: the module whose function `import adjoint` puts there
    "answers": "adjoint",
    "arithmetic": "adjoint",
    "compile": "adjoint",
    "compile_source": "adjoint",
    "dispatch_scope": "adjoint.compat.finder",
    "display": "adjoint",
    "elementwise": "adjoint",
    "explanation": "adjoint",
    "map_in_front": "adjoint",
    "module_name": "adjoint.compat.finder",
    "block_on": "adjoint.core.tensor.shape_tracer",
    "cast": "adjoint.ops.elementwise.select",
    "index_steps": "adjoint.functions.indexing.index_plan",
    "kernel_maker": "adjoint",
    "replay": "adjoint.ops.mutation.view_update",
    "product_tiles": "adjoint",
    "routine": "adjoint",
    "row_kernel": "adjoint",
    "sparse_gradient": "adjoint",
    "sparse_store": "adjoint",
    "sparse_tensor": "adjoint",
    "sparse_zeros": "adjoint",
    "stack_function": "adjoint",
    "uncaught": "adjoint",
    "write": "adjoint.ops.mutation.inplace",
    "write_out": "adjoint.functions.api.out",
}


@pytest.fixture
def slot() -> Slot[Callable[[int], int]]:
    made: Slot[Callable[[int], int]] = Slot("double")
    SLOTS.remove(made)
    return made


def test_an_empty_slot_says_what_to_do(slot: Slot[Callable[[int], int]]) -> None:
    assert not slot.is_filled()
    with pytest.raises(RuntimeError, match="double: import adjoint"):
        slot.call(3)


def test_a_filled_slot_calls_what_is_in_it(slot: Slot[Callable[[int], int]]) -> None:
    @slot.fill
    def double(number: int) -> int:
        return 2 * number

    assert slot.is_filled()
    assert slot.call is double
    assert slot.call(3) == 6
    assert repr(slot) == f"<slot double: {__name__}>"
    slot.empty()
    assert not slot.is_filled()
    assert repr(slot) == "<slot double: empty>"


def test_a_default_is_called_until_the_slot_is_filled() -> None:
    slot: Slot[Callable[[int], int]] = Slot("triple", lambda number: number)
    SLOTS.remove(slot)
    assert slot.call(3) == 3
    assert not slot.is_filled()
    slot.fill(lambda number: 3 * number)
    assert slot.call(3) == 9
    slot.empty()
    assert slot.call(3) == 3


@pytest.mark.needs_processes
def test_importing_the_package_fills_the_slots() -> None:
    program = (
        "import adjoint\n"
        "from adjoint.core.runtime.slot import SLOTS\n"
        "print([(s.name, s.call.__module__) for s in SLOTS if s.default is None or s.is_filled()])"
    )
    assert dict(eval(output_of(program))) == FILLED_ON_IMPORT
