"""Load many damaged files in a process of its own, which watches what happens meanwhile, and print what did.

Arguments: the sound file, its kind, the first seed and how many. Each seed gives one file. A line of JSON is printed
for each: its seed, the outcome, and what is wrong with it, if anything.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.files.damage import crafted, exchanged, hurt
from tests.support.files.pickles import MARKER

import adjoint as ad
from adjoint import data, nn, optim  # noqa: F401  what programs have imported, and trusted files may name
from adjoint.core.runtime.explanation_slot import explanation_slot
from adjoint.serialization import FileError, SafetensorsError, load

CHECKED = {"ours.pt", "ours.safetensors"}  # in these every alteration is noticed
# a tensor that is the key of a dict is hashed by its id
ALLOWED = {"open", "mmap.__new__", "os.fspath", "object.__getattr__", "array.__new__", "builtins.id"}
ROOM = 6_000_000  # bytes: what Python and the allocator take at a time, whatever the file
events: list[str] = []
watching = [False]


def watch(event: str, arguments: Any) -> None:
    """Note what a loader has no business to do, while one is at work."""
    if not watching[0] or (event in ALLOWED and (event != "open" or arguments[0] == target)):
        return
    events.append(f"{event} {str(arguments)[:200]}")


def main(sound: str, kind: str, first: int, count: int) -> None:
    explanation_slot.empty()  # an explanation opens and parses the program's own source
    whole = Path(sound).read_bytes()
    expected = bits(load(sound))
    warm_up(sound, kind)
    gc.collect()
    gc.freeze()  # what is here already need not be looked at after each file
    sys.addaudithook(watch)
    for seed in range(first, first + count):
        draw = random.Random(seed)
        accident = seed % 2 == 0
        make = hurt if accident else crafted
        if kind.endswith(".pt") and kind != "legacy.pt" and seed % 20 == 0:
            make, accident = exchanged, kind in CHECKED
        damaged = make(whole, draw)
        Path(target).write_bytes(damaged)
        options = {"mmap": bool(seed % 3 == 0 and kind != "legacy.pt"), "weights_only": seed % 5 != 0}
        size = len(damaged)
        del damaged
        outcome = attempt(options, size, expected if accident and kind in CHECKED else None)
        sys.stdout.write(json.dumps({"seed": seed, **outcome}) + "\n")
        sys.stdout.flush()


def warm_up(sound: str, kind: str) -> None:
    """Have everything imported that a load may need."""
    load(sound, mmap=kind != "legacy.pt", weights_only=False)
    "\0".encode("unicode_escape")
    with contextlib.suppress(ImportError):
        importlib.import_module("ml_dtypes")


def attempt(options: dict[str, Any], size: int, expected: Any) -> dict[str, Any]:
    """Load the target under a limit, and say how that went."""
    gc.collect()
    outcome, wrong = "loaded", []
    limit = int(status("VmSize")) + 2 * size + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    found = error = None
    events.clear()
    watching[0] = True
    try:
        found = load(target, **options)
    except (FileError, SafetensorsError) as caught:
        error = caught
    except BaseException as caught:  # noqa: BLE001  that is what is asked here
        wrong.append(f"{type(caught).__name__} is not documented: {str(caught)[:300]}")
    watching[0] = False
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wrong += [f"did {event}" for event in events]
    if error is not None:
        outcome, message = "refused", str(error)
        if not message.startswith(f"{target}: ") or len(message) > len(target) + 1000 or "MemoryError" in message:
            wrong.append(f"message: {message[:300]} ({len(message)})")
        if not message.isprintable():
            wrong.append(f"not printable: {message[:300]!r}")
    elif not wrong and expected is not None and bits(found) != expected:
        wrong.append(f"an altered value was accepted: {str(found)[:300]}")
    if os.path.exists(MARKER):
        wrong.append("code was run")
    return {"outcome": outcome, "wrong": wrong, "message": str(error)[len(target) : 200] if error else ""}


def bits(value: Any) -> Any:
    """A value as what can be compared."""
    if isinstance(value, ad.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), value.requires_grad, value.detach().numpy().tobytes())
    if isinstance(value, dict):
        return (type(value).__name__, [(key, bits(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [bits(item) for item in value])
    return (type(value).__name__, value.tobytes() if isinstance(value, np.ndarray) else repr(value))


def status(field: str) -> float:
    """A number of bytes from what the system says of this process."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.split(f"{field}:")[1].split()[0])


target = os.path.join(os.getcwd(), "evil")

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
