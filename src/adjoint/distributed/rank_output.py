"""Output of ranks in files: `--redirects` and `--tee` of the launcher."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TypeAlias

from adjoint.distributed.launch_options import LaunchOptions

Destination: TypeAlias = IO[bytes] | int | None  # what Popen takes for a stream
STREAM_NAMES = ("stdout", "stderr")
JOIN_SECONDS = 2.0  # for what a rank's own processes may still write


class RankOutput:
    """Destinations of a rank's output: the launcher's own, a file, or both, line by line after the rank's name.

    Files are `log_folder/run id/attempt_0/rank of this machine/stdout.log`, as torchrun's are.
    """

    def __init__(self, options: LaunchOptions, local: int, attempt: int) -> None:
        self.options, self.local = options, local
        self.folder = Path(options.log_folder, options.run_id, f"attempt_{attempt}", str(local))
        self.copies: list[tuple[str, IO[bytes]]] = []
        self.files: list[IO[bytes]] = []
        self.threads: list[threading.Thread] = []

    def destination(self, name: str) -> Destination:
        """Return where a stream of the rank goes."""
        in_file, copied = (
            name in chosen.get(self.local, chosen.get(-1, ()))
            for chosen in (self.options.redirected, self.options.copied)
        )
        hidden = self.options.shown is not None and self.local not in self.options.shown
        if not (in_file or copied):
            return subprocess.DEVNULL if hidden else None
        self.folder.mkdir(parents=True, exist_ok=True)
        file = open(self.folder / f"{name}.log", "wb", buffering=0)  # noqa: SIM115  `finish` closes it
        self.files.append(file)
        if not copied or hidden:
            return file
        self.copies.append((name, file))
        return subprocess.PIPE

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Begin to copy what the rank writes."""
        for name, file in self.copies:
            thread = threading.Thread(target=self._copy, args=(getattr(process, name), file, name), daemon=True)
            thread.start()
            self.threads.append(thread)

    def _copy(self, source: IO[bytes], file: IO[bytes], name: str) -> None:
        shown = getattr(sys, name).buffer
        prefix = f"[{self.options.role}{self.local}]:".encode()
        for line in source:
            file.write(line)
            shown.write(prefix + line)
            shown.flush()

    def finish(self) -> None:
        """Wait for the last lines, and close the files."""
        for thread in self.threads:
            thread.join(JOIN_SECONDS)
        if not any(thread.is_alive() for thread in self.threads):
            for file in self.files:
                file.close()
