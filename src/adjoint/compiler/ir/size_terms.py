"""Sums of products of symbols: what symbolic sizes are made of, with the bounds that hold for every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

MIN_SYMBOL, MAX_SYMBOL = 2, 1 << 40  # the smallest and the largest size that a symbol stands for


class Quotient(NamedTuple):
    """`dividend // divisor`, rounded down; or, if `is_rest`, what is left of it."""

    dividend: Terms
    divisor: Terms
    is_rest: bool


Factor: TypeAlias = "str | Quotient"
Monomial: TypeAlias = "tuple[Factor, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"  # in order; the coefficients are not 0


def evaluate_terms(terms: Terms, values: Mapping[str, int]) -> int:
    """Return the number that a sum of products is."""
    total = 0
    for monomial, coefficient in terms:
        for factor in monomial:
            if isinstance(factor, str):
                coefficient *= values[factor]
            else:
                dividend, divisor = evaluate_terms(factor.dividend, values), evaluate_terms(factor.divisor, values)
                coefficient *= divmod(dividend, divisor)[factor.is_rest]
        total += coefficient
    return total


def find_names(terms: Terms) -> set[str]:
    """Return the names of the symbols of which a sum of products is made."""
    found = set()
    for monomial, _ in terms:
        for factor in monomial:
            found |= {factor} if isinstance(factor, str) else find_names(factor.dividend) | find_names(factor.divisor)
    return found


def substitute_terms(terms: Terms, name: str, known: Terms) -> Terms:
    """Return terms with what is known of a symbol in its place."""
    if name not in find_names(terms):
        return terms
    total: Terms = ()
    for monomial, coefficient in terms:
        product: Terms = (((), coefficient),)
        for factor in monomial:
            if isinstance(factor, str):
                part: Terms = known if factor == name else (((factor,), 1),)
            else:
                dividend, divisor = (substitute_terms(x, name, known) for x in (factor.dividend, factor.divisor))
                part = divide_terms(dividend, divisor, factor.is_rest)
            product = multiply_terms(product, part)
        total = add_terms(total, product)
    return total


def format_terms(terms: Terms) -> str:
    """Return a sum of products as Python code: `8*s0 + 1`."""
    text = ""
    for monomial, coefficient in terms:
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        for factor in monomial:
            if isinstance(factor, str):
                factors.append(factor)
            else:
                symbol = "%" if factor.is_rest else "//"
                factors.append(f"(({format_terms(factor.dividend)}) {symbol} ({format_terms(factor.divisor)}))")
        sign = (" - " if coefficient < 0 else " + ") if text else "-" * (coefficient < 0)
        text += sign + "*".join(factors)
    return text or "0"


def collect_terms(pairs: Iterable[tuple[Monomial, int]]) -> Terms:
    """Return terms with one coefficient for each product, in order."""
    found: dict[Monomial, int] = {}
    for monomial, coefficient in pairs:
        found[monomial] = found.get(monomial, 0) + coefficient
    return tuple(sorted(((m, c) for m, c in found.items() if c), key=lambda term: (-len(term[0]), repr(term[0]))))


def add_terms(a: Terms, b: Terms, sign: int = 1) -> Terms:
    """Return a + sign · b."""
    return collect_terms([*a, *((monomial, sign * coefficient) for monomial, coefficient in b)])


def multiply_terms(a: Terms, b: Terms) -> Terms:
    """Return a · b."""
    return collect_terms([(tuple(sorted((*m, *n), key=repr)), c * d) for m, c in a for n, d in b])


def divide_terms(dividend: Terms, divisor: Terms, is_rest: bool) -> Terms:
    """Return dividend // divisor, or the rest: what divides without a rest is taken out first."""
    low, high = find_bounds(dividend)
    if low >= 0 and find_bounds(add_terms(dividend, divisor, -1))[1] < 0:  # 0 <= dividend < divisor
        return dividend if is_rest else ()
    if high < 0 and find_bounds(add_terms(dividend, divisor))[0] >= 0:  # -divisor <= dividend < 0
        return add_terms(dividend, divisor) if is_rest else (((), -1),)
    if len(divisor) != 1 or divisor[0][0]:
        exact = _divide_exactly(dividend, divisor)
        if exact is not None:
            return () if is_rest else exact
        return ((((Quotient(dividend, divisor, is_rest),), 1)),)
    by = divisor[0][1]
    whole = tuple((m, c // by) for m, c in dividend if c % by == 0)
    left = tuple((m, c) for m, c in dividend if c % by)
    low, high = find_bounds(left)
    if low == high:
        quotient, rest = divmod(low, by)
        return collect_terms([((), rest)]) if is_rest else add_terms(whole, collect_terms([((), quotient)]))
    if not is_rest and high <= 0 < by:  # -(n // -d) as (n + d - 1) // d: no negative dividends
        up = divide_terms(add_terms(tuple((m, -c) for m, c in left), collect_terms([((), by - 1)])), divisor, False)
        return add_terms(whole, up, -1)
    quotient_terms: Terms = ((((Quotient(left, divisor, is_rest),), 1)),)
    return quotient_terms if is_rest else add_terms(whole, quotient_terms)


def _divide_exactly(dividend: Terms, divisor: Terms) -> Terms | None:
    """Return the quotient by one product, if every term is a multiple of it."""
    if len(divisor) != 1:
        return ((((), 1)),) if dividend == divisor else None
    (factors, by), found = divisor[0], []
    for monomial, coefficient in dividend:
        rest = list(monomial)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if coefficient % by:
            return None
        found.append((tuple(rest), coefficient // by))
    return collect_terms(found)


def expand_rests(terms: Terms) -> Terms:
    """Return a sum with `a - a // b * b` for each `a % b` that is not multiplied by others."""
    total: Terms = ()
    for monomial, coefficient in terms:
        rest = monomial[0] if len(monomial) == 1 else None
        part: Terms = (((monomial, 1)),)
        if isinstance(rest, Quotient) and rest.is_rest:
            dividend, divisor, _ = rest
            quotient: Terms = ((((Quotient(dividend, divisor, False),), 1)),)
            part = add_terms(dividend, multiply_terms(quotient, divisor), -1)
        total = add_terms(total, multiply_terms((((), coefficient),), part))
    return total


def divide_by_common_symbols(terms: Terms) -> Terms:
    """Return a sum without the symbols by which all of it is multiplied: of the same sign, as they are positive."""
    first = terms[0][0] if terms else ()
    for factor in first:
        if isinstance(factor, str) and all(factor in monomial for monomial, _ in terms):
            divided = _divide_exactly(terms, ((((factor,), 1)),))
            assert divided is not None
            terms = divided
    return terms


def find_bounds(terms: Terms, highest: Mapping[str, int] = MappingProxyType({})) -> tuple[int, int]:
    """Return the least and the largest number that a sum can be; no symbol is more than it is in `highest`."""
    low, high = 0, 0
    for monomial, coefficient in terms:
        ends = coefficient, coefficient
        for factor in monomial:
            if isinstance(factor, str):
                most = highest.get(factor, MAX_SYMBOL)
                part = min(MIN_SYMBOL, most), most
            else:
                part = _find_quotient_bounds(factor, highest)
            products = [a * b for a in ends for b in part]
            ends = min(products), max(products)
        low, high = low + ends[0], high + ends[1]
    return low, high


def _find_quotient_bounds(factor: Quotient, highest: Mapping[str, int]) -> tuple[int, int]:
    low, high = find_bounds(factor.dividend, highest)
    least, most = find_bounds(factor.divisor, highest)
    least, most = max(least, 1), max(most, 1)  # of a size that divides
    if factor.is_rest:
        return 0, min(high, most - 1) if low >= 0 else most - 1
    quotients = [a // b for a in (low, high) for b in (least, most)]
    return min(quotients), max(quotients)


def split_by_sign(terms: Terms) -> tuple[Terms, Terms]:
    """Return a difference as what is added and what is taken away."""
    added = tuple((m, c) for m, c in terms if c > 0)
    return added, tuple((m, -c) for m, c in terms if c < 0)
