"""Every module in PyTorch's table: ours is made, trained, shown, saved and copied as its own, or is named here."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.torch_samples import Other, ours, same, torch

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import module_db

MOST = 14  # inputs of one module, taken evenly from all that PyTorch has
SEED = 7
# the module, and what its arguments must show for it to be left out, "" for all
SKIPPED = {
    ("LinearCrossEntropyLoss", "acc_dtype"): "says in which type to add up a part, which here is the type of all",
}
pytestmark = pytest.mark.filterwarnings("ignore")


def label(info: Any) -> str:
    return str(info.name).removeprefix("nn.")


@pytest.mark.sweep(4)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("info", [pytest.param(info, id=label(info)) for info in module_db])
def test_ours_is_pytorchs(info: Any, kind: str, training: bool) -> None:
    compared = 0
    for sample in samples(info, kind, training):
        try:
            compare(label(info), sample, kind, training)
        except Other:
            continue
        compared += 1
    assert compared


@pytest.mark.parametrize(
    "info", [pytest.param(info, id=label(info)) for info in module_db if info.module_error_inputs_func]
)
def test_ours_refuses_what_pytorch_refuses(info: Any) -> None:
    for error in info.module_error_inputs_func(info, "cpu", torch.float64, True, True):
        given = error.module_error_input
        if error.error_type is None:
            continue
        with pytest.raises(error.error_type):
            fail(label(info), given, "FORWARD" in error.error_on.name)


def fail(name: str, given: Any, when_called: bool) -> None:
    """Make the module, and call it if it is then that PyTorch's raises."""
    construction = given.constructor_input
    module = getattr(nn, name)(*ours(construction.args), **ours(construction.kwargs))
    if when_called:
        module(*ours(given.forward_input.args), **ours(given.forward_input.kwargs))


