"""Remedies for derivatives that a function or a distribution has not, and for NaN that a pass has found."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import (
    MAX_NAME_CHARACTERS,
    argument_node,
    at,
    find_named_argument,
    name_owner,
    remedy,
)
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

# by the function whose derivative is infinite or NaN at some values: where, and what to write
INFINITE_SLOPES = {
    "Sqrt": ("at 0", "torch.sqrt(x + 1e-8)"),
    "Log": ("at 0, and log is NaN below", "torch.log(x.clamp(min=1e-8))"),
    "Log2": ("at 0", "torch.log2(x.clamp(min=1e-8))"),
    "Log10": ("at 0", "torch.log10(x.clamp(min=1e-8))"),
    "Div": ("where the divisor is 0", "a / (b + 1e-8)"),
    "Pow": ("at 0, of powers below 1", "(x + 1e-8) ** p"),
    "Acos": ("at -1 and 1", "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))"),
    "Asin": ("at -1 and 1", "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))"),
    "Norm": ("at 0", "(x.square().sum() + 1e-8).sqrt()"),
    "LinalgVectorNorm": ("at 0", "(x.square().sum() + 1e-8).sqrt()"),
    "Atan2": ("where both are 0", "torch.atan2(y, x + 1e-8)"),
}


@remedy(r"Function '(\w+?)Backward\d*' returned nan values in its (\d+)th output")
def avoid_infinite_slope(failure: Failure, match: re.Match[str]) -> str | None:
    """A gradient that is NaN, by the function that made it and the line that called it."""
    places = [found[1] for note in failure.error.__notes__ if (found := re.search(r"recorded at (\S+)", note))]
    where = f" at {places[0].rpartition('/')[2]}" if places else ""
    known = INFINITE_SLOPES.get(match[1])
    told = f"the gradient of {match[1].lower()}{where} is NaN"
    if known is None:
        return f"{told}: look there at values of 0, of infinity, or NaN"
    return f"{told}: its slope is infinite {known[0]}; {known[1]} there"


@remedy(
    r"linalg\.qr depends on Q, which is not computed when mode='r'|QR decomposition is not differentiable when mode="
)
def reduce_factors(failure: Failure, match: re.Match[str]) -> str:
    """A decomposition in a mode that has no derivative."""
    x = next((each for each in failure.tensors() if each.origin is not None and "qr" in each.origin.describe()), None)
    where = "torch.linalg.qr" if x is None else f"{x.text}{at(x)}"
    return f"{where}: mode='reduced' there, which has a derivative"


@remedy(r"A saved tensor pack hook is modifying its input in place")
def copy_in_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """A hook that writes into what the program goes on with."""
    for callback in find_callbacks(failure.stack, failure.message):
        returned = callback.find_return()
        value = None if returned is None else getattr(returned.node, "value", None)
        for call in ast.walk(value) if value is not None else ():
            method = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
            if returned is not None and method.endswith("_") and not method.endswith("__"):
                return f"{callback.name} at {returned.describe()} writes in place: .{method[:-1]}(…) makes a new tensor"
    return "the hook computes a new tensor: x.mul(2), and not x.mul_(2)"


@remedy(r"^$")
def estimate(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that a distribution has not, of which the error says nothing."""
    node = failure.node
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or not isinstance(failure.error, NotImplementedError):
            continue
        owner = compute(call.func.value, failure.frame)
        name, method = text_of(call.func.value), call.func.attr
        if not hasattr(owner, "batch_shape"):
            continue
        name = name if len(name) <= MAX_NAME_CHARACTERS else "d"
        told = f"{name}{at(failure.find_operand(name))} is a {type(owner).__name__}, which has no {method}()"
        if method == "rsample" and getattr(owner.support, "is_discrete", False):
            return f"{told}: F.gumbel_softmax has a gradient, or {name}.sample() and {name}.log_prob(…) of it"
        ways = {
            "entropy": f"-{name}.log_prob({name}.sample((1000,))).mean(0) is an estimate",
            "cdf": f"({name}.sample((1000,)) <= x).float().mean(0) is an estimate",
            "icdf": f"torch.quantile({name}.sample((1000,)), q, dim=0) is an estimate",
            "enumerate_support": f"{name}.sample((1000,)) draws some of its values",
        }
        return f"{told}: {ways[method]}" if method in ways else told
    return None


@remedy(
    r"`mixture_distribution component` \((\d+)\) does not equal `component_distribution\.batch_shape\[-1\]` \((\d+)\)"
)
def weigh_components(failure: Failure, match: re.Match[str]) -> str:
    """Weights of another number than the parts of a mixture."""
    texts = []
    for place, name in enumerate(("mixture_distribution", "component_distribution")):
        given = argument_node(failure, place, name)
        text = "the mixture" if given is None else text_of(given)
        texts.append(f"{text}{at(failure.find_operand(text))}")
    return f"{texts[0]} weighs {match[1]} components, and {texts[1]} has {match[2]}: one weight for each"


