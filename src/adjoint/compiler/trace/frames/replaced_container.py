"""Lists and dicts that a step replaces by new ones: each call finds their parts by the place, whatever is there.

`self.hidden = [h.detach(), c.detach()]` leaves another list after each call.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from adjoint.compiler.trace.frames.container_snapshot import MUTABLE, elements
from adjoint.compiler.trace.frames.sources import (
    MISSING,
    ContentsSource,
    DerivedSource,
    ItemSource,
    NameOf,
    PartSource,
    Source,
)
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjoint.compiler.trace.frames.observations import ObservedRead, ObservedWrite


class ReplacedContainers:
    """The places of the lists and dicts that a step read in one place, left as they were, and replaced by new ones."""

    def __init__(self, reads: Sequence[ObservedRead] = (), writes: Sequence[ObservedWrite] = ()) -> None:
        changed = {id(write.place.holder) for write in writes}
        self._places: dict[int, tuple[object, Source]] = {}  # by id: the container, which is kept alive, and its place
        for write in writes:
            place, before = write.place, write.before
            if isinstance(place, ContentsSource) or type(before) not in (list, dict) or id(before) in changed:
                continue
            flat = not any(isinstance(part, MUTABLE) for part in elements(before))
            alone = [read.place for read in reads if read.value is before] == [place]
            if flat and alone and type(place.read()) is type(before) and place.read() is not before:
                self._places[id(before)] = before, place

    def has(self, value: object) -> bool:
        """True for one of the containers."""
        return id(value) in self._places

    def is_within(self, place: Source) -> bool:
        """True for an item of one of the containers, or all its contents."""
        return isinstance(place, (ItemSource, ContentsSource)) and self.has(place.holder)

    def find(self, place: Source) -> Source:
        """Return the place as each call finds it."""
        if type(place) is PartSource:
            return PartSource(self.find(place.holder), place.name)
        if type(place) is ItemSource and self.has(place.holder):
            return PartSource(self._places[id(place.holder)][1], place.name)
        return place


class PartsSource(DerivedSource):
    """The kind and the parts of the list or dict that lies in the place `holder`, as a tuple."""

    __slots__ = ()
    holder: Source

    @property
    def what(self) -> str:
        """`attribute 'hidden' of Model`."""
        return self.holder.what

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the place around."""
        return type(self), self.holder.key

    def read(self) -> object:
        return parts_of(self.holder.read())

    def expression(self, name: NameOf) -> str:
        """`parts_of(o.hidden)`."""
        return f"{name(parts_of)}({self.holder.expression(name)})"


def read_tensor(place: Source) -> Operand:
    """Return the tensor that is in a place now; None if there is none."""
    found = place.read()
    return found if type(found) is Tensor else None


def parts_of(container: Operand) -> object:
    """Return the kind and the parts of a list or dict; MISSING for anything else."""
    if type(container) is list:
        return (list, *container)
    return (dict, *chain(*container.items())) if type(container) is dict else MISSING
