"""Names of `torch.distributed.elastic`: errors of ranks, which `record` writes where the launcher says."""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"


class ErrorHandler:
    """Writer of an uncaught error to the file that the launcher names."""

    def initialize(self) -> None:
        """Begin to watch; there is nothing to do."""

    def record_exception(self, e: BaseException) -> None:
        """Write the error, its traceback and the time, as JSON."""
        path = os.environ.get(ERROR_FILE_VARIABLE)
        if path is None:
            return
        details = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": details}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps({"message": message}), encoding="utf-8")


def get_error_handler() -> ErrorHandler:
    """Return the writer of errors."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """End of a rank that failed."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str = ""
    timestamp: int = 0


class ChildFailedError(Exception):
    """Error of a launcher whose ranks have failed."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        super().__init__(f"{name} FAILED: " + ", ".join(f"rank {rank}: {end}" for rank, end in failures.items()))
        self.name, self.failures = name, failures

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank that failed first, and how."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)


def record(fn: Callable[P, R], error_handler: ErrorHandler | None = None) -> Callable[P, R | None]:
    """Return the function, whose uncaught error is written to the launcher's file of errors, and raised."""
    handler = error_handler or get_error_handler()

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return call


def get_logger(name: str | None = None) -> logging.Logger:
    """Return a logger."""
    return logging.getLogger(name or "adjoint.distributed.elastic")
