"""The log of the compiler: `ADJOINT_LOG=compile,trace,graph,rewrite,fusion,kernels,cache` writes to standard error.

Each entry is a line `[adjoint TOPIC] NAME: …`, NAME being the compiled function; a graph or the loops of a kernel
follow as a block of indented lines. The variable is read once, when the first function is compiled. Calls of a
compiled program write nothing.

    compile  a line for each program: how long it took, its kernels, and what made it necessary; and one a second while
             it is made
    trace    a line for each trace: its equations, inputs, guards and effects
    graph    the graph as traced, and the graph that the kernels compute
    rewrite  a line for each pass that changed the graph: equations before and after, rules by how often they applied
    fusion   a line for each kernel: its ops, and why it begins where it does
    kernels  each kernel as loops
    cache    a line for each plan and each kernel: in memory, on disk, or made
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable

from adjoint.core.typing import Operand

TOPICS = ("compile", "trace", "graph", "rewrite", "fusion", "kernels", "cache")


def read_topics(text: str) -> frozenset[str]:
    """Return the topics that a value of ADJOINT_LOG names.

    Raises: ValueError for a topic that does not exist.
    """
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    for name in sorted(names.difference(TOPICS)):
        raise ValueError(f"ADJOINT_LOG has no topic {name!r}; its topics are {', '.join(TOPICS)}")
    return names


LOGGED = read_topics(os.environ.get("ADJOINT_LOG", ""))
# Told of each pass, its name, the stage before it and the stage after, while a page is made: then all passes run.
pass_observers: list[Callable[[str, Operand, Operand], None]] = []
RULE_HITS: Counter[str] | None = Counter() if "rewrite" in LOGGED else None  # of the pass that runs


def log(topic: str, line: str, block: str = "") -> None:
    """Write an entry of a topic in LOGGED: a line, and below it a block. Callers ask LOGGED before they make texts."""
    below = textwrap.indent(block, "    ") + "\n" if block else ""
    sys.stderr.write(f"[adjoint {topic}] {line}\n{below}")


def take_rule_hits() -> str:
    """Return the rules that applied since the last call, the most frequent first: `; one_times 3, …`."""
    if not RULE_HITS:
        return ""
    hits = ", ".join(f"{name} {count}" for name, count in RULE_HITS.most_common())
    RULE_HITS.clear()
    return f"; {hits}"
