"""Names that are not there: the one that is meant, also in the words of other libraries, in modules and classes."""

from __future__ import annotations

import linecache
import pickle
import random
import re
import warnings
from itertools import count
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.runtime.similar_names import (
    NAMES_OF_OTHER_LIBRARIES,
    PUBLIC_MODULES,
    count_edits,
    find_spelling,
    missing_name_error,
)
from adjoint.diagnosis.error_explanation import add_uncaught_explanation

NUMBERS = count()


def explain(expression: str, **names: Any) -> str:
    """Return the text of the error of an expression, with the notes that it has where nothing catches it."""
    file = f"similar_names_{next(NUMBERS)}.py"
    linecache.cache[file] = (len(expression), None, [f"{expression}\n"], file)
    try:
        eval(compile(expression, file, "eval"), {"ad": ad, "F": ad.nn.functional, **names})
    except Exception as error:  # noqa: BLE001  programs raise errors of all kinds
        add_uncaught_explanation(error, error.__traceback__)
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    raise AssertionError(f"{expression} has raised nothing")


def misspell(name: str, seed: int) -> str:
    """Return a name with one letter left out, doubled, replaced, or exchanged with the next."""
    draw = random.Random(seed)
    at = draw.randrange(1, len(name) - 1)
    return draw.choice([
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + "x" + name[at + 1 :],
        name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :],
    ])  # fmt: skip


def public_names() -> list[tuple[str, str]]:
    """Return some names of each public module and class, with where each is."""
    found = []
    for place in (*PUBLIC_MODULES, "Tensor", "nn.Module"):
        owner = f"ad.{place}".rstrip(".")
        names = [name for name in dir(eval(owner, {"ad": ad})) if name[0] != "_" and len(name) > 5 and name[-1] != "_"]
        found += [(owner, name) for name in random.Random(len(place)).sample(names, min(8, len(names)))]
    return found


@pytest.mark.parametrize(("owner", "name"), public_names())
def test_a_misspelled_name_is_found(owner: str, name: str) -> None:
    names = set(dir(eval(owner, {"ad": ad})))
    for seed in range(3):
        wrong = misspell(name, seed)
        if wrong in names:
            continue
        meant = find_spelling(wrong, sorted(names))
        assert meant is not None, wrong
        text = explain(f"{owner}.{wrong}")
        assert meant in text
        assert text.count("Did you mean") <= 1
        assert count_edits(wrong, meant) <= count_edits(wrong, name) or meant.lower() == wrong.lower()


CALLS_BY_OTHER_NAMES = {
    "ad.sofmax": "softmax", "ad.nn.Liner": "Linear", "ad.optim.Adm": "Adam", "F.relue": "relu", "ad.matmult": "matmul",
    "ad.reduce_sum": "sum", "ad.reduce_mean": "mean", "ad.array": "tensor", "ad.convert_to_tensor": "tensor",
    "ad.jit_compile": None, "ad.value_and_grad": "func.grad_and_value", "ad.Linear": "nn.Linear",
    "ad.Adam": "optim.Adam",
    "ad.DataLoader": "data.DataLoader", "ad.cross_entropy": "nn.functional.cross_entropy", "ad.Dense": "nn.Linear",
    "ad.nn.Dense": "Linear", "ad.nn.Conv2D": "Conv2d", "ad.nn.BatchNormalization": "BatchNorm1d",
    "ad.nn.MSE": "MSELoss",
    "ad.nn.CategoricalCrossentropy": "CrossEntropyLoss", "ad.nn.Relu": "ReLU",
    "ad.nn.cross_entropy": "nn.functional.cross_entropy",
    "F.crossentropy": "cross_entropy", "F.softmax_cross_entropy_with_logits": "cross_entropy",
    "F.swish": "silu",
    "ad.optim.RMSProp": "RMSprop", "ad.optim.GradientDescent": "SGD", "ad.optim.lr_scheduler.StepRL": "StepLR",
    "ad.optim.lr_scheduler.CosineDecay": "CosineAnnealingLR", "ad.linalg.nrm": "norm", "ad.fft.ftf": "fft",
    "ad.data.Dataloader": "DataLoader", "ad.distributions.Noraml": "Normal", "ad.expand_dims": "unsqueeze",
    "ad.stop_gradient": "detach", "ad.clip_by_value": "clamp", "ad.float23": "float32", "ad.GELU": "nn.GELU",
    "ad.clip_grad_norm_": "nn.utils.clip_grad_norm_", "ad.permutation": "randperm", "ad.radians": "deg2rad",
    "x.copy()": "x.clone", "x.astype('float32')": "x.to", "x.sumn()": "x.sum", "x.expand_dims(0)": "x.unsqueeze",
    "x.assign(x)": "x.copy_", "x.asnumpy()": "x.numpy", "x.stop_gradient()": "x.detach", "x.fill(1)": "x.fill_",
    "x.cross_entropy(x)": "adjoint.nn.functional.cross_entropy", "ad.Tensor.astype": "ad.Tensor.to",
    "layer.wieght": "layer.weight", "layer.trainable_variables": "layer.parameters", "layer.params": "layer.parameters",
    "layer.get_weights()": "layer.state_dict", "optimizer.zero_gradients()": "optimizer.zero_grad",
    "optimizer.apply_gradients()": "optimizer.step", "ad.nn.Linear(2, 2).biass": ".bias",
}  # fmt: skip


