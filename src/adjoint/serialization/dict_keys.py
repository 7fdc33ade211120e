"""Keys of dicts and sets in files: types whose hash is quick and runs no code, and few that have the same."""

from __future__ import annotations

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.serialization.zip_archive import FileError

MAX_KEY_PARTS = 200  # of tuples within tuples
MAX_KEYS_OF_A_HASH = 16
KEY_TYPES = {type(None), bool, int, float, complex, str, bytes, device, Size}


class KeyHashes:
    """The keys of dicts and sets by their hashes: few may have one, or each look-up would compare them all.

    Those of text and bytes are drawn anew in each process, but all multiples of 2⁶¹ - 1 have the hash 0, and so have
    tuples of them. A dict of n such keys takes n² comparisons, hours for a file of some megabytes.
    """

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[int, list[object]] = {}

    def check_key(self, value: object) -> int:
        """Do as `check_key`, and raise FileError for a key whose hash too many others have."""
        parts = check_key(value)
        if type(value) is not str:
            alike = self._keys.setdefault(hash(value), [])
            if value not in alike:
                if len(alike) == MAX_KEYS_OF_A_HASH:
                    raise FileError("the keys of a dict or set are chosen to have the same hash: it would take hours")
                alike.append(value)
        return parts


def check_key(value: object) -> int:
    """Count the parts beyond one of a dict's key: its hash must be quick, and run no code. FileError for others."""
    if type(value) is str:
        return 0
    if type(value) is int:
        return value.bit_length() // 512
    rest: list[tuple[object, int]] = [(value, 0)]
    seen = 0
    while rest:
        part, depth = rest.pop()
        seen += 1
        if isinstance(part, (tuple, frozenset)) and depth < 8 and len(part) + seen + len(rest) < MAX_KEY_PARTS:
            rest.extend((item, depth + 1) for item in part)
        elif (
            type(part) not in KEY_TYPES
            and not isinstance(part, (dtype, type))
            and not (isinstance(part, Tensor) and type(part).__hash__ is Tensor.__hash__)  # of an optimizer's state
        ):
            raise FileError(f"a {type(part).__name__} is a key of a dict or in a set, which is not allowed")
    return seen - 1
