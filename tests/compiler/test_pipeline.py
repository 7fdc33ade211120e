"""Each pass of the pipeline as text: a graph before it, and after; and whole programs, stage by stage."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.goldens.programs import PROGRAMS

import adjoint as ad
from adjoint.compiler import pipeline
from adjoint.compiler.build import finish_trace
from adjoint.compiler.ir.graph import Argument, Graph
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.kernels import kernel_kinds
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.passes import fusion_rules
from adjoint.compiler.passes.partition import TracedBackward
from adjoint.compiler.passes.rewrites import gated_matmul
from adjoint.compiler.pipeline import PIPELINE, Pass, StepFacts, run_pipeline
from adjoint.compiler.report.loop_text import format_loops
from adjoint.compiler.trace.result_table import collect_effects
from adjoint.compiler.trace.tracer import Tracer

pytest.importorskip("llvmlite")
GOLDENS = Path(__file__).parent / "goldens"

CASES: dict[str, tuple[str, str]] = {
    "apply_rules": (  # no times one, one exp for two, the constant folded, the log dropped
        """
        graph g
          %0: f32[4] = argument x
          %1: f32[] = constant 2.0
          %2: f32[] = neg(%1)
          %3: f32[4] = mul(%0, 1.0)
          %4: f32[4] = exp(%3)
          %5: f32[4] = exp(%0)
          %6: f32[4] = log(%5)
          %7: f32[4] = add(%4, %5)
          %8: f32[4] = mul(%7, %2)
          return %8
        """,
        """
        graph g
          %0: f32[4] = argument x
          %1: f32[4] = exp(%0)
          %2: f32[4] = add(%1, %1)
          %3: f32[4] = mul(%2, -2.0)
          return %3
        """,
    ),
    "merge_sums": (  # one long product for a sum over a stack
        """
        graph g
          %0: f32[5,2,3] = argument a
          %1: f32[5,3,4] = argument b
          %2: f32[5,2,4] = bmm(%0, %1)
          %3: f32[2,4] = sum(%2, axes=(0,), keepdims=False)
          return %3
        """,
        """
        graph g
          %0: f32[5,2,3] = argument a
          %1: f32[5,3,4] = argument b
          %2: f32[2,5,3] = permute(%0, axes=(1, 0, 2))
          %3: f32[2,15] = reshape(%2, shape=(2, 15))
          %4: f32[15,4] = reshape(%1, shape=(15, 4))
          %5: f32[2,4] = mm(%3, %4)
          return %5
        """,
    ),
    "merge_slices": (  # the gradients of two halves side by side
        """
        graph g
          %0: f32[2,3] = argument a
          %1: f32[2,1] = argument b
          %2: f32[2,4] = unslice(%0, bounds=((0, 2, 1), (0, 3, 1)), shape=(2, 4))
          %3: f32[2,4] = unslice(%1, bounds=((0, 2, 1), (3, 4, 1)), shape=(2, 4))
          %4: f32[2,4] = add(%3, %2)
          return %4
        """,
        """
        graph g
          %0: f32[2,3] = argument a
          %1: f32[2,1] = argument b
          %2: f32[2,4] = cat(%0, %1, axis=1)
          return %2
        """,
    ),
    "merge_products": (  # one product for two that are added
        """
        graph g
          %0: f32[8,1] = argument a
          %1: f32[1,8] = argument b
          %2: f32[8,1] = argument c
          %3: f32[1,8] = argument d
          %4: f32[8,8] = mm(%0, %1)
          %5: f32[8,8] = mm(%2, %3)
          %6: f32[8,8] = add(%4, %5)
          return %6
        """,
        """
        graph g
          %0: f32[8,1] = argument a
          %1: f32[1,8] = argument b
          %2: f32[8,1] = argument c
          %3: f32[1,8] = argument d
          %4: f32[8,2] = cat(%0, %2, axis=1)
          %5: f32[2,8] = cat(%1, %3, axis=0)
          %6: f32[8,8] = mm(%4, %5)
          return %6
        """,
    ),
    "transpose_products": (  # operands transposed in place of the result
        """
        graph g
          %0: f32[2,3] = argument a
          %1: f32[3,4] = argument b
          %2: f32[2,4] = mm(%0, %1)
          %3: f32[4,2] = permute(%2, axes=(1, 0))
          return %3
        """,
        """
        graph g
          %0: f32[2,3] = argument a
          %1: f32[3,4] = argument b
          %2: f32[3,2] = permute(%0, axes=(1, 0))
          %3: f32[4,3] = permute(%1, axes=(1, 0))
          %4: f32[4,2] = mm(%3, %2)
          return %4
        """,
    ),
    "interleave_gates": (  # a weight that four products read is copied once
        """
        graph g
          %0: f32[2,3] = argument x
          %1: f32[3,3] = argument w
          %2: f32[3,3] = permute(%1, axes=(1, 0))
          %3: f32[2,3] = mm(%0, %2)
          %4: f32[2,3] = mm(%3, %2)
          %5: f32[2,3] = mm(%4, %2)
          %6: f32[2,3] = mm(%5, %2)
          return %6
        """,
        """
        graph g
          %0: f32[2,3] = argument x
          %1: f32[3,3] = argument w
          %2: f32[3,3] = permute(%1, axes=(1, 0))
          %3: f32[1,3,1,1,3] = reshape(%2, shape=(1, 3, 1, 1, 3))
          %4: f32[1,3,1,1,3] = copy(%3)
          %5: f32[1,3,3] = reshape(%4, shape=(1, 3, 3))
          %6: f32[2,3] = panel_mm(%0, %5)
          %7: f32[2,3] = panel_mm(%6, %5)
          %8: f32[2,3] = panel_mm(%7, %5)
          %9: f32[2,3] = panel_mm(%8, %5)
          return %9
        """,
    ),
    "insert_index_checks": (  # a check for the argument, none for the constant
        """
        graph g
          %0: f32[9] = argument x
          %1: i64[4] = argument i
          %2: i64[2] = constant [0, 8]
          %3: f32[4] = index(%0, %1, pattern=(0,))                              # a.py:3 in step
          %4: f32[2] = index(%0, %2, pattern=(0,))                              # a.py:4 in step
          return %3, %4
        """,
        """
        graph g
          %0: f32[9] = argument x
          %1: i64[4] = argument i
          %2: i64[2] = constant [0, 8]
          %3: bool[4] = ge(%1, -9)                                              # a.py:3 in step
          %4: bool[4] = lt(%1, 9)                                               # a.py:3 in step
          %5: bool[4] = logical_and(%3, %4)                                     # a.py:3 in step
          %6: bool[] = all(%5, axes=(0,), keepdims=False)                       # a.py:3 in step
          %7: bool[] = require(%6, %1, low=-9, size=9)                          # a.py:3 in step
          %8: f32[4] = index(%0, %1, pattern=(0,))                              # a.py:3 in step
          %9: f32[2] = index(%0, %2, pattern=(0,))                              # a.py:4 in step
          return %8, %9
        """,
    ),
    "rematerialize": (  # backward reads a copy of the relu, made right before
        """
        graph g
          %0: f32[1024,1024] = argument x
          %1: f32[1024,1024] = argument w
          %2: f32[1024,1024] = relu(%0)                                         # a.py:1 in step
          %3: f32[1024,1024] = mm(%2, %1)                                       # a.py:2 in step
          %4: f32[1024,1024] = mm(%3, %1)                                       # a.py:3 in step
          %5: f32[1024,1024] = mm(%4, %1)                                       # a.py:4 in step
          %6: f32[1024,1024] = mm(%5, %1)                                       # a.py:4 in step · backward
          %7: f32[1024,1024] = mul(%6, %2)                                      # a.py:1 in step · backward
          return %7
        """,
        """
        graph g
          %0: f32[1024,1024] = argument x
          %1: f32[1024,1024] = argument w
          %2: f32[1024,1024] = relu(%0)                                         # a.py:1 in step
          %3: f32[1024,1024] = mm(%2, %1)                                       # a.py:2 in step
          %4: f32[1024,1024] = mm(%3, %1)                                       # a.py:3 in step
          %5: f32[1024,1024] = mm(%4, %1)                                       # a.py:4 in step
          %6: f32[1024,1024] = mm(%5, %1)                                       # a.py:4 in step · backward
          %7: f32[1024,1024] = mul(%6, %2)                                      # a.py:1 in step · backward
          return %7
        """,
    ),
    "materialize_views": (  # copies for a reshape without strides, for an output that is a view, for a second output
        """
        graph g
          %0: f32[2,3] = argument x
          %1: f32[3,2] = permute(%0, axes=(1, 0))
          %2: f32[6] = reshape(%1, shape=(6,))
          %3: f32[6] = neg(%2)
          return %1, %3, %3
        """,
        """
        graph g
          %0: f32[2,3] = argument x
          %1: f32[3,2] = permute(%0, axes=(1, 0))
          %2: f32[3,2] = copy(%1)
          %3: f32[6] = reshape(%2, shape=(6,))
          %4: f32[6] = neg(%3)
          %5: f32[3,2] = copy(%1)
          %6: f32[6] = copy(%4)
          return %5, %4, %6
        """,
    ),
    "inline_producers": (  # each of the reductions computes the relu itself
        """
        graph g
          %0: f32[512,512] = argument x
          %1: f32[512,512] = relu(%0)
          %2: f32[512] = sum(%1, axes=(0,), keepdims=False)
          %3: f32[512] = sum(%1, axes=(1,), keepdims=False)
          return %2, %3
        """,
        """
        graph g
          %0: f32[512,512] = argument x
          %1: f32[512,512] = relu(%0)
          %2: f32[512] = sum(%1, axes=(0,), keepdims=False)
          %3: f32[512,512] = relu(%0)
          %4: f32[512] = sum(%3, axes=(1,), keepdims=False)
          return %2, %4
        """,
    ),
}
NOT_TEXT = {
    "recompute_checkpoints": "origins do not print the number of a checkpoint: see test_rematerialize",
    "fuse": "a plan: see passes/test_fusion",
    "lower": "a plan: see kernels",
}
PASSES = {each.name: each for each in PIPELINE}


def _run(name: str, graph: Graph) -> Graph:
    stage = PASSES[name].run(graph, StepFacts())
    return stage if isinstance(stage, Graph) else stage.graph


def _values(graph: Graph) -> list[Any]:
    draw = np.random.default_rng(0)
    arrays = {v.source.name: draw.normal(size=v.shape).astype(v.dtype) for v in graph.inputs_of_kind(Argument)}
    return evaluate(graph, {v: arrays[v.source.name] for v in graph.inputs_of_kind(Argument)})


@pytest.mark.parametrize("name", CASES)
def test_text_in_text_out(name: str) -> None:
    before, after = map(inspect.cleandoc, CASES[name])
    graph = Graph.parse(before)
    result = _run(name, graph)
    result.verify()
    assert str(result) == after
    if name != "rematerialize":
        for ours, expected in zip(_values(result), _values(graph), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("materialize_views", "inline_producers")])
def test_a_pass_leaves_its_own_result_alone(name: str) -> None:
    after = inspect.cleandoc(CASES[name][1])
    assert str(_run(name, Graph.parse(after))) == after


def test_every_pass_is_a_case() -> None:
    assert PASSES.keys() == CASES.keys() | NOT_TEXT.keys()
    assert len(PASSES) == len(PIPELINE)


def test_observers_see_the_stage_after_each_pass() -> None:
    seen: list[str] = []
    graph = Graph.parse(inspect.cleandoc(CASES["transpose_products"][0]))
    plan = run_pipeline(graph, (), "highest", lambda each, stage: seen.append(each.name))
    assert seen == [each.name for each in PIPELINE]
    assert plan.rounds
    assert [v.op.name for v in plan.graph.equations] == ["permute", "permute", "mm"]


class TestGoldens:
    """Graph, graph after each pass, and kernels as loops of goldens/programs.py, on a machine that is always the same.

    `pytest --update-golden` writes the texts anew; look at what changed before you keep them.
    """

    @pytest.fixture(autouse=True)
    def fixed_target(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        if "explanation" in request.node.name:  # a program that runs: on this machine
            return
        target = Target("x86_64-unknown-linux-gnu", "", "+avx2,+fma", "0")
        for module in (pipeline, fusion_rules, gated_matmul, kernel_kinds):
            monkeypatch.setattr(module, "host", lambda: target)

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_stages_read_as_before(self, name: str, request: pytest.FixtureRequest) -> None:
        _compare(_stages(*PROGRAMS[name]()), GOLDENS / f"{name}.txt", request)

    def test_an_explanation_reads_as_before(self, request: pytest.FixtureRequest) -> None:
        function, arguments = PROGRAMS["mlp_step"]()
        function(*arguments)
        compiled = ad.compile(function)
        compiled(*arguments)
        _compare(f"{compiled.explain()}\n", GOLDENS / "mlp_step.explained", request)

    def test_every_text_has_its_program(self) -> None:
        assert {path.stem for path in GOLDENS.glob("*.txt")} == PROGRAMS.keys()
        assert len(PROGRAMS) >= 20


def _compare(text: str, path: Path, request: pytest.FixtureRequest) -> None:
    """Fail if a text without its line numbers is not that of the file; with --update-golden write the file."""
    text = re.sub(r"(programs\.py):\d+", r"\1:0", text)
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing: run pytest --update-golden"
    assert text == path.read_text(encoding="utf-8"), "see the class's docstring"
    assert str(Path.home()) not in text, "the text depends on where this is"


def _stages(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The traced graph, what each pass changed of it, and the loops of its kernels."""
    if function.__name__ == "step":
        function(*arguments)  # the first call makes the gradients and the optimizer's state
    tracer = Tracer(function.__name__)
    try:
        for i, tensor in enumerate(arguments):
            tracer.bind_argument(tensor, i, str(i))
        outcome, results = collect_effects(tracer, tracer.trace(function, arguments, {}), list(arguments))
        finish_trace(tracer, outcome, results, list(arguments), TracedBackward(None, [], {}))
    finally:
        tracer.restore()
    texts = {"traced": str(tracer.graph)}

    def observe(each: Pass, stage: Any) -> None:
        if each.name in ("fuse", "lower"):
            return
        text = str(stage if isinstance(stage, Graph) else stage.graph)
        if text != last[0]:
            texts[f"after {each.name}"] = last[0] = text

    last = [str(tracer.graph)]
    plan = run_pipeline(tracer.graph, [symbol for symbol, _ in outcome.writes], "highest", observe)
    names = plan.graph.names()
    for i, group in enumerate(plan.fusion.order):
        texts[f"kernel {i}: {group.reason}"] = format_loops(group, plan.fusion, names)
    return "\n".join(f"== {title}\n{text}\n" for title, text in texts.items())
