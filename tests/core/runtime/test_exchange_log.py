"""What an exchange has brought is taken from the log where its call begins again."""

import numpy as np
import pytest

from adjoint.core.runtime.exchange_log import CallLog, exchange_once, has_exchanged, log_exchanges, take_exchanged


def fill(out: np.ndarray, value: float, seen: list[float]) -> None:
    seen.append(value)
    out[...] = value


def test_exchanges_take_place_once_in_a_call_that_begins_again() -> None:
    call, seen, out = CallLog(), list[float](), np.zeros(2)
    for _ in range(3):
        with log_exchanges(call.exchanges):
            for value in (1.0, 2.0):
                exchange_once((out,), lambda value=value: fill(out, value, seen))  # type: ignore[misc]
                assert out.tolist() == [value] * 2
            assert not has_exchanged()
    assert seen == [1.0, 2.0]
    exchange_once((out,), lambda: fill(out, 3.0, seen))
    assert seen == [1.0, 2.0, 3.0]
    assert not take_exchanged((out,))


def test_what_an_exchange_wrote_may_be_taken_in_parts_and_errors_are_raised_again() -> None:
    call, seen, out = CallLog(), list[float](), np.zeros((2, 3))

    def fail() -> None:
        seen.append(0.0)
        raise RuntimeError("gone")

    for first in (True, False):
        parts = [np.zeros(3), np.zeros(3)]
        with log_exchanges(call.exchanges):
            exchange_once((out,) if first else parts, lambda: np.copyto(out, [[1, 2, 3], [4, 5, 6]]))
            with pytest.raises(RuntimeError, match="gone"):
                exchange_once((), fail)
    assert [part.tolist() for part in parts] == [[1, 2, 3], [4, 5, 6]]
    assert seen == [0.0]


def test_exchanges_within_an_exchange_are_part_of_it() -> None:
    call, seen, out = CallLog(), list[float](), np.zeros(1)
    for _ in range(2):
        with log_exchanges(call.exchanges):
            exchange_once((), lambda: exchange_once((out,), lambda: fill(out, 1.0, seen)))
            exchange_once((out,), lambda: fill(out, 2.0, seen))
    assert (seen, len(call.exchanges)) == ([1.0, 2.0], 2)
