"""An expected error in one line."""

from collections.abc import Callable
from typing import Any

import pytest

Errors = type[Exception] | tuple[type[Exception], ...]


def assert_raises(error: Errors, message: str, call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Assert that the call raises such an error, and that the pattern `message` is found in what it says."""
    with pytest.raises(error, match=message):
        call(*args, **options)


def errors_of(call: Callable[[Any], Any], *libraries: Any) -> list[Exception]:
    """What the call raises with each library, which is its argument; a misspelt name is no such error."""
    found = []
    for library in libraries:
        with pytest.raises((RuntimeError, LookupError, TypeError, ValueError, AssertionError)) as caught:
            call(library)
        found.append(caught.value)
    return found
