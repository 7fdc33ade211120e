"""Names and arguments of functions in traced code are PyTorch's."""

from __future__ import annotations

import importlib
import inspect
import json
from functools import cache
from typing import Any

import pytest
from tests.support.scripts import output_of

import adjoint as ad
from adjoint import fx
from adjoint.compat.fx.qualified_names import (
    NN_FUNCTIONS,
    POSITIONAL_COUNTS,
    TORCH_FUNCTIONS,
    get_qualified_name,
    public_functions,
)
from adjoint.core.runtime.lazy_import import names_of

PYTHON_CALLS = [
    (module, f"{name}({', '.join('x' * count)})")
    for module, counts in POSITIONAL_COUNTS.items()
    for name, count in counts.items()
    if name not in {"einsum", "unravel_index"}
]
NN_CALLS = """
    adaptive_avg_pool1d(x, 2); avg_pool1d(x, 2); avg_pool2d(x, 2, stride=1); avg_pool3d(x, 2); bilinear(x, x, x);
    celu_(x); channel_shuffle(x, 2); conv1d(x, x); conv2d(x, x, padding=1); conv3d(x, x); conv_tbc(x, x, x);
    conv_transpose1d(x, x); conv_transpose2d(x, x); conv_transpose3d(x, x); cosine_similarity(x, x); elu_(x); gelu(x);
    hardshrink(x); hardtanh_(x); leaky_relu_(x); linear(x, x, bias=x); logsigmoid(x); native_channel_shuffle(x, 2);
    one_hot(x, 3); pairwise_distance(x, x); pdist(x); pixel_shuffle(x, 2); pixel_unshuffle(x, 2); prelu(x, x);
    rrelu_(x); scaled_dot_product_attention(x, x, x, is_causal=True); selu_(x); softplus(x); softshrink(x);
    threshold_(x, 1, 2)
"""
TORCH_CALLS = """
    einsum("ij->i", x); einsum("i,i", [x, x]); swapaxes(x, 0, 1); transpose(x, 0, 1); absolute(x); abs(x); mul(x, x);
    multiply(x, x); unravel_index(x, (2, 3)); meshgrid(x, x, indexing="ij"); norm(x, dim=1); split(x, 2, dim=1);
    clamp(x, 1); stack([x, x]); where(x, x, 1.0); max(x, 1); add(x, 1, alpha=2)
"""
CALLS = [
    *PYTHON_CALLS,
    *(("nn.functional", call.strip()) for call in NN_CALLS.split(";")),
    *(("", call.strip()) for call in TORCH_CALLS.split(";")),
    ("linalg", "det(x)"),
    ("linalg", "norm(x)"),
    ("fft", "rfft(x, n=3)"),
    ("special", "erf(x)"),
    ("special", "expm1(x)"),
]


def trace_call(library: Any, module: str, call: str) -> Any:
    home = library
    for part in filter(None, module.split(".")):
        home = getattr(home, part)
    return library.fx.symbolic_trace(eval(f"lambda x: home.{call}", {"home": home}))


def test_every_function_of_the_tables_is_called() -> None:
    called = {call.partition("(")[0] for _, call in CALLS}
    assert {*NN_FUNCTIONS.split(), *TORCH_FUNCTIONS.split()} <= called


@pytest.mark.parametrize(("module", "call"), CALLS)
def test_a_name_in_code_is_that_of_the_function(module: str, call: str) -> None:
    traced = trace_call(ad, module, call)
    (node,) = traced.graph.find_nodes(op="call_function")
    assert node.target in public_functions()
    found: Any = ad
    for part in get_qualified_name(node.target, node.called_as).split(".")[1:]:
        found = getattr(found, part)
    assert found is node.target
    assert f" = {get_qualified_name(node.target, node.called_as)}(" in traced.code


@pytest.mark.oracle
@pytest.mark.parametrize(("module", "call"), CALLS)
def test_calls_are_recorded_as_by_pytorch(module: str, call: str) -> None:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.fx")

    expected = trace_call(torch, module, call)
    assert trace_call(ad, module, call).code.replace("adjoint.", "torch.") == expected.code


MODULES = """
    Conv2d(1, 1, 3); Dropout(0.2); ELU(); Embedding(3, 2); GELU(); GroupNorm(1, 2); LayerNorm(3);
    LeakyReLU(0.1); Linear(2, 2); MaxPool2d(2); PReLU(); ReLU(); SiLU(); Sigmoid(); Tanh(); Upsample(scale_factor=2)
"""


MODULE_CALLS = [call.strip() for call in MODULES.split(";")]


def trace_through(library: Any, call: str) -> str:
    """The code of a module that is traced through."""

    class Through(library.fx.Tracer):  # type: ignore[misc]
        def is_leaf_module(self, m: object, module_qualified_name: str) -> bool:
            return False

    model = library.nn.Sequential(eval(f"nn.{call}", {"nn": library.nn}))
    graph = Through().trace(library.nn.Sequential(model))
    return str(library.fx.GraphModule(library.nn.Sequential(model), graph).code)


@cache
def our_codes() -> list[str]:
    """The codes by adjoint, in a process in which no functions have been replaced before."""
    lines = ["import json", "from typing import Any", "import adjoint", inspect.getsource(trace_through)]
    lines += [f"print(json.dumps([trace_through(adjoint, call) for call in {MODULE_CALLS}]))"]
    codes: list[str] = json.loads(output_of("\n".join(lines)))
    return codes


@pytest.mark.oracle
@pytest.mark.parametrize("call", MODULE_CALLS)
def test_modules_are_traced_through_as_by_pytorch(call: str) -> None:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.fx")
    ours = our_codes()[MODULE_CALLS.index(call)].replace("adjoint.", "torch.")
    assert ours == trace_through(torch, call), ours


def test_functions_are_as_they_were_after_a_trace() -> None:
    functions = {name: value for name, value in names_of(ad).items() if callable(value) and value in public_functions()}
    codes = {name: value.__code__ for name, value in functions.items()}
    methods = {name: vars(ad.Tensor)[name] for name in vars(ad.Tensor)}
    fx.symbolic_trace(lambda x: ad.relu(x) + ad.nn.functional.softmax(x, 0))
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: x if ad.relu(x) else -x)
    assert {name: names_of(ad)[name] for name in functions} == functions
    assert {name: value.__code__ for name, value in functions.items()} == codes
    assert {name: vars(ad.Tensor)[name] for name in methods} == methods
