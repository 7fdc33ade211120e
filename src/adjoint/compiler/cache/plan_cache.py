"""The cache of plans on disk: a trace that another process has compiled is bound at once.

The key is of all that decides a plan: the graph with its constants and origins, what it overwrites, the machine, and
the source files of this package. Inputs are told by their numbers, ops by their names. A graph with a user's op, a
generator or an array among its parameters has no key; a plan that cannot be read is made again.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import IO, Any

import numpy as np

from adjoint.compiler.cache.disk_cache import default_disk_cache
from adjoint.compiler.cache.hashing import new_hasher
from adjoint.compiler.cache.source_fingerprint import FINGERPRINT_LAYERS, source_fingerprint
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
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import KernelText
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.log import LOGGED, log
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.core.op.op import Op

PLAN_SUFFIX = ".plan"
MIN_EQUATIONS_TO_CACHE = 32  # equations from which on to read a plan takes less time than to make it
UNSTABLE_REPR_MARKS = (" at 0x", "array(")  # in a text that does not tell all
TRANSIENT_FUSION_FIELDS = ("graph", "spaces")  # which another process makes itself

MakePlan = Callable[[Graph, Sequence[Value], str], CachedPlan]


def load_or_make_plan(
    graph: Graph, written: Sequence[Value], precision: str, make_plan: MakePlan
) -> tuple[CachedPlan, Callable[[], None]]:
    """The plan of a traced graph that overwrites the inputs `written`: from disk, else newly made by `make_plan`.

    Also what keeps it, to be called when its program is bound, and what that asks is known too.
    """
    disk = default_disk_cache()
    key = _plan_key(graph, written, precision) if disk and len(graph.equations) >= MIN_EQUATIONS_TO_CACHE else None
    kept = disk.read(key, PLAN_SUFFIX) if disk and key else None
    if kept is not None:
        with suppress(Exception):
            plan = _load_plan(kept, graph)
            if "cache" in LOGGED:
                log("cache", f"{graph.name}: plan read from disk")
            return plan, lambda: None
    if "cache" in LOGGED:
        log("cache", f"{graph.name}: plan made" + ("" if key else ", of a kind that is not kept"))
    plan = make_plan(graph, written, precision)

    def keep() -> None:
        data = _dump_plan(plan, graph) if key else None
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
    for v in graph.equations:
        if v.op.effect and v.op.family != "check":
            return None  # a generator is this process's own
        inputs = [(numbers[x],) if type(x) is Value else x for x in v.inputs]
        op, dtype = ops.setdefault(v.op, len(ops)), types.setdefault(v.dtype, len(types))
        facts.append((op, inputs, v.params, v.shape, dtype, origins.setdefault(v.origin, len(origins))))
    names = [_op_location(op) for op in ops]
    text = repr((facts, names, [(t.str, t.name) for t in types], list(origins)))
    if None in names or any(word in text for word in UNSTABLE_REPR_MARKS):
        return None
    digest.update(text.encode())
    return digest.hexdigest()


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


@cache
def _op_location(op: Op) -> tuple[str, str] | None:
    """Return the module and name of a library op; None for a user's, or one made on the way."""
    module, name = op.evaluate.__module__, op.evaluate.__name__
    known = module.startswith(tuple(f"adjoint.{layer}." for layer in FINGERPRINT_LAYERS))
    found = getattr(sys.modules.get(module), name, None) if known else None
    return (module, name) if getattr(found, "op", None) is op else None


class _Pickler(pickle.Pickler):
    """Writes ops, the graph's inputs, groups and common types by their names."""

    def __init__(self, file: IO[bytes], inputs: dict[Value, int], groups: dict[Group, int]) -> None:
        super().__init__(file, 5)
        self.inputs, self.groups = inputs, groups

    def persistent_id(self, found: Any) -> int | tuple[object, ...] | None:
        kind = type(found)
        if kind is Value:
            return self.inputs.get(found)
        if kind is Group:
            return "group", self.groups[found]
        if kind is Op:
            location = _op_location(found)
            if location is None:
                raise pickle.PicklingError(f"{found} is no op of the library's")
            return "op", *location
        if isinstance(found, np.dtype) and np.dtype(found.str) is found:
            return "type", found.str
        return None


class _Unpickler(pickle.Unpickler):
    """Finds them again. A group's content comes last of all."""

    def __init__(self, file: IO[bytes], inputs: list[Value]) -> None:
        super().__init__(file)
        self.inputs = inputs
        self.groups: dict[int, Group] = {}

    def persistent_load(self, place: Any) -> object:
        if type(place) is int:
            return self.inputs[place]
        kind, name, *more = place
        if kind == "group":
            if name not in self.groups:
                self.groups[name] = object.__new__(Group)
            return self.groups[name]
        return import_module(name).__dict__[more[0]].op if kind == "op" else np.dtype(name)


def _dump_plan(plan: CachedPlan, traced: Graph) -> bytes | None:
    """A plan as bytes; None if something in it belongs to this process."""
    fusion, graph = plan.fusion, plan.graph
    content = {name: value for name, value in vars(fusion).items() if name not in TRANSIENT_FUSION_FIELDS}
    kernels = []
    for kernel in plan.kernels.values():
        if kernel.generator is not None:
            return None
        code = kernel.code.key if isinstance(kernel.code, KernelText) else None
        text = None if code else str(kernel.code)
        sizes = kernel.tiles, kernel.scratch, kernel.numbers
        kernels.append((kernel.name, code, text, kernel.arguments, kernel.group, *sizes))
    groups = [
        {name: getattr(g, name) for name in Group.__slots__ if name not in Group.TRANSIENT_SLOTS} for g in fusion.order
    ]
    file = io.BytesIO()
    numbers = {v: i for i, v in enumerate(traced.inputs)}
    pickler = _Pickler(file, numbers, {g: i for i, g in enumerate(fusion.order)})
    with suppress(Exception):  # what cannot be told to another process is not kept
        # equations first, each after its operands, so that nothing nests
        pickler.dump((graph.name, graph.inputs, graph.equations, graph.outputs, content, kernels, plan.rounds, groups))
        return file.getvalue()
    return None


def _load_plan(data: bytes, traced: Graph) -> CachedPlan:
    unpickler = _Unpickler(io.BytesIO(data), traced.inputs)
    name, inputs, equations, outputs, content, kernels, rounds, groups = unpickler.load()
    graph = Graph(name)
    graph.inputs, graph.equations, graph.outputs = inputs, equations, outputs
    for i, slots in enumerate(groups):
        for slot, value in (*slots.items(), *((slot, set()) for slot in Group.TRANSIENT_SLOTS)):
            setattr(unpickler.groups[i], slot, value)
    fusion = Fusion(graph=graph, **content)
    made: dict[str, str] = {}
    found = {}
    for name, key, text, arguments, group, tiles, scratch, passed in kernels:
        code = text if key is None else KernelText(key, partial(_lower_kernel_text, name, fusion, made))
        found[group] = Kernel(name, code, arguments, group, tiles, scratch, None, passed)
    return CachedPlan(graph, fusion, found, rounds)


def _lower_kernel_text(name: str, fusion: Fusion, made: dict[str, str]) -> str:
    """The text of a kernel, which is written when somebody reads it."""
    from adjoint.compiler.kernels.lowerings import lower_all

    if not made:
        made |= {kernel.name: kernel.text for kernel in lower_all(fusion, host()).values()}
    return made[name]
