"""ADJOINT_LOG: which topics there are, what each writes, and that nothing is written without it."""

from __future__ import annotations

import math
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.compiler.log import TOPICS, read_topics

pytest.importorskip("llvmlite")

PROGRAM = """
import adjoint as ad

@ad.compile
def step(x):
    return (x * 1.0).exp() + (x.T.T * 1.0).exp().sum(0)

step(ad.ones(3, 4))
step(ad.ones(3, 4))
step(ad.ones(5, 4))
"""
LINES = {
    "compile": [r"step: compiled in \d+(\.\d)? m?s: 1 kernel",
                r"step: compiled in \d+(\.\d)? m?s: 1 kernel; dimension 0 of argument 'x': 3 → 5.*"],
    "trace": [r"step: 8 equations of 1 input, \d+ guards, 0 writes, 0 effects in Python"],
    "graph": [r"step: as traced", r"step: as computed"],
    "rewrite": [r"step: apply_rules: 8 → 3 equations; times_one 2, .*"],
    "fusion": [r"step: \[0\] exp sum add: it reads only inputs"],
    "kernels": [r"step: \[0\] nest_\w+, 1 tile"],
    "cache": [r"step: plan made, of a kind that is not kept", r"kernel [0-9a-f]{12}: compiled, \d+ bytes"],
}  # fmt: skip


def _run(topics: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "program.py"
    script.write_text(PROGRAM)
    settings = {**os.environ, "ADJOINT_LOG": topics, "ADJOINT_NO_CACHE": "1"}
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=settings, check=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _run(", ".join(TOPICS), tmp_path_factory.mktemp("log")).stderr


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_writes_its_lines(topic: str, log: str) -> None:
    lines = re.findall(rf"^\[adjoint {topic}\] (.*)$", log, re.MULTILINE)
    for expected in LINES[topic]:
        assert any(re.fullmatch(expected, line) for line in lines), lines


def test_blocks_are_indented(log: str) -> None:
    assert "[adjoint graph] step: as traced\n    graph step\n      %0: f32[3,4] = argument 0\n" in log
    assert re.search(r"tiles?\n    for i in range\(", log)
    assert all(line.startswith(("[adjoint ", "    ")) for line in log.splitlines())


def test_only_what_is_asked_for_is_written(tmp_path: Path) -> None:
    assert _run("", tmp_path).stderr == ""
    assert {line.split("]")[0] for line in _run("fusion", tmp_path).stderr.splitlines()} == {"[adjoint fusion"}


def test_verbose_tells_of_one_function_what_the_log_tells_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    @ad.compile(verbose=True)
    def told(x: ad.Tensor) -> ad.Tensor:
        return ad.exp(x) * ad.linalg.qr(x)[1]

    @ad.compile
    def untold(x: ad.Tensor) -> ad.Tensor:
        return ad.exp(x)

    for _ in range(3):
        told(ad.eye(3))
        untold(ad.eye(3))
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[adjoint compile\] told: compiled in \d+(\.\d)? m?s: 1 kernel, 1 NumPy call", line), line
    copy = pickle.loads(pickle.dumps(ad.compile(math.sqrt, verbose=True)))
    copy(4)
    assert "sqrt: compiled in" in capsys.readouterr().err


def test_a_module_is_compiled_verbosely(capsys: pytest.CaptureFixture[str]) -> None:
    linear = ad.nn.Linear(3, 2)
    linear.compile(verbose=True)
    linear(ad.ones(4, 3))
    assert "compiled in" in capsys.readouterr().err


def test_an_unknown_topic_is_an_error(tmp_path: Path) -> None:
    assert read_topics(" trace ,cache,") == {"trace", "cache"}
    with pytest.raises(ValueError, match=r"ADJOINT_LOG has no topic 'cahe'; its topics are compile, trace, graph,"):
        read_topics("trace,cahe")
    assert "ValueError: ADJOINT_LOG has no topic 'all'" in _run("all", tmp_path).stderr
