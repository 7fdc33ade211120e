"""The sizes of arguments that become symbols: those that differ from one call to another, as in torch.compile.

The first size of an argument's dimension is a program of its own. With the second it is a symbol, and the program
serves all sizes from then on for which its guards hold. A symbol for which the step needs one number is none: that
dimension stays static. Sizes of 0 and 1 always are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.ir.size_terms import MIN_SYMBOL
from adjoint.compiler.trace.signature import MAX_BRANCHES, shapes_of, without_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adjoint.compiler.program.program import Program
    from adjoint.compiler.trace.signature import Signature, SignatureKey

MAX_SYMBOLIC_PROGRAMS = 4  # for arguments that are alike but for sizes: guards may cut these into ranges
MAX_COMPARED_SIZES = 16  # of programs for one size, with which later calls are compared

# the attributes of tensors in which PyTorch keeps marks of dimensions
MUST_BE_DYNAMIC, MAY_BE_DYNAMIC = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices"
STATIC = "_dynamo_static_indices"

Place = tuple[int, int]  # a leaf of the arguments, and a dimension of it
Shapes = dict[int, tuple[int, ...]]  # of the leaves that are tensors


class SizeFamily:
    """Calls that differ in nothing but sizes: the programs for one size, and those for many."""

    def __init__(self, seen: list[Shapes]) -> None:
        self.seen = seen  # sizes that have programs of their own, be it for other integers among the arguments
        self.sizes: list[Shapes] = []  # that have programs of their own
        self.static: set[Place] = set()  # dimensions of which the step needs one number
        self.signature: Signature | None = None  # of the programs with symbols


class DynamicSizes:
    """The families of a compiled function; `dynamic`: as `compile` takes it, None to wait for a second size."""

    def __init__(self, dynamic: bool | None = None) -> None:
        self.dynamic = dynamic
        self._families: dict[object, SizeFamily] = {}
        self._seen: dict[object, list[Shapes]] = {}

    def find_signature(self, key: SignatureKey) -> Signature | None:
        """Return the signature of programs that may serve a size which has none of its own."""
        if self.dynamic is False:
            return None
        signature = self._family(key).signature
        return None if signature is None or signature.eager else signature

    def is_full(self, signature: Signature) -> bool:
        """True if there are as many programs with symbols as there may be."""
        shared = any(family.signature is signature for family in self._families.values())
        most = MAX_BRANCHES if signature.is_asking else MAX_SYMBOLIC_PROGRAMS
        return shared and len(signature.entries) >= most

    def choose_dims(self, key: SignatureKey, leaves: Sequence[object]) -> dict[int, tuple[int, ...]]:
        """Return the dimensions of each leaf that are to be symbols in a trace for this call.

        `leaves`: the arguments, of which `torch._dynamo.mark_dynamic` and `mark_static` may have marked some.
        """
        if self.dynamic is False:
            return {}
        family, found = self._family(key), dict[int, tuple[int, ...]]()
        for i, shape in shapes_of(key).items():
            others = [] if shapes_of(key) in family.sizes else [sizes[i] for sizes in family.seen]
            asked = _marks_of(leaves[i], MUST_BE_DYNAMIC) | _marks_of(leaves[i], MAY_BE_DYNAMIC)
            static = _marks_of(leaves[i], STATIC) | {d for leaf, d in family.static if leaf == i}
            varies = {d for d, n in enumerate(shape) if self.dynamic or any(other[d] != n for other in others)}
            found[i] = tuple(d for d in sorted((asked | varies) - static) if shape[d] >= MIN_SYMBOL)
        return {i: dims for i, dims in found.items() if dims}

    def begins_symbols(self, key: SignatureKey, leaves: Sequence[object]) -> bool:
        """True if a trace for this call has the first symbols of its family, so that further sizes need none."""
        return self._family(key).signature is None and bool(self.choose_dims(key, leaves))

    @staticmethod
    def find_refused_marks(leaves: Sequence[object], places: Iterable[Place]) -> list[Place]:
        """Return those of the places that must be symbols, as the user has marked them."""
        return [(i, d) for i, d in places if d in _marks_of(leaves[i], MUST_BE_DYNAMIC)]

    def note_static(self, key: SignatureKey, places: Iterable[Place]) -> None:
        """Remember that a step needs one number of these dimensions."""
        self._family(key).static.update(places)

    def note_program(self, key: SignatureKey, signature: Signature, programs: Sequence[Program]) -> None:
        """Note the programs for this size, or one with symbols: it leaves alone the sizes that have their own."""
        family = self._family(key)
        known = (program.graph.sizes for program in programs)
        if sizes := next((sizes for sizes in known if sizes is not None and sizes.places), None):
            family.signature = signature
            for shapes in family.sizes:
                programs[0].own_sizes.add(tuple(shapes[leaf][d] for (leaf, d), *_ in sizes.places.values()))
        elif len(family.sizes) < MAX_COMPARED_SIZES:
            family.sizes.append(shapes_of(key))
            family.seen.append(shapes_of(key))

    def _family(self, key: SignatureKey) -> SizeFamily:
        family = self._families.get(kind := without_sizes(key))
        if family is None:
            leaves = tuple([int if type(leaf) is tuple and leaf[0] is int else leaf for leaf in key[1]])
            alike = without_sizes((key[0], leaves, (), *key[3:]))
            family = self._families[kind] = SizeFamily(self._seen.setdefault(alike, []))
        return family


def _marks_of(leaf: object, mark: str) -> set[int]:
    return set(getattr(leaf, mark, ()))
