"""Sequences of different lengths: padded to one tensor, or packed so that each time has a row for those that last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import dtype, float16, float32, float64, int8, int16, int32, int64, uint8
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.construction import try_plain_full
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array
from adjoint.functions.creation.creation import full
from adjoint.functions.shape.join import cat
from adjoint.nn.utils.traced_packing import has_traced_values, pack_in_call, pad_in_call
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement
from adjoint.ops.nn.recurrent_steps import NATIVE_DTYPES

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence"]
__all__ += ["pad_sequence", "unpack_sequence", "unpad_sequence"]


Packed = TypeVar("Packed", bound="PackedSequence")


class _PackedFields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _conversion(name: str, kind: dtype) -> Callable[[Packed], Packed]:
    def convert(self: Packed) -> Packed:
        return self.to(kind)

    convert.__name__, convert.__qualname__ = name, f"PackedSequence.{name}"
    convert.__doc__ = f"Return the sequence with `data` as {kind.name}."
    return convert


class PackedSequence(_PackedFields):
    """`data` (N, …): the rows of the first time, of the second, …; `batch_sizes` (T,) says how many each time has.

    The sequences stand in the order of their lengths, the longest first: they are the given ones at `sorted_indices`,
    and `unsorted_indices` leads back.

    Raises: ValueError for a single value that is no pair.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise ValueError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequence with `data` converted as by `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> Self:
        """Return the sequence itself: there is no other device."""
        return self

    double = _conversion("double", float64)
    float = _conversion("float", float32)
    half = _conversion("half", float16)
    long = _conversion("long", int64)
    int = _conversion("int", int32)
    short = _conversion("short", int16)
    char = _conversion("char", int8)
    byte = _conversion("byte", uint8)

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    def is_pinned(self) -> bool:
        """Return False."""
        return False


def row_counts_of(sequence: PackedSequence) -> tuple[list[int] | Tensor, int]:
    """Return the number of rows at each step, a tensor where it is another in each call of a step, and of sequences."""
    batch: int | None = sequence.__dict__.get("batch")
    if batch is not None:
        return sequence.batch_sizes, batch
    sizes = batch_sizes_of(sequence)
    return sizes, sizes[0]


def batch_sizes_of(sequence: PackedSequence) -> list[int]:
    """Return the number of rows at each step, as integers, also while a step that packs the sequence is traced."""
    known: list[int] | None = sequence.__dict__.get("sizes")
    return sequence.batch_sizes.tolist() if known is None else known


def pack_like(sequence: PackedSequence, data: Tensor) -> PackedSequence:
    """Pack other rows in the order of those of `sequence`."""
    packed = PackedSequence(data, *sequence[1:])
    packed.__dict__.update(sequence.__dict__)
    return packed


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes this one."""
    return None if permutation is None else permutation.argsort()


@explain_errors
def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return a padded batch as a `PackedSequence`, without its padding.

    Recurrent layers then skip the padding.

    Args:
        input: tensor (T, N, …), or (N, T, …) with `batch_first`.
        lengths: list or tensor (N,), the length of each sequence, at least 1.
        batch_first: True for an input (N, T, …). Default: False.
        enforce_sorted: False to accept lengths in any order. Default: True, the longest first.

    Raises: RuntimeError for lengths that do not fit or do not decrease, and for an empty input.

    Example:
        >>> x = ad.tensor([[1, 2, 3], [4, 0, 0]])
        >>> packed = nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True)
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if has_traced_values(lengths) and input.array.dtype in NATIVE_DTYPES and mode.autocast is None:
        return _pack_in_call(input, lengths, batch_first, enforce_sorted)
    given = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    sorted_indices = None
    if not enforce_sorted:
        order = np.argsort(np.negative(given), kind="stable")
        given = [given[i] for i in order]
        sorted_indices = constant(order)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    steps, batch = input.array.shape[1::-1] if batch_first else input.array.shape[:2]
    _check_lengths(given, steps, batch)
    sizes = [sum(n > t for n in given) for t in range(given[0])]
    at = [(b * steps + t) if batch_first else (t * batch + b) for t, size in enumerate(sizes) for b in range(size)]
    data = movement.reshape(input, shape=(steps * batch, *input.array.shape[2:])).index_select(0, _as_integers(at))
    packed = PackedSequence(data, _as_integers(sizes), sorted_indices)
    packed.__dict__["sizes"] = sizes
    return packed


def _pack_in_call(input: Tensor, lengths: Any, batch_first: bool, enforce_sorted: bool) -> PackedSequence:
    batch = input.array.shape[0 if batch_first else 1]
    if lengths.array.shape != (batch,):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} (batch_size={batch})"
        )
    data, sizes, order = pack_in_call(input, lengths, batch_first, enforce_sorted)
    packed = PackedSequence(data, sizes, order)
    packed.__dict__["batch"] = batch
    return packed


def _check_lengths(lengths: Sequence[int], steps: int, batch: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if any(n < 1 for n in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement"
        )
    if lengths[0] > steps:
        raise RuntimeError(f"Expected lengths of at most {steps}, the times of the input, but got {lengths[0]}")


def _as_integers(numbers: Array | Sequence[int]) -> Tensor:
    return constant(np.asarray(numbers, np.int64))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return a `PackedSequence` as a padded batch, and the lengths (N,).

    Args:
        sequence: PackedSequence.
        batch_first: True for a result (N, T, …) instead of (T, N, …). Default: False.
        padding_value: number at the padded elements. Default: 0.
        total_length: T. Default: the longest length.

    Raises: ValueError for a `total_length` below the longest length.

    Example:
        >>> packed = nn.utils.rnn.pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4])])
        >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    back = sequence.unsorted_indices
    if "batch" in sequence.__dict__:
        _, batch = row_counts_of(sequence)
        padded, lengths = pad_in_call(sequence.data, sequence.batch_sizes, batch, padding_value, total_length)
        padded = padded.transpose(0, 1) if batch_first else padded
        return padded if back is None else padded.index_select(0 if batch_first else 1, back), (
            lengths if back is None else lengths.index_select(0, back)
        )
    sizes = batch_sizes_of(sequence)
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    data = sequence.data
    at, there = np.zeros((steps, sizes[0]), np.int64), np.zeros((steps, sizes[0]), np.bool_)
    for t, (start, size) in enumerate(zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True)):
        at[t, :size], there[t, :size] = np.arange(start, start + size), True
    lengths = _as_integers(there.sum(0))
    if batch_first:
        at, there = at.T, there.T
    rest = data.array.shape[1:]
    rows = movement.reshape(data.index_select(0, _as_integers(at.ravel())), shape=(*at.shape, *rest))
    held = constant(there.reshape(*at.shape, *(1 for _ in rest)).copy())
    padded = select.where(held, rows, full((), padding_value, dtype=data.dtype))
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths.index_select(0, back)


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Return sequences of different lengths as one padded tensor.

    Args:
        sequences: iterable of tensors (T_i, …) with equal sizes after the first.
        batch_first: True for a result (N, T, …) instead of (T, N, …). Default: False.
        padding_value: number at the padded elements. Default: 0.
        padding_side: "right" or "left". Default: "right".

    Raises: RuntimeError for no sequences, for one that is not iterable, and for another side.

    Example:
        >>> a, b = ad.tensor([1, 2, 3]), ad.tensor([4])
        >>> nn.utils.rnn.pad_sequence([a, b], batch_first=True)
        tensor([[1, 2, 3],
                [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    given = list(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest = max(x.array.shape[0] for x in given)
    whole = _try_pad_arrays(given, longest, batch_first, padding_value, padding_side)
    if whole is not None:
        return whole
    padded = []
    for x in given:
        missing = longest - x.array.shape[0]
        fill = full((missing, *x.array.shape[1:]), padding_value, dtype=given[0].dtype)
        both = (fill, x) if padding_side == "left" else (x, fill)
        padded.append((cat(both) if missing else x).unsqueeze(0 if batch_first else 1))
    return cat(padded, 0 if batch_first else 1)


def _try_pad_arrays(given: list[Tensor], longest: int, batch_first: bool, value: float, side: str) -> Tensor | None:
    """Write sequences of one type into one array; None where something sees the ops in between."""
    dtype, rest = given[0].array.dtype, given[0].array.shape[1:]
    for x in given:
        array = x.array
        if type(array) is not np.ndarray or not is_evaluated_alone(x):
            return None
        if array.dtype is not dtype or array.shape[1:] != rest:
            return None
    if dtype.kind == "i" and type(value) is float and value.is_integer():
        value = int(value)
    sizes = (len(given), longest) if batch_first else (longest, len(given))
    whole = try_plain_full((*sizes, *rest), value, dtype)
    if whole is None:
        return None
    rows = whole if batch_first else whole.swapaxes(0, 1)
    for row, x in zip(rows, given, strict=True):
        n = len(x.array)
        row[longest - n if side == "left" else 0 :][:n] = x.array
    return wrap_unrecorded(whole)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """Cut each sequence b of (T, B, …), or (B, T, …) if `batch_first`, to its length: undo `pad_sequence`."""
    dim = 0 if batch_first else 1
    given = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [x[:n] for x, n in zip(padded_sequences.unbind(dim), given, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (Tᵢ, …). Raises RuntimeError unless they come longest first or `enforce_sorted` is False."""
    lengths = [x.array.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that were packed."""
    padded, _ = pad_packed_sequence(packed_sequences, batch_first=True)
    lengths = np.sum(
        [np.arange(batch_sizes_of(packed_sequences)[0]) < n for n in batch_sizes_of(packed_sequences)], axis=0
    )
    back = packed_sequences.unsorted_indices
    return unpad_sequence(padded, lengths if back is None else lengths[back.tolist()], batch_first=True)
