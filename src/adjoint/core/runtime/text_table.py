"""Text for people: rows whose columns stand below one another, and numbers of things."""

from __future__ import annotations

from collections.abc import Collection, Sequence

GAP = "  "


def pluralize(count: int, noun: str, plural: str | None = None) -> str:
    """Return "1 kernel", "2 kernels" and so on; `plural`: that of a noun which takes more than an s.

    >>> pluralize(1, "kernel"), pluralize(1200, "NumPy call"), pluralize(3, "index", "indices")
    ('1 kernel', '1,200 NumPy calls', '3 indices')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def join_counts(**counts: int) -> str:
    """Return numbers of things, by the noun of each: "1 guard, 2 writes"."""
    return ", ".join(pluralize(count, noun) for noun, count in counts.items())


def format_size(count: int) -> str:
    """Return a number of bytes as it is read: "96 bytes", "1.0 MB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def format_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Format one line for each row; the columns numbered in `right` are flush right.

    A row with fewer cells than the first runs on after its last one, which makes no column wider.
    """
    columns = len(rows[0]) if rows else 0
    widths = [max((len(r[i]) for r in rows if len(r) == columns), default=0) for i in range(columns)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=False))]
        lines.append(GAP.join(cells).rstrip())
    return lines
