"""The origins of values: the ops of the first passes with their operands, those of data too, which no node records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FrameType

import numpy as np

from adjoint.core.graph.source_location import InstructionLocation, library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_instruction

FLOW_PASSES = 2
MAX_STEPS = 4096  # of the flow
MAX_FLOW_BYTES = 1 << 26
MAX_WALKED = 400
DIGITS = 5  # after the point, of numbers that programs write
MODULE_CALLS = frozenset({"_wrapped_call_impl", "_call_impl", "_watched_call"})
# of functions that are published, and of operators, which their op tells of
WRAPPERS = frozenset(
    {"call", "convert", "call_as_operator", "_call_as_operator", "apply", "apply_general", "_apply_slow"}
)
DRAWS = frozenset({"normal", "uniform"})
# Functions whose result is a term as it is.
WHOLE_TERMS = frozenset({"log_prob", "entropy", "cosine_similarity"})
# Ops whose result grows with each operand, and is as many times as large if they are.
SUMS = frozenset({"add", "mean", "sum", "stack", "cat", "cast"})


@dataclass(frozen=True, eq=False)
class Made:
    """The making of a tensor: the op, its operands, the user's instruction, and the function that it called."""

    out: Tensor
    op: str
    family: str
    inputs: Operands
    location: InstructionLocation
    function: str

    @cached_property
    def place(self) -> Place:
        """The user's line."""
        return place_of_instruction(self.location)

    @property
    def name(self) -> str:
        """The function that the user called, or the op within a module."""
        return self.op if not self.function or self.function in MODULE_CALLS else self.function

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The operands that are tensors."""
        return [x for x in self.inputs if isinstance(x, Tensor)]


@dataclass(frozen=True)
class LossTerm:
    """A part of a sum, with the sign that it has there, and how it was made; None for data from elsewhere."""

    sign: int
    value: Tensor
    made: Made | None
    factor: float = 1.0  # that each of its elements has in the sum, where numbers and counts tell it


class ValueFlow:
    """The ops of the first passes, by their results."""

    def __init__(self) -> None:
        self.steps: dict[int, Made] = {}
        self.by_array: dict[int, Made] = {}  # which detached tensors share
        self.by_operand: dict[int, list[Made]] = {}  # the ops that had an array as an operand
        self.operands: dict[int, set[int]] = {}  # the arrays of each op
        # what was looked for since the last op, by the ids of the values that it begins with
        self.walks: dict[tuple[int, ...], tuple[Operands, list[Made]]] = {}
        self.sums: dict[int, tuple[Tensor, list[LossTerm]]] = {}
        self.is_open = True
        self.bytes = 0

    def note(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """Note an op that the watched program has run."""
        frame: FrameType | None = sys._getframe(2)
        name = ""
        while frame is not None and library_files[frame.f_code.co_filename]:
            if frame.f_code.co_name not in WRAPPERS:
                name = frame.f_code.co_name
            frame = frame.f_back
        if frame is None:
            return
        self.walks.clear()
        self.sums.clear()
        self.bytes += out.array.nbytes
        while self.steps and (len(self.steps) >= MAX_STEPS or self.bytes > MAX_FLOW_BYTES):
            oldest = self.steps.pop(next(iter(self.steps)))
            self.bytes -= oldest.out.array.nbytes
            self.by_array.pop(id(oldest.out.array), None)
            for key in self.operands.pop(id(oldest), ()):
                self.by_operand[key] = [each for each in self.by_operand[key] if each is not oldest]
        made = Made(out, op.name, op.family, inputs, (frame.f_code, frame.f_lasti), name)
        self.by_array[id(out.array)] = self.steps[id(out)] = made
        self.operands[id(made)] = {id(x.array) for x in made.tensors}  # which a write of `.data` may change
        for key in self.operands[id(made)]:
            self.by_operand.setdefault(key, []).append(made)

    def close(self) -> None:
        """Note no more, and forget what was noted."""
        self.is_open = False
        self.steps.clear()
        self.by_array.clear()
        self.by_operand.clear()
        self.operands.clear()
        self.walks.clear()
        self.sums.clear()

    def maker(self, x: Operand) -> Made | None:
        """Return how a tensor was made."""
        made = self.steps.get(id(x))
        if made is not None and made.out is x:
            return made
        array = x.array if isinstance(x, Tensor) else None
        made = self.by_array.get(id(array))
        return made if made is not None and made.out.array is array else None

    def maker_past_moves(self, x: Operand) -> Made | None:
        """Return the op that gave a tensor its values: views, and other moves of elements, are left out."""
        made = self.maker(x)
        while made is not None and made.family == "movement" and made.tensors:
            below = self.maker(made.tensors[0])
            if below is None:
                break
            made = below
        return made

    def source(self, x: Operand) -> Operand:
        """Return the tensor whose elements a view or copy of another has."""
        made = self.maker(x)
        while made is not None and made.family == "movement" and made.tensors:
            x = made.tensors[0]
            made = self.maker(x)
        return x

    def whole(self, x: Tensor) -> Tensor:
        """Return the data of which a tensor has some rows: past moves of elements, and choices by an index."""
        made = self.maker(x)
        while made is not None and made.tensors and (made.family == "movement" or made.op == "index"):
            x = made.tensors[0]
            made = self.maker(x)
        return x

    def makers_behind(self, *values: Operand) -> Sequence[Made]:
        """Return the ops from which values were computed, the nearest first, up to a number."""
        key = tuple(map(id, values))
        if key in self.walks:
            return self.walks[key][1]
        queue = list(values)
        seen: set[int] = set()
        found: list[Made] = []
        for x in queue:  # which grows
            if len(found) >= MAX_WALKED:
                break
            made = self.maker(x)
            if made is not None and id(made) not in seen:
                seen.add(id(made))
                found.append(made)
                queue += made.tensors
        if self.is_open:
            self.walks[key] = values, found
        return found

    def find_end(self, x: Tensor, roots: Sequence[Tensor]) -> tuple[Made, bool] | None:
        """Return the op at which the way from a tensor to the roots ends, and whether it is a cut of the history.

        A cut is an op behind the roots whose result has no history. Without one, it is the last op on the way. None
        where nothing takes the tensor.
        """
        behind = {id(made) for made in self.makers_behind(*roots)}
        last: Made | None = None
        choice: Made | None = None  # of an index, which has no gradient anyway
        is_detached = False
        queue, seen = [x], {id(x)}
        while queue and len(seen) < MAX_WALKED:
            source = queue.pop(0)
            for made in self.users(source):
                if made.out.node is not None and id(made) in behind and source.node is not None:
                    is_detached |= all(each.node is None for each in made.tensors if each.array is source.array)
                if id(made.out) in seen:
                    continue
                seen.add(id(made.out))
                if made.out.node is None and id(made) in behind:
                    chosen = [user.out.array for user in self.users(made.out)]  # where probabilities are drawn from
                    if made.out.array.dtype.kind == "f" and (not chosen or any(x.dtype.kind == "f" for x in chosen)):
                        return made, True
                    choice = choice or made
                    continue
                queue.append(made.out)
                last = made if made.out.node is not None else last
        if choice is not None and not is_detached:
            return choice, True
        return None if last is None else (last, False)

    def find_constant(self, x: Tensor) -> Made | None:
        """Return the first op after a tensor whose result is alike for all samples, though its operand is not."""
        queue, seen = [x], {id(x)}
        while queue and len(seen) < MAX_WALKED:
            for made in self.users(queue.pop(0)):
                if made.out.node is None or id(made.out) in seen:
                    continue
                seen.add(id(made.out))
                size = len(made.out.array) if made.out.array.ndim else 0
                samples = [each.array for each in made.tensors if each.node is not None and each.array.ndim > 1]
                if (
                    made.op != "mul"
                    and is_alike(made.out.array)
                    and any(len(a) == size and not is_alike(a) for a in samples)
                ):
                    return made
                queue.append(made.out)
        return None

    def users(self, x: Tensor) -> list[Made]:
        """Return the ops that had a tensor as an operand, or what `detach()` gave for it."""
        found = self.by_operand.get(id(x.array), ())
        return [made for made in found if any(x.array is each.array for each in made.tensors)]

    def users_past_moves(self, x: Tensor) -> list[Made]:
        """Return the ops that had a tensor as an operand, or a view or copy of all its elements."""
        found: list[Made] = []
        queue = [x]
        while queue and len(found) < MAX_WALKED:
            for made in self.users(queue.pop()):
                is_move = made.family == "movement" and made.out.array.size == x.array.size
                found.append(made)
                queue += [made.out] if is_move else []
        return found

    def terms(self, root: Tensor) -> list[LossTerm]:
        """Return the terms of a sum or mean, with their signs; factors that are numbers are left out."""
        if id(root) in self.sums:
            return self.sums[id(root)][1]
        found: list[LossTerm] = []
        stack: list[tuple[Tensor, int, float]] = [(root, 1, 1.0)]
        while stack and len(found) < MAX_WALKED:
            x, sign, factor = stack.pop()
            made = self.maker(x)
            parts = None if made is None or x.node is None else _parts_of_sum(made)
            if parts is None:
                found.append(LossTerm(sign, x, made, factor))
            elif made is not None:
                factor *= factor_of(made)
                is_weighed = made.op == "mul" and not any(isinstance(x, (int, float)) and x == -1 for x in made.inputs)
                if is_weighed and self._is_likelihood(parts[0][0]):
                    parts = [(parts[0][0], 1)]  # its factor is a return, of whatever sign
                stack += [(part, sign * each, factor) for part, each in parts]
        if self.is_open:
            self.sums[id(root)] = root, found
        return found

    def _is_likelihood(self, x: Tensor) -> bool:
        """Return whether a value is a log-probability, or the negative of one."""
        made = self.maker_past_moves(x)
        if made is not None and made.op == "neg":
            made = self.maker_past_moves(made.tensors[0])
        return made is not None and made.function == "log_prob"


def is_alike(array: Array) -> bool:
    """Return whether all samples of a batch have the same values; not so for a single number."""
    return array.ndim > 0 and len(array) > 1 and bool((array == array[:1]).all())


def _parts_of_sum(made: Made) -> list[tuple[Tensor, int]] | None:
    """Return what a result is the sum of, up to positive factors, with signs; None where it is no sum."""
    tensors, inputs = made.tensors, made.inputs
    if made.function in WHOLE_TERMS:
        return None
    if made.op in SUMS or made.family == "movement":
        return [(x, 1) for x in tensors]
    if made.op == "neg":
        return [(tensors[0], -1)]
    if made.op == "sub":
        return [(x, sign) for x, sign in zip(inputs, (1, -1), strict=False) if isinstance(x, Tensor)]
    if made.op in ("mul", "div") and len(inputs) == 2:
        pairs = ((inputs[0], inputs[1]),) if made.op == "div" else ((inputs[0], inputs[1]), (inputs[1], inputs[0]))
        for x, factor in pairs:
            sign = sign_of(factor)
            if isinstance(x, Tensor) and x.node is not None and sign:
                return [(x, sign)]
    return None


def factor_of(made: Made) -> float:
    """Return what an element of the operand counts in a mean, a product with a number or a quotient by one."""
    if made.op == "mean":
        return made.out.array.size / max(made.tensors[0].array.size, 1)
    if made.op in ("mul", "div"):
        numbers = [abs(float(x)) for x in made.inputs if isinstance(x, (int, float))]
        return 1.0 if not numbers else numbers[0] if made.op == "mul" else 1 / max(numbers[0], 1e-30)
    return 1.0


def sign_of(factor: Operand) -> int:
    """Return the sign that all elements of a number or of data have; 0 where they differ, or it has a history."""
    if isinstance(factor, Tensor):
        if factor.node is not None or not factor.array.size:
            return 0
        factor = factor.array
        if not factor.ndim and owner(factor).size > 1:  # an item of data, such as returns
            return 1
    values = np.asarray(factor)
    if values.dtype.kind not in "fiub" or not values.size:
        return 0
    if not values.ndim and abs(round(float(values), DIGITS) - float(values)) > 1e-7 * abs(float(values)):
        return 1  # nobody writes such a number: it is data
    is_negative = not values.ndim and (values < 0).all()  # of data, such as returns, the next batch may differ
    return 1 if (values >= 0).all() and values.any() else -1 if is_negative else 0
