"""The watch of a rank: it reports what the rank waits for, and hears which rank was lost or is stuck."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from adjoint.core.graph.source_location import InstructionLocation, Site, site_of
from adjoint.core.runtime.launcher_variables import LOST_RANK_STATUS
from adjoint.distributed.rendezvous import connect
from adjoint.distributed.rendezvous_server import send_line

REPORT_SECONDS = 1.0
STUCK_SECONDS = 10.0  # after which a rank says what it waits for
ANSWER_SECONDS = 2.0
SHARED_PREFIXES = ("/dev/shm/mpich", "/dev/shm/ucx", "/dev/shm/sm_segment")  # MPICH's, that of both, Open MPI's


@dataclass(slots=True, eq=False)
class CollectiveCall:
    """A collective in which a rank waits, or the last that it has finished."""

    number: int
    name: str
    location: InstructionLocation | Site  # the user's; it is put into words only when it is told
    began: float  # seconds of the monotonic clock; infinite once it has ended

    def describe(self) -> str:
        """Return the call and the user's line."""
        site = self.location if isinstance(self.location, Site) else site_of(*self.location)
        return f"{self.name} #{self.number}, from {site}"


def find_shared_files() -> list[str]:
    """Return the files of MPI's shared memory that this process has mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[5] for line in maps if "/dev/shm/" in line}
            return sorted(path for path in paths if path.startswith(SHARED_PREFIXES))
    except OSError:
        return []


class RankWatch:
    """Connection to the rendezvous, on which rank `rank` reports its calls, and hears of the others.

    `current_call` returns the collective in which this rank is; `timeout` is how long it may last.
    """

    def __init__(
        self,
        rank: int,
        address: tuple[str, int],
        key: bytes,
        current_call: Callable[[], CollectiveCall | None],
        timeout: float,
    ) -> None:
        self.rank, self.current_call, self.timeout = rank, current_call, timeout
        self.address, self.key = address, key  # of the rendezvous
        self.connection = connect(address, key, "watch", rank, timeout)
        self.connection.settimeout(None)
        self.statuses: dict[str, str] = {}
        self.answered = threading.Event()
        self.has_ended = False
        self._send({"shared": find_shared_files()})
        for work in (self._listen, self._report):
            threading.Thread(target=work, daemon=True, name=f"adjoint-watch-{work.__name__}").start()

    def _listen(self) -> None:
        try:
            for line in self.connection.makefile("r", encoding="utf-8"):
                message = json.loads(line)
                if "lost" in message:
                    self._end_with(message["lost"])
                self.statuses = message.get("statuses", self.statuses)
                self.answered.set()
        except (OSError, ValueError):
            pass
        self._end_with("the rendezvous beside rank 0 cannot be reached any more")

    def _end_with(self, loss: str) -> None:
        """End this process, which would wait for the lost rank for ever."""
        if self.has_ended:
            return
        call = self.current_call()
        waited = f"waited in {call.describe()}" if call is not None and call.began != inf else "was at work"
        sys.stderr.write(f"adjoint: {loss}; rank {self.rank} {waited}, and ends\n")
        sys.stderr.flush()
        for path in find_shared_files():
            with suppress(OSError):  # the ranks of this machine all end now: MPI does not remove it
                os.unlink(path)
        os._exit(LOST_RANK_STATUS)

    def _report(self) -> None:
        """Report each call, and say once of a long one who has not come to it."""
        reported: tuple[CollectiveCall, float] | None = None
        warned: CollectiveCall | None = None
        while not self.has_ended:
            time.sleep(REPORT_SECONDS)
            call = self.current_call()
            if call is None:
                continue
            began = call.began
            if (call, began) != reported:
                reported = call, began
                self._send({"status": call.describe() if began != inf else f"past {call.describe()}"})
            waited = time.monotonic() - began
            if waited > STUCK_SECONDS and warned is not call:
                warned = call
                sys.stderr.write(f"adjoint: {self._describe_wait(call, waited)}\n")
                sys.stderr.flush()
            if waited > self.timeout:
                sys.stderr.write(f"adjoint: {self._describe_wait(call, waited)}; it ends after its timeout\n")
                sys.stderr.flush()
                self.fail(f"waited {waited:.0f} s for {call.describe()}")
                os._exit(1)

    def _describe_wait(self, call: CollectiveCall, waited: float) -> str:
        self.answered.clear()
        self._send({"asks": True})
        self.answered.wait(ANSWER_SECONDS)
        others = dict(sorted(self.statuses.items(), key=lambda item: int(item[0])))
        others.pop(str(self.rank), None)
        where = "; ".join(f"rank {rank} is at {at}" for rank, at in others.items() if at != call.describe())
        return f"rank {self.rank} has waited {waited:.0f} s in {call.describe()}" + (f"; {where}" if where else "")

    def fail(self, why: str) -> None:
        """Tell the others why this rank ends; that they end with it is no news to it."""
        self.has_ended = True
        self._send({"failed": why})

    def end(self) -> None:
        """Tell that this rank ends as it should."""
        if not self.has_ended:
            self.has_ended = True
            self._send({"ended": True})

    def _send(self, message: dict[str, object]) -> None:
        try:
            send_line(self.connection, json.dumps(message))
        except OSError:
            self.has_ended = True  # nobody listens: the other thread has told
