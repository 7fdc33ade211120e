"""Stores: values by key that processes share, to find one another and to agree. They need no group, and no MPI."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from adjoint.distributed.rendezvous_server import KeyValues, Message

DEFAULT_TIMEOUT = timedelta(seconds=300)
COUNT_KEY = "init/"  # of the processes that have come to a store


class DistError(RuntimeError):
    """Error of `adjoint.distributed`."""


class DistStoreError(DistError):
    """Request that a store has not answered in time, or cannot carry out."""


class DistNetworkError(DistError):
    """Store that cannot be reached."""


class DistBackendError(DistError):
    """Error of a backend, which programs catch; MPI's errors are others."""


class QueueEmptyError(DistStoreError):
    """Queue without values."""


class Store:
    """Base class of stores.

    A subclass defines `_ask(request)`, which answers as `KeyValues` does, or the methods themselves.

    Raises: DistStoreError, a RuntimeError, if a key that is waited for is not set within the timeout.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _ask(self, request: dict[str, str]) -> Message:
        raise NotImplementedError(f"{type(self).__name__} is a store without a place for its values")

    @property
    def timeout(self) -> timedelta:
        """The time for which a request waits for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta, /) -> None:
        """Set how long a request waits for a key."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes, /) -> None:
        """Set the value of a key."""
        self._ask({"do": "set", "key": self._place(key), "value": _encode(value)})

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, once it is set."""
        request = {"do": "get", "key": self._place(key), **_limit(self.timeout)}
        return _value(self._ask(request), self.timeout)

    def add(self, key: str, amount: int, /) -> int:
        """Add to the number of a key, which begins with 0; return the sum."""
        answer = self._ask({"do": "add", "key": self._place(key), "value": _encode(str(int(amount)))})
        return int(_value(answer, self.timeout))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        """Wait until all keys are set."""
        limit = self.timeout if timeout is None else timeout
        _value(self._ask({"do": "wait", "keys": self._places(keys), **_limit(limit)}), limit)

    def check(self, keys: Sequence[str], /) -> bool:
        """Return whether all keys are set."""
        return bool(_number(self._ask({"do": "check", "keys": self._places(keys)})))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes, /) -> bytes:
        """Set the value if the present one is the expected, or if there is none and "" is; return that there is."""
        request = {"expected": _encode(expected_value), "value": _encode(desired_value)}
        return _value(self._ask({"do": "compare_set", "key": self._place(key), **request}), self.timeout)

    def append(self, key: str, value: str | bytes, /) -> None:
        """Add to the end of a value, which begins empty."""
        self._ask({"do": "append", "key": self._place(key), "value": _encode(value)})

    def delete_key(self, key: str, /) -> bool:
        """Remove a key; return whether it was there."""
        return bool(_number(self._ask({"do": "delete", "key": self._place(key)})))

    def num_keys(self) -> int:
        """Return the number of keys; one of them may count processes."""
        return _number(self._ask({"do": "count"}))

    def list_keys(self) -> list[str]:
        """Return the keys."""
        keys: Any = self._ask({"do": "list"})["keys"]
        return [_unescape(key) for key in keys if key != COUNT_KEY]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        """Set the values of several keys. Raises DistStoreError for another number of values."""
        if len(keys) != len(values):
            raise DistStoreError("multiSet keys and values vectors must be of same size")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        """Return the values of several keys, once they are set."""
        return [self.get(key) for key in keys]

    def has_extended_api(self) -> bool:
        """Return True: there are `append`, `multi_get` and `multi_set`."""
        return True

    def queue_push(self, key: str, value: str | bytes, /) -> None:
        """Add a value to the end of the queue of a key."""
        self._ask({"do": "push", "key": self._place(key), "value": _encode(value)})

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove the first value of a queue, and return it. Raises QueueEmptyError for none, unless `block` waits."""
        limit = _limit(self.timeout) if block else {}
        answer = self._ask({"do": "pop", "key": self._place(key), **limit})
        if not block and "missing" in answer:
            raise QueueEmptyError("queue is empty")
        return _value(answer, self.timeout)

    def queue_len(self, key: str, /) -> int:
        """Return the number of values in a queue."""
        return _number(self._ask({"do": "length", "key": self._place(key)}))

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` processes have come to the barrier of this name."""
        if self.add(f"{key}/arrived", 1) == world_size:
            self.set(f"{key}/all", "1")
        self.wait([f"{key}/all"], self.timeout if timeout is None else timeout)

    def clone(self) -> Store:
        """Return a store of the same values, which another thread may use."""
        return self

    def _place(self, key: str) -> str:
        _check_key(key)
        return key.replace("\\", "\\\\").replace("\n", "\\n")

    def _places(self, keys: Sequence[str]) -> str:
        if isinstance(keys, str):
            raise TypeError(f"a list of keys, and not the string {keys!r}")
        return "\n".join(map(self._place, keys))


class HashStore(Store):
    """Store of the threads of one process.

    Example:
        >>> import adjoint.distributed as dist
        >>> store = dist.HashStore()
        >>> store.set("first_key", "first_value")
        >>> store.get("first_key"), store.add("count", 2)
        (b'first_value', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._held = KeyValues()

    def _ask(self, request: dict[str, str]) -> Message:
        return self._held.answer(request)


class PrefixStore(Store):
    """Store whose keys are those of another behind a prefix, and apart from its others."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self.underlying_store = prefix, store

    def _ask(self, request: dict[str, str]) -> Message:
        return self.underlying_store._ask(request)

    def _place(self, key: str) -> str:
        _check_key(key)
        return self.underlying_store._place(f"{self._prefix}/{key}")

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self.underlying_store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        """The time for which a request waits for a key."""
        return self.underlying_store.timeout

    def set_timeout(self, timeout: timedelta, /) -> None:
        """Set how long a request waits for a key."""
        self.underlying_store.set_timeout(timeout)

    def clone(self) -> Store:
        return PrefixStore(self._prefix, self.underlying_store.clone())


def _check_key(key: str) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a store's keys are strings, and not {type(key).__name__}")


def _encode(value: str | bytes) -> str:
    if not isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"a store's values are str or bytes, and not {type(value).__name__}")
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _limit(timeout: timedelta) -> dict[str, str]:
    return {"timeout": str(timeout.total_seconds())}


def _unescape(place: str) -> str:
    return place.replace("\\n", "\n").replace("\\\\", "\\") if "\\" in place else place


def _value(answer: Message, timeout: timedelta) -> bytes:
    """Return the value of an answer. Raises DistStoreError for keys that were not set in time, and for bad requests."""
    if "value" not in answer:
        _refuse(answer, timeout)
    return base64.b64decode(str(answer["value"]))


def _number(answer: Message) -> int:
    return int(str(answer["number"]))


def _refuse(answer: Message, timeout: timedelta) -> NoReturn:
    if "error" in answer:
        raise DistStoreError(str(answer["error"]))
    missing: Any = answer["missing"]
    keys = ", ".join(f"/{_unescape(key)}" for key in missing)
    raise DistStoreError(f"wait timeout after {timeout.total_seconds() * 1000:.0f}ms, keys: {keys}")
