"""The gradients that a program puts into `.grad`: its own tensors, used again from call to call while nobody keeps one.

In native code a few ns for each, where Python takes 100.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from sys import getrefcount
from types import SimpleNamespace
from typing import Protocol

import numpy as np

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I32, I64, PTR, U8
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.core.tensor.tensor import Tensor

API_FUNCTIONS = ("Py_IncRef", "Py_DecRef")
# The plan is an array of words: the addresses of True, False, None and these functions; then the number of gradients,
# and for each its tensor, the tensor's array, the most references to the array, the address of the `.grad` where it
# belongs, and -1, or that field's offset and the number of the argument; then the number of all `.grad` that are not
# those of arguments, and for each its address and what belongs there.
TRUE, FALSE, NONE, INCREF, DECREF, GRADIENT_COUNT, HEAD_WORDS = range(7)
TENSOR, ARRAY, ARRAY_REFERENCES, PLACE, ARGUMENT, GRADIENT_WORDS = range(6)
PLACE_WORDS = 2


class OwnedGradient(Protocol):
    """The holder of the only lasting reference to a gradient's tensor."""

    tensor: Tensor


def count_array_references(owned: OwnedGradient) -> int:
    """Return how many references lead to a gradient's array: all of them are the program's own, if none was placed."""
    return getrefcount(owned.tensor.array)


def make_gradient_slots(
    gradients: Sequence[tuple[OwnedGradient, int]], places: Sequence[tuple[Tensor | int, OwnedGradient | None]]
) -> tuple[Callable[..., bool | None], Callable[[], None]]:
    """Return two functions: whether nobody else keeps a gradient, of a call's arguments; and one that places all.

    The first gives False if somebody does, else True; or None if they also lie in their places. `gradients`: each with
    its array's own references; `places`: for each tensor, or argument by its number, what belongs into its `.grad`.
    Arguments get theirs from the caller, who also keeps alive all that is named here.
    """
    owners = {id(owned): owner for owner, owned in places if owned is not None}
    slots = cpython_layout.find_slot_offsets()
    if slots is None:
        return _make_python_slots(gradients, places, owners)
    words: list[int] = [id(True), id(False), id(None), *api_addresses(API_FUNCTIONS), len(gradients)]
    for owned, references in gradients:
        owner = owners[id(owned)]
        place = (slots.grad, owner) if isinstance(owner, int) else (id(owner) + slots.grad, -1)
        words += (id(owned.tensor), id(owned.tensor.array), references - 1, *place)  # 1: the argument of getrefcount
    fixed = [(owner, owned) for owner, owned in places if not isinstance(owner, int)]
    words.append(len(fixed))
    for owner, gradient in fixed:
        words += (id(owner) + slots.grad, id(None if gradient is None else gradient.tensor))
    plan = struct.pack(f"{len(words)}q", *words)
    return _module.function("adjoint_are_free", (plan,)), _module.function("adjoint_place", (plan,))


def _make_python_slots(
    gradients: Sequence[tuple[OwnedGradient, int]],
    places: Sequence[tuple[Tensor | int, OwnedGradient | None]],
    owners: dict[int, Tensor | int],
) -> tuple[Callable[..., bool | None], Callable[[], None]]:
    """Return the same functions in Python: the first never tells that all lie in their places."""

    def are_free(*arguments: Tensor) -> bool | None:
        for owned, references in gradients:
            owner = owners[id(owned)]
            placed = (arguments[owner] if isinstance(owner, int) else owner)._grad is owned.tensor
            if getrefcount(owned.tensor) - placed > UNSHARED_REFCOUNT or count_array_references(owned) > references:
                return False
            owned.tensor.storage_ = None  # a new gradient was never written
        return True

    def place() -> None:
        for owner, owned in places:
            if not isinstance(owner, int):
                owner._grad = None if owned is None else owned.tensor

    return are_free, place


