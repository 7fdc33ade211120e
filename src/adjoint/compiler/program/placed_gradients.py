"""The gradients that a program places into `.grad`, and new memory for those that somebody keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.passes.memory_plan import aligned_array
from adjoint.compiler.runtime.gradient_slots import count_array_references, make_gradient_slots
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array


class BoundBuffer:
    """Memory that stays where it is from call to call, until it is replaced: values that share it share this object."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


class GradientSlot:
    """A gradient's tensor, used again from call to call as long as nobody else holds it."""

    __slots__ = ("buffer", "tensor", "value")  # no other reference to the tensor lasts, but that of a `.grad`

    def __init__(self, value: Value) -> None:
        self.value = value
        self.tensor: Tensor = wrap(aligned_array(value))
        self.buffer = BoundBuffer(self.tensor.array)

    def replace_gradient(self, array: Array | None = None) -> None:
        """New memory: the old belongs to the user now."""
        self.tensor = wrap(aligned_array(self.value) if array is None else array)
        self.buffer.array = self.tensor.array


class GradientMemory(Protocol):
    """The memory of a program, and of its gradients."""

    gradients: list[GradientSlot]

    def renew_gradient(self, k: int) -> None: ...

    def rebind_storage(self, names: dict[str, object]) -> None: ...


class PlacedGradients:
    """The gradients of a program. `are_free(*arguments)` and `place()` are those of `make_gradient_slots`.

    `stored`: for each tensor, or argument by its number, the value that its `.grad` is to have.
    """

    __slots__ = ("_references", "are_free", "binding", "place", "stored")
    are_free: Callable[..., bool | None]
    place: Callable[[], None]

    def __init__(self, binding: GradientMemory, stored: list[tuple[Tensor | int, Value | None]]) -> None:
        self.binding, self.stored = binding, stored
        self._references: list[int] = []

    def watch(self) -> None:
        """Count the references to the gradients' memory, all of them the program's own, and watch them from now on."""
        self._references = [count_array_references(slot) for slot in self.binding.gradients]
        if self.stored:
            self._make_slots()

    def _make_slots(self) -> None:
        slots = iter(self.binding.gradients)
        places = [(place, None if v is None else next(slots)) for place, v in self.stored]
        owned = [*zip(self.binding.gradients, self._references, strict=True)]
        self.are_free, self.place = make_gradient_slots(owned, places)

    def renew(self, arguments: tuple[Tensor, ...], names: dict[str, object]) -> None:
        """Give new memory to the gradients that somebody keeps, and bring the operands in `names` up to date."""
        owners = [arguments[x] if isinstance(x, int) else x for x, v in self.stored if v is not None]
        for k, (slot, references) in enumerate(zip(self.binding.gradients, self._references, strict=True)):
            if make_gradient_slots([(slot, references)], [(owners[k], slot)])[0]() is False:
                self.binding.renew_gradient(k)
        self.binding.rebind_storage(names)
        self._make_slots()

    def renew_all(self) -> None:
        """Leave the memory of all gradients to whoever has it."""
        for k in range(len(self.binding.gradients)):
            self.binding.renew_gradient(k)
