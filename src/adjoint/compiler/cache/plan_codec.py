"""Plans as bytes: rows of numbers for equations, views, groups and kernels; ops and types by their names.

To write and to read the objects themselves takes ten times as long.
"""

from __future__ import annotations

import io
import pickle
import sys
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import IO

import numpy as np

from adjoint.compiler.cache.source_fingerprint import FINGERPRINT_LAYERS
from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import KernelText
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Operand

VALUE_SLOTS = ("equations", "reductions", "reduced_values", "concatenations", "prologue", "stored")  # of a group
PLAIN_SLOTS = tuple(sorted({*Group.__slots__} - {*VALUE_SLOTS, *Group.TRANSIENT_SLOTS, "root"}))


Row = tuple[object, ...]


def owned_objects(traced: Graph) -> list[object]:
    """Return the groups of ranks and the buckets of gradients of a traced graph, which are this process's own."""
    found = [x for v in traced.equations if v.op.family == "collective" for x in v.params.values()]
    return list({id(x): x for x in found if hasattr(x, "plan_facts")}.values())


@cache
def op_location(op: Op) -> tuple[str, str] | None:
    """Return the module and name of a library op; None for a user's, or one made on the way."""
    module, name = op.evaluate.__module__, op.evaluate.__name__
    known = module.startswith(tuple(f"adjoint.{layer}." for layer in FINGERPRINT_LAYERS))
    found = getattr(sys.modules.get(module), name, None) if known else None
    return (module, name) if getattr(found, "op", None) is op else None


def dump_plan(plan: CachedPlan, traced: Graph) -> bytes | None:
    """A plan as bytes; None if something in it belongs to this process."""
    fusion, graph, kernels = plan.fusion, plan.graph, plan.kernels.values()
    known = set(traced.inputs)
    further = [v for v in graph.inputs if v not in known]  # constants that passes have made
    values = {v: i for i, v in enumerate((*traced.inputs, *further, *graph.equations))}
    groups = {g: i for i, g in enumerate(fusion.order)}
    if any(kernel.generator is not None for kernel in kernels):
        return None
    objects: dict[object, int] = {}
    for v in graph.equations:
        for x in (v.op, v.dtype, v.origin):
            objects.setdefault(x, len(objects))
    codes = {k.name: (k.code.key, None) if isinstance(k.code, KernelText) else (None, str(k.code)) for k in kernels}
    with suppress(Exception):  # what cannot be told to another process is not kept
        rows = (
            (graph.name, fusion.precision, plan.rounds),
            [values[v] for v in graph.inputs],
            [values[v] for v in graph.outputs],
            [_equation_row(v, values, objects) for v in graph.equations],
            [(values[v], values[view.base], *view[1:]) for v, view in fusion.views.items() if view.base is not v],
            [
                (
                    [[values[v] for v in getattr(g, name)] for name in VALUE_SLOTS],
                    None if g.root is None else values[g.root],
                    [getattr(g, name) for name in PLAIN_SLOTS],
                )
                for g in fusion.order
            ],
            [
                (k.name, [values[v] for v in k.arguments], groups[k.group], k.tiles, k.scratch, k.numbers)
                for k in kernels
            ],
            codes,
        )
        file = io.BytesIO()
        pickle.dump(rows, file, 5)
        params = {values[v]: v.params for v in graph.equations if v.params}
        inputs = [(v.shape, v.dtype, v.source) for v in further]
        memory = fusion.placed_in_concat, fusion.elided_concats, fusion.memo
        owned = owned_objects(traced)
        _Pickler(file, values, groups, owned).dump((list(objects), params, inputs))
        _Pickler(file, values, groups, owned).dump(memory)
        return file.getvalue()
    return None


def _equation_row(v: Value, values: dict[Value, int], objects: dict[object, int]) -> Row:
    others = None
    if len(v.operands) != len(v.inputs):
        others = [(i, x) for i, x in enumerate(v.inputs) if type(x) is not Value]
    return objects[v.op], [values[x] for x in v.operands], others, v.shape, objects[v.dtype], objects[v.origin]