def text() -> str:
    """The module of the two functions that Python calls."""
    slots = cpython_layout.find_slot_offsets()
    assert slots is not None
    b = Builder()
    one, zero = b.constant(1, I32), b.constant(0, I32)
    with b.function("is_free", [PTR, PTR], BOOL) as (gradient, args):
        tensor, number = b.argument(gradient, TENSOR), b.number(gradient, ARGUMENT)
        with b.when(b.ge(number, 0), [b.argument(gradient, PLACE)]) as given:
            given.yields(b.gep(b.argument(args, number), b.number(gradient, PLACE), U8))
        placed = b.select(b.eq(b.load(given.results[0], PTR), tensor), one, zero)
        array = b.argument(gradient, ARRAY)
        b.return_if(b.ne(b.field(tensor, slots.array, PTR), array), b.constant(False, BOOL))
        most = b.cast(b.number(gradient, ARRAY_REFERENCES), I32)
        unshared = b.le(b.load(tensor, I32), b.add(placed, 1))  # the program's own reference, and that of `.grad`
        b.returns(b.logical_and(unshared, b.le(b.load(array, I32), most)))
    with b.function("put", [PTR, PTR, PTR], unwinds=True) as (plan, slot, value):
        old = b.load(slot, PTR)
        with b.when(b.ne(old, value)):
            b.call(b.argument(plan, INCREF), [value])
            b.store(value, slot)
            b.call(b.argument(plan, DECREF), [old])  # last: it may run Python
    with b.function("find_answer", [PTR, PTR], PTR, unwinds=True) as (plan, args):
        with b.loop(0, b.number(plan, GRADIENT_COUNT), carried=[b.gep(plan, HEAD_WORDS, PTR)]) as gradients:
            (gradient,) = gradients.carried
            b.return_if(b.logical_not(b.call("is_free", [gradient, args], BOOL)), b.argument(plan, FALSE))
            storage = b.gep(b.argument(gradient, TENSOR), slots.storage, U8)
            b.call("put", [plan, storage, b.argument(plan, NONE)])  # a new gradient was never written
            gradients.yields(b.gep(gradient, GRADIENT_WORDS, PTR))
        (rest,) = gradients.results
        with b.loop(0, b.number(rest, 0), carried=[b.gep(rest, 1, PTR)]) as places:
            (place,) = places.carried
            lies = b.eq(b.load(b.argument(place, 0), PTR), b.argument(place, 1))
            b.return_if(b.logical_not(lies), b.argument(plan, TRUE))
            places.yields(b.gep(place, PLACE_WORDS, PTR))
        b.returns(b.argument(plan, NONE))
    with b.function("adjoint_are_free", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        plan = b.gep(b.field(bound, cpython_layout.ITEMS, PTR), cpython_layout.CONTENTS, U8)
        answer = b.call("find_answer", [plan, args], PTR)
        b.call(b.argument(plan, INCREF), [answer])
        b.returns(answer)
    with b.function("adjoint_place", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, _, _2):
        plan = b.gep(b.field(bound, cpython_layout.ITEMS, PTR), cpython_layout.CONTENTS, U8)
        rest = b.gep(plan, b.add(b.mul(b.number(plan, GRADIENT_COUNT), GRADIENT_WORDS), HEAD_WORDS), PTR)
        with b.loop(0, b.number(rest, 0), carried=[b.gep(rest, 1, PTR)]) as places:
            slot, value = b.argument(places.carried[0], 0), b.argument(places.carried[0], 1)
            b.call("put", [plan, slot, value])
            places.yields(b.gep(places.carried[0], PLACE_WORDS, PTR))
        none = b.argument(plan, NONE)
        b.call(b.argument(plan, INCREF), [none])
        b.returns(none)
    return b.text()


_probe = SimpleNamespace(tensor=Tensor(np.zeros(1)))
UNSHARED_REFCOUNT = getrefcount(_probe.tensor)  # as Pythons count differently what they hold for themselves
_module = NativeModule("gradient slots", text)