def samples(info: Any, kind: str, training: bool) -> Iterator[Any]:
    """Inputs of a module, of one type."""
    torch.manual_seed(SEED)
    dtype = getattr(torch, kind)
    if dtype not in info.dtypes:
        return
    found = info.module_inputs_func(info, "cpu", dtype, True, training)
    yield from found[:: max(1, len(found) // MOST)]


def compare(name: str, sample: Any, kind: str, training: bool) -> None:
    """Make both modules, and assert that they are and do the same."""
    construction, call = sample.constructor_input, sample.forward_input
    named = construction.kwargs
    if any(name == skipped and (not shown or shown in str(named)) for skipped, shown in SKIPPED):
        raise Other
    torch.manual_seed(SEED)
    theirs = getattr(torch.nn, name)(*construction.args, **named)
    ad.manual_seed(SEED)
    module = getattr(nn, name)(*translated(construction.args), **translated(named))
    if not any(isinstance(x, torch.nn.Module) for x in (*construction.args, *named.values())):
        same_state(module, theirs)
    assert repr(module).replace("adjoint.", "torch.") == repr(theirs)
    theirs, module = theirs.to(getattr(torch, kind)).train(training), module.to(getattr(ad, kind)).train(training)
    load(module, theirs)
    twins = [module, copy.deepcopy(module), revived(module)]
    outputs, gradients = outcome(torch, theirs, call.args, call.kwargs)
    for twin in twins:
        results, ours_gradients = outcome(ad, twin, translated(call.args), translated(call.kwargs))
        assert len(results) == len(outputs)
        for a, b in zip(results, outputs, strict=True):
            same(a, b)
        close(ours_gradients, gradients, kind)
        same_state(twin, theirs, 1.0)
        assert repr(twin) == repr(module)


def revived(module: Any) -> Any:
    try:
        held = pickle.dumps(module)
    except (pickle.PicklingError, AttributeError):  # a function given to it has no name
        return copy.deepcopy(module)
    return pickle.loads(held)


def outcome(library: Any, module: Any, args: Any, named: Any) -> tuple[list[Any], list[Any]]:
    """The tensors that a call gives, and the gradients of their weighted sum: of the inputs and the parameters."""
    library.manual_seed(SEED)
    args, named = apart(library, args), apart(library, named)
    inputs = [x for x in tensors(library, (args, named)) if x.requires_grad]
    before = [p for p in module.parameters() if not nn_is_lazy(p)]
    module.zero_grad()
    results = tensors(library, module(*args, **named))
    wanted = [*inputs, *(p for p in (before or module.parameters()) if p.requires_grad)]
    graded = [y for y in results if y.requires_grad]
    if not graded or not wanted:
        return results, []
    total = sum((y * weights(library, y)).sum() for y in graded)
    found = library.autograd.grad(total, wanted, allow_unused=True)
    return results, [None if g is None else g.detach().numpy() for g in found]


def nn_is_lazy(parameter: Any) -> bool:
    return type(parameter).__name__.startswith("Uninitialized")


def weights(library: Any, y: Any) -> Any:
    """A number for each element."""
    numbers = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
    return library.from_numpy(np.ascontiguousarray(numbers)).to(y.dtype)


def apart(library: Any, x: Any) -> Any:
    """The arguments with leaves of their own: a module may write into what it is given."""
    if isinstance(x, library.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if isinstance(x, (list, tuple)):
        return type(x)(apart(library, y) for y in x)
    return {key: apart(library, y) for key, y in x.items()} if isinstance(x, dict) else x


def tensors(library: Any, x: Any) -> list[Any]:
    """The tensors in what a call is given, or gives."""
    if isinstance(x, library.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in tensors(library, y)] if isinstance(x, (list, tuple)) else []


def close(found: list[Any], expected: list[Any], kind: str) -> None:
    assert len(found) == len(expected)
    allowed = 1e-9 if kind == "float64" else 2e-4
    for a, b in zip(found, expected, strict=True):
        x, y = (0.0 if g is None else g for g in (a, b))
        largest = np.abs(np.nan_to_num(y, posinf=0, neginf=0)).max(initial=0.0)
        np.testing.assert_allclose(x, y, rtol=allowed, atol=allowed * (1 + largest))


def same_state(module: Any, theirs: Any, allowed: float = 0.0) -> None:
    """Assert that names, shapes, types and values of parameters and buffers are the same."""
    state, expected = module.state_dict(), theirs.state_dict()
    assert list(state) == list(expected)
    for key, value in expected.items():
        if nn_is_lazy(value):
            assert nn_is_lazy(state[key])
            continue
        assert state[key].dtype.name == str(value.dtype).removeprefix("torch.")
        tolerance = allowed * (1e-9 if value.dtype == torch.float64 else 1e-5)
        np.testing.assert_allclose(state[key].numpy(), value.numpy(), rtol=max(tolerance, 1e-6), atol=tolerance)


def load(module: Any, theirs: Any) -> None:
    """Give our module the state of PyTorch's."""
    state = theirs.state_dict()
    if any(map(nn_is_lazy, state.values())):
        return
    module.load_state_dict({key: ad.from_numpy(value.detach().numpy().copy()) for key, value in state.items()})


def translated(x: Any) -> Any:
    """The same arguments with our tensors, and with a layer, if one is among them, of ours."""
    if isinstance(x, torch.nn.TransformerEncoderLayer):
        attention = x.self_attn
        return nn.TransformerEncoderLayer(
            attention.embed_dim, attention.num_heads, x.linear1.out_features, x.dropout.p, translated(x.activation),
            x.norm1.eps, attention.batch_first, x.norm_first, x.linear1.bias is not None,
        )  # fmt: skip
    if isinstance(x, tuple) and not hasattr(x, "_fields"):
        return tuple(map(translated, x))
    if isinstance(x, list):
        return list(map(translated, x))
    if isinstance(x, dict):
        return {key: translated(y) for key, y in x.items()}
    if type(x).__name__ == "LinearCrossEntropyOptions":
        return nn.LinearCrossEntropyOptions(x.allow_retain_graph, x.batch_chunk_size, x.chunking_method, x.acc_policy)
    if callable(x) and getattr(x, "__name__", "") in ("relu", "gelu"):
        return getattr(F, x.__name__)
    return ours(x)