TRANSFORMS = {"exp": "ExpTransform", "tanh": "TanhTransform", "sigmoid": "SigmoidTransform", "abs": "AbsTransform"}


@remedy(r"transforms must be a Transform or a list of Transforms")
def make_transform(failure: Failure, match: re.Match[str]) -> str | None:
    """A function where a transform of a distribution is wanted."""
    given = find_named_argument(failure, "transforms")
    for part in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]:
        function = None if part is None else evaluate(part, failure.frame)
        if part is None or not callable(function):
            continue
        kind = TRANSFORMS.get(getattr(function, "__name__", ""))
        told = f"{text_of(part)} is a function, without an inverse"
        if isinstance(function, type):
            return f"{text_of(part)} is a class: {text_of(part)}()"
        return f"{told}: torch.distributions.{kind}()" if kind else f"{told}: a torch.distributions.Transform"
    return None


@remedy(r"Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified")
def give_one_matrix(failure: Failure, match: re.Match[str]) -> str | None:
    """A normal distribution without its matrix, or with two of them."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    names = ("covariance_matrix", "precision_matrix", "scale_tril")
    given = [name for name in names if find_named_argument(failure, name) is not None]
    if not given:
        x = next(iter(failure.tensors()), None)
        value = x.value if x is not None else compute(node.args[0], failure.frame) if node.args else None
        size = value.shape[-1] if isinstance(value, Tensor) and value.ndim else "n"
        rest = ", ".join(map(text_of, (*node.args, *node.keywords)))
        return f"{text_of(node.func)}({rest}, covariance_matrix=torch.eye({size}))"
    return f"one of them says all: leave {', '.join(f'{name}=' for name in given[1:])} out"


@remedy(r"KL between Binomials where q\.total_count > p\.total_count is not implemented")
def draw_counts(failure: Failure, match: re.Match[str]) -> str:
    """A divergence without a formula."""
    p, q = (argument_node(failure, place) for place in (0, 1))
    first, second = "p" if p is None else text_of(p), "q" if q is None else text_of(q)
    made = f"x = {first}.sample((1000,)), ({first}.log_prob(x) - {second}.log_prob(x)).mean(0)"
    return f"{second} has more trials than {first}, for which there is no formula: {made} is an estimate"


@remedy(r"[Oo]nly supported when (\w+)=(\w+)|only supported for (\w+)='?(\w+)'?")
def set_condition(failure: Failure, match: re.Match[str]) -> str | None:
    """An argument that goes with a setting alone, which is another."""
    node = failure.node
    name, value = match[1] or match[3], match[2] or match[4]
    if not isinstance(node, ast.Call) or value not in ("True", "False"):
        return None
    rest = [each for each in node.keywords if each.arg != name]
    changed = ast.Call(node.func, node.args, [*rest, ast.keyword(name, ast.Constant(value == "True"))])
    return text_of(changed)


@remedy(r"module '(?:adjoint|torch)\.ops' has no attribute '(\w+)'")
def define_operator(failure: Failure, match: re.Match[str]) -> str:
    """An operator of a library that nothing has registered."""
    if match[1] in ("load_library", "load"):
        return "libraries that are built for PyTorch cannot be loaded: leave it out"
    name = next((text_of(each.func) for each in _calls(failure)), f"torch.ops.{match[1]}.name").rpartition(".")[2]
    told = f"no library {match[1]} is registered"
    return f"{told}: @torch.library.custom_op('{match[1]}::{name}', mutates_args=()) above a function defines it"


def _calls(failure: Failure) -> list[ast.Call]:
    node = failure.node
    parents = {} if failure.line is None else failure.line.source.parents
    while node is not None and isinstance(parents.get(node), ast.expr):
        node = parents[node]
    return [] if node is None else [each for each in ast.walk(node) if isinstance(each, ast.Call)]


@remedy(r"argument '(\w+)' \(position \d+\) must be bool, not (\w+)")
def give_truth(failure: Failure, match: re.Match[str]) -> str | None:
    """A text or a number where a truth is wanted."""
    given = find_named_argument(failure, match[1]) or argument_node(failure, 0, match[1])
    node = failure.node
    if given is None or not isinstance(node, ast.Call):
        return None
    value = compute(given, failure.frame)
    if isinstance(value, str):
        truth = value.lower() not in ("no", "false", "off", "0", "")
    elif isinstance(value, (int, float)):
        truth = bool(value)
    else:
        return None
    own = failure.find_operand(text_of(given))
    name = next((f"{each.arg}=" for each in node.keywords if each.value is given), "")
    return f"{text_of(given)}{at(own)} is a {match[2]}: {text_of(node.func)}({name}{truth})"


@remedy(
    r"Trying to create a SavedTensor|cannot lose its grad_fn|cannot do without its data|hooks are taken off by their"
)
def use_methods(failure: Failure, match: re.Match[str]) -> str:
    """A part of a tensor that is deleted."""
    owner = name_owner(failure, "x").partition(" at ")[0]
    return f"{owner} = {owner}.detach() has no graph; its hooks are taken off by handle.remove()"