def load_plan(data: bytes, traced: Graph) -> CachedPlan:
    """The plan that `dump_plan` wrote of an equal traced graph."""
    file = io.BytesIO(data)
    (name, precision, rounds), inputs, outputs, equations, view_rows, group_rows, kernel_rows, codes = pickle.load(file)
    values, groups = [*traced.inputs], [object.__new__(Group) for _ in group_rows]
    owned = owned_objects(traced)
    objects, params, further = _Unpickler(file, values, groups, owned).load()
    values += [Value(None, (), {}, Spec(shape, dtype), None, source) for shape, dtype, source in further]
    given = len(values)
    for op, operands, others, shape, dtype, origin in equations:
        read: list[Operand] = [values[i] for i in operands]
        for i, x in others or ():
            read.insert(i, x)
        spec = Spec(shape, objects[dtype])
        values.append(Value(objects[op], tuple(read), params.get(len(values), {}), spec, objects[origin]))
    graph = Graph(name)
    graph.inputs, graph.outputs = [values[i] for i in inputs], [values[i] for i in outputs]
    graph.equations = values[given:]
    views = {v: StridedView.in_memory(v) for v in (*graph.inputs, *graph.equations)}
    views.update((values[v], StridedView(values[base], *place)) for v, base, *place in view_rows)
    for group, row in zip(groups, group_rows, strict=True):
        _fill_group(group, values, *row)
    maker = {v: group for group in groups for v in group.equations}
    inside, elided, memo = _Unpickler(file, values, groups, owned).load()
    fusion = Fusion(precision, views, maker, graph, groups, inside, elided, memo=memo)
    for i, group in enumerate(groups):  # in order: each after what it needs
        group.ids, group.ancestors, group.needs, group.users = 1 << i, 0, set(), set()
        for need in {maker[b] for v in group.equations for b in fusion.bases_of(v) if b in maker} - {group}:
            group.ancestors |= need.ids | need.ancestors
    made: dict[str, str] = {}
    texts = {
        name: text if key is None else KernelText(key, partial(_lower_kernel_text, name, fusion, made))
        for name, (key, text) in codes.items()
    }
    kernels = {
        groups[g]: Kernel(name, texts[name], [values[i] for i in arguments], groups[g], tiles, scratch, None, numbers)
        for name, arguments, g, tiles, scratch, numbers in kernel_rows
    }
    return CachedPlan(graph, fusion, kernels, rounds)


def _fill_group(
    group: Group, values: list[Value], held: list[list[int]], root: int | None, plain: list[object]
) -> None:
    for name, numbers in zip(VALUE_SLOTS, held, strict=True):
        setattr(group, name, [values[i] for i in numbers])
    group.reduced_values = set(group.reduced_values)
    group.root = None if root is None else values[root]
    for name, value in zip(PLAIN_SLOTS, plain, strict=True):
        setattr(group, name, value)


def _lower_kernel_text(name: str, fusion: Fusion, made: dict[str, str]) -> str:
    """The text of a kernel, which is written when somebody reads it."""
    from adjoint.compiler.kernels.lowerings import lower_all

    if not made:
        made |= {kernel.name: kernel.text for kernel in lower_all(fusion, host()).values()}
    return made[name]


class _Pickler(pickle.Pickler):
    """Writes values, groups and what the process owns as their numbers, ops and common types by their names."""

    def __init__(
        self, file: IO[bytes], values: dict[Value, int], groups: dict[Group, int], owned: list[object]
    ) -> None:
        super().__init__(file, 5)
        self.values, self.groups = values, groups
        self.owned = {id(x): i for i, x in enumerate(owned)}

    def persistent_id(self, found: object) -> tuple[object, ...] | None:
        if isinstance(found, Value):
            return "value", self.values[found]
        if isinstance(found, Group):
            return "group", self.groups[found]
        if id(found) in self.owned:
            return "owned", self.owned[id(found)]
        if isinstance(found, Op):
            location = op_location(found)
            if location is None:
                raise pickle.PicklingError(f"{found} is no op of the library's")
            return "op", *location
        if isinstance(found, np.dtype) and np.dtype(found.str) is found:
            return "type", found.str
        return None


class _Unpickler(pickle.Unpickler):
    """Finds them again."""

    def __init__(self, file: IO[bytes], values: list[Value], groups: list[Group], owned: list[object]) -> None:
        super().__init__(file)
        self.values, self.groups, self.owned = values, groups, owned

    def persistent_load(self, place: Operand) -> object:
        kind, name, *more = place
        if kind == "value":
            return self.values[name]
        if kind == "group":
            return self.groups[name]
        if kind == "owned":
            return self.owned[name]
        return import_module(name).__dict__[more[0]].op if kind == "op" else np.dtype(name)