@pytest.mark.parametrize("expression", CALLS_BY_OTHER_NAMES)
def test_names_that_people_try_lead_to_the_right_one(expression: str) -> None:
    layer = ad.nn.Linear(2, 2)
    names = {"x": ad.ones(2), "layer": layer, "optimizer": ad.optim.SGD(layer.parameters())}
    text, meant = explain(expression, **names), CALLS_BY_OTHER_NAMES[expression]
    if meant is None:
        assert "Did you mean" not in text
    else:
        assert f"Did you mean: {meant!r}?" in text or f"{meant} is meant, perhaps" in text


def test_each_word_of_another_library_leads_to_a_name_that_is_there() -> None:
    names = {name for place in (*PUBLIC_MODULES, "Tensor", "nn.Module", "optim.Optimizer")
             for name in dir(eval(f"ad.{place}".rstrip("."), {"ad": ad}))}  # fmt: skip
    assert [word for words in NAMES_OF_OTHER_LIBRARIES.values() for word in words.split() if word not in names] == []


def test_a_question_whether_a_name_is_there_searches_for_nothing() -> None:
    error = missing_name_error("adjoint", "sofmax", lambda: pytest.fail("names were asked for"))
    assert error.args[0] == "module 'adjoint' has no attribute 'sofmax'"
    assert not hasattr(ad, "sofmax")


def test_the_error_can_be_pickled() -> None:
    with pytest.raises(AttributeError) as found:
        ad.sofmax
    text = "module 'adjoint' has no attribute 'sofmax'. Did you mean: 'softmax'?"
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value) == text


def public_callables() -> list[str]:
    """Return what may be called in each public module, and the methods of a tensor."""
    found = []
    for place in PUBLIC_MODULES:
        owner = f"ad.{place}".rstrip(".")
        module = eval(owner, {"ad": ad})
        names = [name for name in getattr(module, "__all__", dir(module)) if name[0] != "_"]
        found += [f"{owner}.{name}" for name in names if callable(getattr(module, name))]
    methods = [name for name in dir(ad.Tensor) if name[0] != "_" and callable(getattr(ad.Tensor, name))]
    return found + [f"x.{name}" for name in methods]


# Of these the keywords are the user's (names of datasets, anything), or none are taken, or there is no such thing.
TAKES_ANY = "nn.Identity nn.Container data.StackDataset autograd.Function"
TAKES_NONE = ("takes no arguments", "takes no keyword arguments", "cannot be instantiated", "is not part of adjoint")


def test_a_wrong_keyword_lists_the_right_ones() -> None:
    callables = public_callables()
    assert len(callables) > 1500
    faults = []
    warnings.simplefilter("ignore")  # of names that are deprecated
    for name in callables:
        if name.removeprefix("ad.") in TAKES_ANY.split():
            continue
        text = explain(f"{name}(wrong_keyword=1)", x=ad.ones(2))
        if not re.search("try: (it knows no wrong_keyword=, leave it out; )?it takes", text) and not any(
            words in text for words in TAKES_NONE
        ):
            faults.append(f"{name}: {text}")
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize(("call", "meant"), [
    ("ad.sum(x, axis=0, keepdimz=True)", "keepdim"), ("ad.nn.Linear(3, 4, bais=True)", "bias"),
    ("ad.optim.SGD([x], learning_rate=1)", "lr"), ("ad.optim.Adam([x], weight_deacy=1)", "weight_decay"),
    ("ad.data.DataLoader([1], batchsize=3)", "batch_size"), ("ad.cat([x], axes=0)", "dim"),
    ("ad.optim.lr_scheduler.StepLR(ad.optim.SGD([x]), step=1)", "step_size"), ("x.sum(dimension=0)", "dim"),
    ("ad.nn.Conv2d(1, 2, kernel=3)", "kernel_size"), ("ad.zeros(2, require_grad=True)", "requires_grad"),
    ("ad.nn.AdaptiveAvgPool2d(output_szie=3)", "output_size"), ("F.dropout(x, rate=0.5)", "p"),
])  # fmt: skip
def test_a_wrong_keyword_names_the_one_that_is_meant(call: str, meant: str) -> None:
    x = ad.ones(2, requires_grad=True)
    assert f"try: {meant}= is meant, perhaps; it takes " in explain(call, x=x)
