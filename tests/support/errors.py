"""An expected error in one line."""

from collections.abc import Callable
from typing import Any

import pytest

Errors = type[Exception] | tuple[type[Exception], ...]


def assert_raises(error: Errors, message: str, call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Assert that the call raises such an error, and that the pattern `message` is found in what it says."""
    with pytest.raises(error, match=message):
        call(*args, **options)
