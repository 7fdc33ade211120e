"""Recipes of kernels for eager calls: one function of arrays, traced, fused and lowered once for each set of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.eager.bound_kernel import KernelArguments, Recipe
from adjoint.compiler.ir.graph import Argument, Constant, Graph, Value
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.cost_model import estimate_seconds
from adjoint.compiler.passes.fusion import fuse
from adjoint.compiler.passes.index_checks import insert_index_checks
from adjoint.compiler.passes.inline_producers import inline_producers
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.simplify import eliminate_dead_code, rewrite
from adjoint.compiler.program.buffer_binding import Binding
from adjoint.compiler.trace.step_outputs import StepEffects
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.eager_kernels import KernelFunction, KernelOperand
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Params
from adjoint.ops.movement.movement import permute


def make_recipe(native: KernelFunction, arguments: KernelArguments, params: Params) -> Recipe:
    """Return the recipe of a function's kernel; an empty recipe if a part of it would be left to NumPy."""
    graph, several = _trace_function(native, arguments, params)
    graph = eliminate_dead_code(insert_index_checks(rewrite(graph)))
    operands = [i for i, x in enumerate(arguments) if type(x) is KernelOperand]
    outcome = StepEffects(len(operands))
    symbols = {operands[v.source.number]: v for v in graph.inputs_of_kind(Argument)}
    written = [symbols[i] for i in native.written if i in symbols]
    count = len(graph.outputs) - len(written)
    outcome.results = graph.outputs[:count]
    outcome.writes = list(zip(written, graph.outputs[count:], strict=True))
    graph = materialize_views(graph)
    outcome.follow(graph.outputs)
    graph, late, known = inline_producers(graph, written)
    outcome.follow(graph.outputs)
    graph.verify()
    fusion = known or fuse(graph, late)
    if any(group.call and group.equations[0].op.family != "check" for group in fusion.order):
        return Recipe()
    binding = Binding(graph, fusion, lower_all(fusion, host()), outcome)
    # what is written must be so in place
    return Recipe() if binding.copies_out else _recipe_of_binding(binding, several)


def _trace_function(native: KernelFunction, arguments: KernelArguments, params: Params) -> tuple[Graph, bool]:
    """The function's graph: outputs are its results, then what it wrote; and whether there are several results."""
    tracer = Tracer(native.name)
    given: list[Any] = []
    with ModeScope(
        interpreter=tracer, forward_levels=None, anomaly_detector=None, saved_tensor_hooks=(), recording=False
    ):
        number = 0
        for x in arguments:
            if type(x) is KernelOperand:
                given.append(_make_operand(tracer, x, number))
                number += 1
            else:
                given.append(x)
        result = native.function(*given, **params)
        results = result if type(result) is tuple else () if result is None else (result,)
        outputs = [tracer.adopt(r) for r in results]
        outputs += [tracer.adopt(given[i]) for i in native.written if type(arguments[i]) is KernelOperand]
    tracer.graph.outputs = outputs
    return tracer.graph, type(result) is tuple


def _make_operand(tracer: Tracer, x: KernelOperand, number: int) -> Tensor:
    shape = x.shape if x.dim_order is None else tuple(x.shape[d] for d in x.dim_order)
    tensor: Tensor = wrap(tracer.graph.input(Spec(shape, x.dtype), Argument(number, f"{number}")))
    if x.dim_order is None:
        return tensor
    moved: Tensor = permute(tensor, axes=tuple(x.dim_order.index(d) for d in range(len(shape))))
    return moved


def _recipe_of_binding(binding: Binding, several: bool) -> Recipe:
    """Return a recipe without the memory of this process that it was bound to."""
    fusion, graph, kernels = binding.fusion, binding.graph, binding.kernels
    constants = {v: i for i, v in enumerate(graph.inputs_of_kind(Constant))}
    operands = binding.outcome.arguments
    numbers = {f"a{i}": i for i in range(operands)}
    numbers.update((name, operands + i) for i, name in enumerate(binding.result_names))
    places: list[int] = []
    steps: list[tuple[str, int, int]] = []
    rows: list[tuple[str, int]] = []
    bindings: list[tuple[int, int]] = []

    # A row of the argument table: the address of an operand or a result, of a constant, or an offset in the arena. All
    # are filled in by the process that runs the recipe.
    def add(v: Value, offset: int = 0) -> None:
        if v in binding.local_names:
            number = numbers[binding.local_names[v]]
            if number not in places:
                places.append(number)
            bindings.append((places.index(number), len(rows)))
            rows.append(("word", 0))
        elif v in constants:
            assert not offset
            rows.append(("constant", constants[v]))
        else:
            rows.append(("arena", binding.plan.offsets[v] + offset))

    for group in fusion.order:
        kernel = kernels.get(group)
        steps.append(("" if kernel is None else kernel.name, len(rows), 1 if kernel is None else kernel.tiles))
        if kernel is None:
            view = binding.condition_view(group)
            assert view is not None, "a check of what is not in memory"
            add(view.base, view.offset)
            continue
        assert kernel.generator is None
        for v in kernel.arguments:
            add(v)
        rows += [("scratch", 0)] * bool(kernel.scratch)
        rows += [("word", number) for number in kernel.numbers]
    for v in binding.outcome.results:  # a type is kept as the name by which NumPy finds the same object
        if np.dtype(v.dtype.str) is not v.dtype:
            raise TypeError(f"no eager kernel gives {v.dtype}")
    times = {g: estimate_seconds(g, fusion) for g in kernels}
    return Recipe(
        results=tuple((v.shape, v.dtype.str) for v in binding.outcome.results),
        several=several,
        places=tuple(places),
        steps=tuple(steps),
        rows=tuple(rows),
        bindings=tuple(bindings),
        constants=tuple(v.source.array for v in constants),
        arena=binding.plan.size,
        scratch=max((k.scratch for k in kernels.values()), default=0),
        seconds=sum(times.values()),
        divided=sum(times[g] for g, kernel in kernels.items() if kernel.tiles > 1),
        objects=tuple(compile_kernel(k.code) for k in {k.name: k for k in kernels.values()}.values()),
    )
