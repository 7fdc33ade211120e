"""The cache of plans on disk: a trace that another process has compiled is bound at once.

The key is of all that decides a plan: the graph with its constants and origins, what it overwrites, the machine, and
the source files of this package. Inputs are told by their numbers, ops by their names. Groups of ranks and buckets of
gradients are told by their ranks and sizes; a plan that is read gets those of its trace. A graph with a user's op, a
generator or an array among its parameters has no key; a plan that cannot be read is made again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from adjoint.compiler.cache.disk_cache import default_disk_cache
from adjoint.compiler.cache.hashing import new_hasher
from adjoint.compiler.cache.plan_codec import dump_plan, load_plan, op_location, owned_objects
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.ir.graph import (
    Argument,
    Constant,
    Graph,
    IncomingGrad,
    ScalarInput,
    Setting,
    Source,
    StateInput,
    Value,
)
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.log import LOGGED, log, pass_observers
from adjoint.core.typing import Params

PLAN_SUFFIX = ".plan"
MIN_EQUATIONS_TO_CACHE = 32  # equations from which on to read a plan takes less time than to make it
UNSTABLE_REPR_MARKS = (" at 0x", "array(")  # in a text that does not tell all

MakePlan = Callable[[Graph, Sequence[Value], str], CachedPlan]


def load_or_make_plan(
    graph: Graph, written: Sequence[Value], precision: str, make_plan: MakePlan
) -> tuple[CachedPlan, Callable[[], None]]:
    """The plan of a traced graph that overwrites the inputs `written`: from disk, else newly made by `make_plan`.

    Also what keeps it, to be called when its program is bound, and what that asks is known too.
    """
    disk = None if pass_observers or graph.symbols else default_disk_cache()  # the guards of a plan are not kept
    key = _plan_key(graph, written, precision) if disk and len(graph.equations) >= MIN_EQUATIONS_TO_CACHE else None
    kept = disk.read(key, PLAN_SUFFIX) if disk and key else None
    if kept is not None:
        with suppress(Exception):
            plan = load_plan(kept, graph)
            if "cache" in LOGGED:
                log("cache", f"{graph.name}: plan read from disk")
            return plan, lambda: None
    if "cache" in LOGGED:
        log("cache", f"{graph.name}: plan made" + ("" if key else ", of a kind that is not kept"))
    plan = make_plan(graph, written, precision)

    def keep() -> None:
        data = dump_plan(plan, graph) if key else None
        if disk and key and data:
            disk.write(key, data, PLAN_SUFFIX)

    return plan, keep


def _plan_key(graph: Graph, written: Sequence[Value], precision: str) -> str | None:
    """The digest of all that decides the plan; None if that cannot be told."""
    digest = new_hasher()
    numbers: dict[object, int] = {v: i for i, v in enumerate((*graph.inputs, *graph.equations))}
    facts: list[object] = [
        source_fingerprint(),
        host().fingerprint(),
        sys.version,
        np.__version__,
        precision,
        graph.name,
    ]
    facts += [[numbers[v] for v in graph.outputs], [numbers[v] for v in written]]
    for v in graph.inputs:
        facts.append((_source_facts(v.source), v.shape, v.dtype.str, v.dtype.name))
        if isinstance(v.source, Constant):
            digest.update(np.ascontiguousarray(v.source.array).tobytes())
    # What many equations have in common is told once, and in them by its number.
    ops: dict[object, int] = {}
    types: dict[np.dtype[Any], int] = {}
    origins: dict[object, int] = {}
    owned = owned_objects(graph)
    for v in graph.equations:
        if v.op.effect and v.op.family not in ("check", "collective", "boundary"):
            return None  # a generator is this process's own
        inputs = [(numbers[x],) if type(x) is Value else x for x in v.inputs]
        op, dtype = ops.setdefault(v.op, len(ops)), types.setdefault(v.dtype, len(types))
        params = v.params if v.op.family != "collective" else _tell_ranks(v.params, owned)
        facts.append((op, inputs, params, v.shape, dtype, origins.setdefault(v.origin, len(origins))))
    names = [op_location(op) for op in ops]
    text = repr((facts, names, [(t.str, t.name) for t in types], list(origins)))
    if None in names or any(word in text for word in UNSTABLE_REPR_MARKS):
        return None
    digest.update(text.encode())
    return digest.hexdigest()


def _tell_ranks(params: Params, owned: list[object]) -> list[object]:
    """Return an exchange's parameters, with the facts about the groups and buckets of this process among them."""
    numbers = {id(x): i for i, x in enumerate(owned)}
    return [(name, numbers.get(id(x)), x.plan_facts() if id(x) in numbers else x) for name, x in params.items()]


def _source_facts(source: Source) -> tuple[object, ...]:
    """Return the facts about an input's source that a plan may depend on."""
    if isinstance(source, Argument):
        return ("argument", *source)
    if isinstance(source, StateInput):
        return "state", source.name, source.expression is None, source.strides
    if isinstance(source, Setting):
        return "setting", source.name
    if isinstance(source, ScalarInput):
        return "number", source.name
    if isinstance(source, IncomingGrad):
        return "gradient", source.number
    return "constant", source.array.strides
