"""Householder's factorization of one matrix, by the LAPACK that lies in NumPy's BLAS, in the type of the matrix.

NumPy's own functions compute in float64 for every type, and form Q and R where a least-squares solution needs only the
products of Q and a vector: they take two to four times as long for matrices of some ten columns. For stacks, and where
the library is not known, `factor` returns None, and NumPy's functions are called.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import count

import numpy as np

from adjoint.core.runtime.threads import find_lapack, one_blas_thread
from adjoint.core.typing import Array, Operand
from adjoint.ops.linalg.lapack import MAX_UNTHREADED_ELEMENTS

LETTERS = {"f": "s", "d": "d"}  # LAPACK's, by NumPy's
# The arguments of routines: letters that are given as they are, integers, and addresses of arrays.
SIGNATURES = {"geqrf": "iiaiaai", "orgqr": "iiiaiaai", "ormqr": "LTiiiaiaaiai", "trtri": "UNiai", "trtrs": "UNNiiaiai"}
BLOCK_COLUMNS = 32  # of a workspace
MAX_KEPT_MASK = 16_384  # elements


class Factors:
    """The factorization of an (m, n) matrix as LAPACK leaves it: R, and below it the reflectors whose product is Q.

    All lies in one piece of memory, as to ask for an address takes NumPy as long as LAPACK takes for a small matrix.
    """

    __slots__ = ("_columns", "_factored", "_scales", "_size", "_work")

    def __init__(self, x: Array) -> None:
        m, n = self._size = x.shape
        k, size = min(m, n), x.size
        memory = np.empty(size + k + BLOCK_COLUMNS * n, x.dtype)
        self._columns = memory[:size].reshape(n, m)
        self._columns[...] = x.T
        self._factored = _address_of(memory)
        self._scales = self._factored + size * x.itemsize
        self._work = self._scales + k * x.itemsize
        _call("geqrf", self._columns, (m, n, m, BLOCK_COLUMNS * n), self._factored, self._scales, self._work)

    def form_r(self) -> Array:
        """Return R, (min(m, n), n)."""
        m, n = self._size
        k = min(m, n)
        return _clear(self._columns[:, :k].T, _find_mask(k, n).T)

    def form_q(self) -> Array:
        """Return Q, (m, min(m, n)). It lies where the factorization lay, which is lost."""
        m, n = self._size
        k = min(m, n)
        _call("orgqr", self._columns, (m, k, k, m, BLOCK_COLUMNS * n), self._factored, self._scales, self._work)
        return self._columns[:k].T

    def solve(self, b: Array) -> Array:
        """Return the x with the smallest |Q R x - b|, of a tall matrix of full rank."""
        (m, n), many = self._size, b.shape[1]
        out = np.array(b.T, order="C")
        address, work = _address_of(out), self._work
        if many > n:
            space = np.empty(BLOCK_COLUMNS * many, out.dtype)
            work = _address_of(space)
        sizes = (m, many, n, m, m, BLOCK_COLUMNS * many)
        _call("ormqr", self._columns, sizes, self._factored, self._scales, address, work)
        _call("trtrs", self._columns, (n, many, m, m), self._factored, address)
        return out[:, :n].T

    def bound_condition(self) -> float:
        """Return at least the largest singular value of a tall matrix by the smallest; inf or NaN if it has none.

        Norms bound them: the largest is at most |R|, and the smallest at least 1 / |R⁻¹|.
        """
        n = self._size[1]
        triangle = _clear(self._columns[:, :n], _find_mask(n, n))  # the transpose of R
        if not triangle.diagonal().all():
            return math.inf
        largest = np.vdot(triangle, triangle)
        _call("trtri", triangle, (n, n), _address_of(triangle))
        return math.sqrt(largest) * math.sqrt(np.vdot(triangle, triangle))


def factor(x: Array) -> Factors | None:
    """Factor one matrix; None where NumPy should do it."""
    is_known = x.ndim == 2 and x.size > 0 and x.dtype.char in LETTERS and _find_routine("geqrf", x.dtype.char)
    return Factors(x) if is_known else None


def _address_of(x: Operand) -> int:
    """Return where an array lies that may be written and has no gaps: `x.ctypes.data` takes four times as long."""
    return ctypes.addressof(ctypes.c_char.from_buffer(x))


def _clear(x: Array, mask: Array) -> Array:
    """Return x with 0 but where the mask is True, row-major."""
    out = np.zeros(x.shape, x.dtype)
    np.copyto(out, x, where=mask)
    return out


def _find_mask(n: int, m: int) -> Array:
    """Return a mask (m, n) of the diagonal and what lies below it."""
    return _keep_mask(n, m) if n * m <= MAX_KEPT_MASK else _keep_mask.__wrapped__(n, m)


@lru_cache(64)
def _keep_mask(n: int, m: int) -> Array:
    return np.tri(m, n, dtype=bool)


@cache
def _find_routine(name: str, char: str) -> tuple[Callable[..., None], int] | None:
    signature = SIGNATURES[name]
    letters = len(signature) - signature.count("i") - signature.count("a")
    return find_lapack(LETTERS[char] + name, len(signature) + 1 + letters)


def _call(name: str, matrix: Array, integers: tuple[int, ...], *addresses: int) -> None:
    """Call a routine of the type of `matrix`, on one thread."""
    routine, template, places, lengths, _ = _prepare(name, matrix.dtype.char, integers)
    arguments = template.copy()
    for place, address in zip(places, addresses, strict=True):
        arguments[place] = address
    if matrix.size > MAX_UNTHREADED_ELEMENTS and not one_blas_thread.is_needless():
        with one_blas_thread:
            routine(*arguments, *lengths)
    else:
        routine(*arguments, *lengths)


@lru_cache(512)
def _prepare(
    name: str, char: str, integers: tuple[int, ...]
) -> tuple[Callable[..., None], list[int | bytes], list[int], list[int], Array]:
    """Return a routine, its arguments, the places of arrays among them, the lengths of letters, and what to keep.

    Fortran takes addresses, last that of a status, and then the length of each letter. Calls share the integers, which
    no routine writes, and the status, which nobody reads.
    """
    found = _find_routine(name, char)
    assert found is not None
    routine, bits = found
    signature = SIGNATURES[name]
    values = np.array([*integers, 0], f"i{bits // 8}")
    next_address = count(values.ctypes.data, values.itemsize).__next__
    template = [next_address() if c == "i" else 0 if c == "a" else c.encode() for c in signature + "i"]
    places = [i for i, c in enumerate(signature) if c == "a"]
    return routine, template, places, [1 for x in template if type(x) is bytes], values
