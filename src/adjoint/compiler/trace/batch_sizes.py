"""Leading (batch) sizes of the arguments: which are worth a program of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjoint.compiler.trace.signature import SignatureKey

SIZES_COMPILED_AT_ONCE = 2  # leading sizes that are compiled at once; any other when it comes for the second time
MAX_SPECIALIZED_SIZES = 8  # that are compiled at all, for arguments that are alike otherwise


class BatchSizes:
    """Counts of leading sizes, by the rest of the arguments' signature."""

    def __init__(self) -> None:
        self._counts: dict[object, dict[int, int]] = {}

    def count(self, key: SignatureKey) -> tuple[bool, str]:
        """Return whether to compile for a signature without a program, and a message about it."""
        size, others = _split_leading_size(key)
        seen = self._counts.setdefault(others, {})
        seen[size] = seen.get(size, 0) + 1
        if size < 0:
            return True, ""
        worth = [n for i, (n, count) in enumerate(seen.items()) if count > 1 or i < SIZES_COMPILED_AT_ONCE]
        said = ""
        if size in worth and len(worth) == MAX_SPECIALIZED_SIZES + 1:
            said = (
                f"was compiled for {MAX_SPECIALIZED_SIZES} leading sizes of its arguments, each a program of its own: "
                f"any other runs eagerly from now on, such as {size}. Pad to a few sizes where speed matters."
            )
        return size in worth[:MAX_SPECIALIZED_SIZES], said

    def all(self) -> dict[int, int]:
        """Return how often each size came."""
        found: dict[int, int] = {}
        for seen in self._counts.values():
            for size, count in seen.items():
                if size >= 0:
                    found[size] = found.get(size, 0) + count
        return found


def _split_leading_size(key: SignatureKey) -> tuple[int, object]:
    """The first dimension of the first tensor, and the signature in which it and its equals are left out."""
    size = next((leaf[0][0] for leaf in key[1] if _is_sized(leaf)), -1)
    leaves = tuple(
        (("n", *leaf[0][1:]), *leaf[1:]) if _is_sized(leaf) and leaf[0][0] == size else leaf for leaf in key[1]
    )
    return size, (key[0], leaves, *key[2:])


def _is_sized(leaf: object) -> bool:
    return isinstance(leaf, tuple) and len(leaf) == 4 and bool(leaf[0])
