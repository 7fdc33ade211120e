"""Exported steps: what they compute away from Python, and what is refused by its name."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.exported_steps import as_array, needs_node, run_in_node

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

PRECISION = 2e-6  # of float32 sums in another order, without fused multiply-add


def close(got: object, wanted: ad.Tensor | float, tolerance: float = PRECISION) -> bool:
    if isinstance(wanted, ad.Tensor):
        wanted = (ad.view_as_real(wanted) if wanted.is_complex() else wanted).detach().numpy()
    values = np.asarray(wanted)
    return bool(np.allclose(as_array(got), values, rtol=tolerance, atol=tolerance))


def digits_step() -> tuple[object, nn.Module]:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


@needs_node
def test_a_training_step_trains_as_in_python(tmp_path: Path) -> None:
    step, model = digits_step()
    batches = [(ad.rand(32, 64), ad.randint(0, 10, (32,))) for _ in range(20)]
    step(*batches[0])
    wasm, image, script = step.export(tmp_path / "train.wasm", "wasm32")
    assert [path.name for path in (wasm, image, script)] == ["train.wasm", "train.bin", "train.mjs"]
    assert wasm.stat().st_size <= 30_000
    losses = [step(*batch).item() for batch in batches]
    answer = run_in_node(script, [list(batch) for batch in batches])
    assert np.allclose(answer["out"], losses, rtol=1e-6)
    for name, parameter in model.named_parameters():
        assert close(answer["state"][name], parameter, 1e-5)
    assert as_array(answer["state"]["0.weight step"]) == 21


@needs_node
def test_a_check_that_fails_is_told_and_changes_nothing(tmp_path: Path) -> None:
    step, model = digits_step()
    step(ad.rand(32, 64), ad.randint(0, 10, (32,)))
    script = step.export(tmp_path / "train.wasm", "wasm32")[2]
    x, y = ad.rand(32, 64), ad.randint(0, 10, (32,))
    answer = run_in_node(script, [[x, ad.full_like(y, 10)], [ad.rand(3), y], [x, y], [x, y]], {"lr": 0.0})
    assert "RangeError: Target" in answer["out"][0]["error"]
    assert answer["out"][1]["error"] == "RangeError: argument 0 has 3 numbers, not 2048 (of shape [32,64])"
    assert answer["out"][2] == answer["out"][3]  # a setting is read in each call
    assert close(answer["state"]["0.weight"], dict(model.named_parameters())["0.weight"], 0.0)


VALUES = {  # with the bound of their error, relative to 1 or to the value
    "exp": (lambda x: x.exp(), 2e-7),
    "log": (lambda x: x.abs().log(), 2e-7),
    "pow": (lambda x: x.abs() ** 1.7, 2e-7),
    "sin": (lambda x: ad.sin(x * 1000.0), 2e-7),
    "remainder": (lambda x: x % 0.3, 0.0),
    "quotient": (lambda x: (x * 1e6) // 0.7, 0.0),
    "double": (lambda x: x.double().abs() ** 1.3, 1e-15),
    "product": (lambda x: x @ x.t(), 2e-6),
    "order": (lambda x: x.sort(1)[1], 0.0),
    "complex": (lambda x: ad.fft.rfft(x), 2e-6),
    "bfloat16": (lambda x: x.bfloat16().float(), 0.0),
    "transposed": (lambda x: (x + 1).view(4, 32).t(), 0.0),
    "slice": (lambda x: (x * 2)[1:3, ::2], 0.0),
    "argument": (lambda x: x, 0.0),
    "item": (lambda x: x.sum().item(), 2e-6),
    "none": (lambda x: None, 0.0),
    "list": (lambda x: [3, (x > 0).sum()], 0.0),
}


@needs_node
def test_values_are_those_of_the_compiled_step(tmp_path: Path) -> None:
    ad.manual_seed(1)
    x = ad.randn(8, 16)
    step = ad.compile(lambda x: {name: function(x) for name, (function, _) in VALUES.items()})
    wanted = step(x)
    (got,) = run_in_node(step.export(tmp_path / "step.wasm", "wasm32")[2], [[x]])["out"]
    assert got.keys() == wanted.keys()
    for name, (_, tolerance) in VALUES.items():
        for one, other in zip(flatten(got[name]), flatten(wanted[name]), strict=True):
            assert one is other is None or close(one, other, tolerance), name


@needs_node
@pytest.mark.nightly
def test_matrices_are_solved(tmp_path: Path) -> None:
    step = ad.compile(lambda x: ad.linalg.solve(x @ x.t() + 4 * ad.eye(8), x))
    x = ad.randn(8, 16)
    wanted = step(x)
    (got,) = run_in_node(step.export(tmp_path / "solve.wasm", "wasm32")[2], [[x]])["out"]
    assert close(got, wanted, 2e-5)


def flatten(value: object) -> list[object]:
    """The leaves of what a step returns, here or in Node."""
    if isinstance(value, dict) and "shape" not in value:
        return [leaf for part in value.values() for leaf in flatten(part)]
    return [leaf for part in value for leaf in flatten(part)] if isinstance(value, list | tuple) else [value]


@needs_node
def test_draws_continue_the_generator_of_the_process(tmp_path: Path) -> None:
    step = ad.compile(lambda x: F.dropout(x, 0.5) + ad.rand(8, 16))
    x = ad.ones(8, 16)
    step(x)
    script = step.export(tmp_path / "draw.wasm", "wasm32")[2]
    wanted = [step(x) for _ in range(3)]
    for got, values in zip(run_in_node(script, [[x]] * 3)["out"], wanted, strict=True):
        assert close(got, values, 0.0)


@needs_node
def test_numbers_among_the_arguments_are_arguments(tmp_path: Path) -> None:
    step = ad.compile(lambda x, k: x * k)
    x = ad.arange(3.0)
    step(x, 2.0)
    step(x, 3.0)
    got = run_in_node(step.export(tmp_path / "scale.wasm", "wasm32")[2], [[x, 5.0]])["out"]
    assert close(got[0], x * 5.0, 0.0)


@needs_node
@pytest.mark.parametrize(
    "kind", ["batchnorm", pytest.param("lstm", marks=pytest.mark.nightly), "accumulate", "convolution", "attention"]
)
def test_layers_and_what_they_keep(kind: str, tmp_path: Path) -> None:
    ad.manual_seed(0)
    layer = {
        "batchnorm": nn.BatchNorm1d(8), "lstm": nn.LSTM(8, 16), "accumulate": nn.Linear(8, 8),
        "convolution": nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.MaxPool1d(2), nn.Flatten()),
        "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    }[kind]  # fmt: skip

    def step(x: ad.Tensor) -> object:
        if kind != "accumulate":
            with ad.no_grad():
                return layer(x)
        loss = layer(x).square().mean()
        loss.backward()
        return loss, layer.weight.grad

    compiled = ad.compile(step)
    inputs = [ad.randn(4, 8) for _ in range(3)]
    compiled(inputs[0])
    compiled(inputs[0])
    script = compiled.export(tmp_path / "layer.wasm", "wasm32")[2]
    wanted = [[leaf.detach().clone() for leaf in flatten(compiled(x))] for x in inputs]
    for got, values in zip(run_in_node(script, [[x] for x in inputs])["out"], wanted, strict=True):
        assert all(close(a, b) for a, b in zip(flatten(got), values, strict=True))


def test_what_cannot_go_is_refused_by_name(tmp_path: Path) -> None:
    seen: list[ad.Tensor] = []
    cases = {
        "NumPy computes svd, at test_exported_step.py:": lambda x: ad.linalg.svd(x)[1],
        r"changes a Python object in each call \(contents of a list\)": lambda x: seen.append(x.sum()),
        "Python decides in each call, by values": lambda x: x + 1 if x.sum() > 0 else x - 1,
    }
    for words, function in cases.items():
        step = ad.compile(function)
        step(ad.rand(4, 4))
        with pytest.raises(RuntimeError, match=words):
            step.export(tmp_path / "step.wasm", "wasm32")
    assert [*tmp_path.iterdir()] == []


def test_unknown_targets_and_steps_without_a_program_are_told(tmp_path: Path) -> None:
    step = ad.compile(lambda x: x + 1)
    with pytest.raises(ValueError, match="knows no target 'sparc'; it knows 'native', 'wasm32', 'x86-64-v2'"):
        step.export(tmp_path / "step.wasm", "sparc")
    with pytest.raises(RuntimeError, match="was not called yet: call it once with inputs like those to come"):
        step.export(tmp_path / "step.wasm", "wasm32")
