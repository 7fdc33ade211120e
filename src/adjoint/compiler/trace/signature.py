"""The signature of a call's arguments, which selects its program, and the arguments that each call brings anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from adjoint.core.dtype.device import device
from adjoint.core.graph.node import Leaf
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.trace.events.step_events import Outcome
    from adjoint.compiler.trace.frames.sources import Source
    from adjoint.core.runtime.pytree import Structure
    from adjoint.core.typing import Operand


# The arguments' structure, what selects a program of each leaf, which share memory, and the modes.
SignatureKey: TypeAlias = tuple["Structure", tuple[Any, ...], tuple[int, ...], bool | str, object]


BRANCHES_OF_INTEGERS_COMPILED_AT_ONCE = 4  # ways through the decisions that integers among the arguments take
BRANCHES_COMPILED_AT_ONCE = 8  # ways through the decisions of a step; any other when it comes for the second time
MAX_BRANCHES = 32  # that are compiled at all
EVENTS_OF_LONG_WAY = 8  # from which on ways are as many as calls: few come again
MAX_TRACES_THAT_SERVE_NO_OTHER_CALL = 4  # of a step that asks for values
CALLS_PER_FURTHER_WAY = 8  # that programs have served before one more long way, or one more size, is compiled
MAX_FAILURES = 3  # traces, one after another, that raise what the step does not: then it runs eagerly
MISSES_BEFORE_REST, CALLS_BETWEEN_TRIALS = 16, 8  # calls whose way has no program, one after another
MAX_COUNTED_PATHS = 1_000  # ways without a program that are remembered


class Signature:
    """The programs for one signature of arguments, newest last, and how often it was traced."""

    __slots__ = (
        "dynamic_sources", "eager", "entries", "failures", "is_asking", "looks_into_texts", "misses", "paths", "served",
        "traces",
    )  # fmt: skip

    def __init__(self) -> None:
        self.entries: list[CompiledEntry | StagedEntry] = []
        self.is_asking = False  # some entry is one path among the decisions of the step
        self.traces = self.misses = 0
        self.failures = 0  # traces, one after another, that raised an error which the step itself does not
        self.served = 0  # calls that had gone some way, when it was last asked whether they rest
        self.paths: dict[object, int] = {}  # how often ways came for which there is no program
        self.looks_into_texts = False  # of numbers that each call computes: these are settled for a text
        self.eager = False  # it could not be compiled, or was traced too often: from now on it runs as it is
        self.dynamic_sources: dict[object, Source] = {}  # places of numbers that changed, and became inputs

    def note_failure(self) -> str:
        """Count a trace that raised an error which the step itself does not; tell how the step runs."""
        self.failures += 1
        self.eager = self.failures >= MAX_FAILURES
        return f"runs eagerly from now on, after {MAX_FAILURES} errors" if self.eager else "ran eagerly"

    def has_served(self) -> bool:
        """Return whether a program ran in another call than that for which it was made, if it asks for values."""
        return not self.is_asking or any(getattr(entry, "taken", 2) > 1 for entry in self.entries)

    def rests(self) -> bool:
        """True for most calls of a step that went ways without a program, one call after another: to try costs time."""
        served = sum(getattr(entry, "taken", 0) for entry in self.entries)
        if served != self.served:  # calls that went the way of the last one do not come here
            self.served, self.misses = served, 0
        if self.misses < MISSES_BEFORE_REST:
            return False
        self.misses += 1
        return bool(self.misses % CALLS_BETWEEN_TRIALS)

    def only_decides_otherwise(self, given: list[Operand]) -> bool:
        """True if the integers of a call answer a question otherwise than those of few programs: `if i % 4 == 0`."""
        programs = [program for entry in self.entries for program in entry.programs[:1]]
        few = len(programs) < BRANCHES_OF_INTEGERS_COMPILED_AT_ONCE
        return few and all(program.takes_other_branch(given) for program in programs)

    def may_trace(self, log: list[Outcome]) -> bool:
        """False where the step runs eagerly unless a program fits: a way that comes once may never come again."""
        if self.eager or not (self.is_asking and log):
            return not self.eager
        longest = max(len(getattr(entry, "events", ())) for entry in self.entries) if self.entries else 0
        if longest >= EVENTS_OF_LONG_WAY or log[-1].kind == "returned":  # a result of another size
            served = sum(getattr(entry, "taken", 0) for entry in self.entries)
            if len(self.entries) >= 2 + served // CALLS_PER_FURTHER_WAY:
                self.misses += 1
                return False
        if len(self.entries) < BRANCHES_COMPILED_AT_ONCE:
            return True
        self.misses += 1
        from adjoint.compiler.trace.events.step_events import describe_path

        path = describe_path(log)
        self.paths[path] = self.paths.get(path, 0) + 1
        if len(self.paths) > MAX_COUNTED_PATHS:
            del self.paths[next(iter(self.paths))]
        return len(self.entries) < MAX_BRANCHES and self.paths.get(path, 0) > 1


def shapes_of(key: SignatureKey) -> dict[int, tuple[int, ...]]:
    """Return the shapes of the leaves that are tensors."""
    return {i: leaf[0] for i, leaf in enumerate(key[1]) if _is_tensor_key(leaf)}


def without_sizes(key: SignatureKey) -> object:
    """Return a key that calls share which differ in nothing but sizes."""
    ranks = tuple([(len(leaf[0]), *leaf[1:]) if _is_tensor_key(leaf) else leaf for leaf in key[1]])
    return key[0], ranks, *key[2:]


def _is_tensor_key(leaf: object) -> bool:
    return isinstance(leaf, tuple) and len(leaf) == 4


class VaryingIntegers:
    """Tells the ints among the arguments that were not always the same: from then on each call brings its own."""

    def __init__(self) -> None:
        self._integers: dict[object, dict[int, int | None]] = {}  # by structure; None for one that varies

    def make_key(self, leaves: list[object], structure: Structure) -> tuple[SignatureKey, list[Operand]]:
        """The key of the programs for these arguments, and the tensors and numbers that a program takes."""
        return self._make_key(leaves, structure, self._varying_numbers(leaves, structure))

    def make_fixed_key(self, leaves: list[object], structure: Structure) -> tuple[SignatureKey, list[Operand]]:
        """The same of programs that were made for these very integers, when none of them had varied yet."""
        return self._make_key(leaves, structure, set())

    @staticmethod
    def _make_key(leaves: list[object], structure: Structure, varying: set[int]) -> tuple[SignatureKey, list[Operand]]:
        given = [x for i, x in enumerate(leaves) if isinstance(x, Tensor) or type(x) is float or i in varying]
        # Of lists: a tuple that grows fails where another thread asks the collector for what refers to its elements.
        kinds = tuple([int if i in varying else _argument_key(x) for i, x in enumerate(leaves)])
        first: dict[int, int] = {}  # for each tensor the number of the first one with the same memory
        aliases = tuple([first.setdefault(id(x.array), i) if isinstance(x, Tensor) else i for i, x in enumerate(given)])
        recording = "inference" if mode.inference else mode.recording
        return (structure, kinds, aliases, recording, mode.autocast), given

    def learn(self, leaves: list[object], structure: Structure) -> None:
        """Take note of the integers among the arguments of a call that runs as it is."""
        self._varying_numbers(leaves, structure)

    def _varying_numbers(self, leaves: list[object], structure: Structure) -> set[int]:
        integers = {i: x for i, x in enumerate(leaves) if type(x) is int}
        if not integers:
            return set()
        known = self._integers.setdefault(structure, dict(integers))
        for i, x in integers.items():
            if known.get(i, x) != x:
                known[i] = None
        return {i for i in integers if known.get(i) is None}


def _argument_key(leaf: object) -> object:
    """Return the facts about an argument that select a program: all but a tensor's values and a float."""
    if isinstance(leaf, Tensor):
        # a parameter may be met again as state: each has a program of its own
        hooked = type(leaf.node) is Leaf and leaf.node.hooks is not None  # hooks are the tensor's own
        alike = type(leaf) is Tensor and not hooked
        return leaf.array.shape, leaf.array.dtype, leaf.node is not None, 0 if alike else id(leaf)
    if type(leaf) is float:
        return float
    if type(leaf) is device:
        return device, str(leaf)  # where CUDA means the CPU, devices of different names are equal
    if isinstance(leaf, np.ndarray):
        raise TypeError(
            "a compiled step was given an ndarray, whose values would be frozen into it: pass a tensor "
            "(adjoint.from_numpy)"
        )
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return type(leaf), leaf
