"""Remedies for keywords that a function does not know, and for classes and modules called with other inputs."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.runtime.similar_names import find_shared_word, find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    evaluate,
    find_return_in,
    is_module,
)
from adjoint.diagnosis.remedies.language.own_functions import locate_keyword
from adjoint.diagnosis.remedies.registry import at, named_parts, remedy
from adjoint.diagnosis.source_expressions import find_function, parse_source, text_of
from adjoint.nn.module.module import Module

SYNONYMS = {
    "learning_rate": "lr", "l2": "weight_decay", "decay": "weight_decay", "axis": "dim", "dims": "dim",
    "axes": "dim", "dimension": "dim", "axs": "dim",
    "keepdims": "keepdim", "units": "out_features", "filters": "out_channels", "stride_size": "stride",
    "strides": "stride", "kernel": "kernel_size", "pad": "padding", "rate": "p", "prob": "p", "epsilon": "eps",
    "hidden_dim": "hidden_size", "input_dim": "input_size", "heads": "num_heads", "layers": "num_layers",
    "use_bias": "bias", "dropout_rate": "dropout", "batchsize": "batch_size", "workers": "num_workers",
    "gradient": "grad", "require_grad": "requires_grad", "required_grad": "requires_grad", "beta": "alpha",
    "rho": "alpha",
}  # fmt: skip


@remedy(r"got an unexpected keyword argument '(\w+)'")
def name_keywords(failure: Failure, match: re.Match[str]) -> str | None:
    """A keyword that the function does not know."""
    function = _called_function(failure)
    if function is None or getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return None  # such as `sum`: a function of adjoint is meant, which the repairs find
    function_made = function
    if isinstance(function, type) and issubclass(function, Module) and not hasattr(function, "__signature__"):
        function = function.__init__  # Python 3.11.2 shows the arguments of `__new__`, which takes any
    try:
        names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        return None
    similar = SYNONYMS.get(match[1])
    if similar not in names:
        near = ["attn_mask"] if match[1] == "mask" and "attn_mask" in names else []
        near += [name for name in names if name.startswith(f"{match[1]}_") or name.endswith(f"_{match[1]}")]
        similar = (
            find_spelling(match[1], names)
            or next(iter(near), None)
            or next((name for name in names if name in match[1].split("_")), None)
            or find_shared_word(match[1], names)
            or next(iter(get_close_matches(match[1], names, 1, 0.6)), None)
        )
    other = None if similar else _find_other_class(function_made, match[1])
    advice = f"{similar}= is meant, perhaps; " if similar else f"it knows no {match[1]}=, leave it out; "
    if other is not None:
        advice = f"it knows no {match[1]}=, which nn.{other} has; "
    if match[1] == "verbose" and "optimizer" in names:
        advice = "schedules tell nothing, leave verbose= out: print(scheduler.get_last_lr()) in the loop; "
    return f"{advice}it takes {', '.join(names)}{locate_keyword(failure, match[1])}"


def _called_function(failure: Failure) -> Operand:
    """Return what the user's line calls; None where it cannot be told."""
    node = failure.node
    function = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if function is MISSING and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, failure.frame)
        kind = owner if isinstance(owner, ModuleType) else type(owner)
        function = MISSING if owner is MISSING else getattr(kind, node.func.attr, MISSING)
    if failure.modules and (function is MISSING or is_module(function)):
        function = type(failure.modules[0]).forward
    return None if function is MISSING else function


@remedy(r"(\w+)\.__init__\(\) (?:missing|takes)")
def make_instance(failure: Failure, match: re.Match[str]) -> str | None:
    """A class that is called with what its instances take."""
    node = failure.node
    kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if not isinstance(kind, type) or not isinstance(node, ast.Call):
        return None
    names = [name for name in inspect.signature(kind).parameters if name != "self"]
    gives_tensor = any(isinstance(evaluate(each, failure.frame), Tensor) for each in node.args)
    is_library = is_name_of_package(kind.__module__)
    if hasattr(kind, "forward") and (gives_tensor or (is_library and not isinstance(node.func, ast.Attribute))):
        name, made = text_of(node.func), f"nn.{kind.__name__}" if is_library else kind.__name__
        where = at(next((each for each in named_parts(failure) if each.text == name), None))
        return f"{name}{where} is a class: make a module first, {made}({', '.join(names[:2])}, …), and call that"
    return None


@remedy(r"(\w+)\.forward\(\) (?:missing|takes)|(?<!__init__\(\) )takes? from \d+ to \d+ positional")
def name_inputs(failure: Failure, match: re.Match[str]) -> str | None:
    """A module that is called with more or fewer inputs."""
    layer = failure.module()
    if layer is None:
        return None
    hooks = [getattr(hook, "call", hook) for hook in vars(layer.value).get("_forward_pre_hooks", {}).values()]
    result = find_return_in(hooks[-1].__code__) if hooks and inspect.isfunction(hooks[-1]) else None
    if result is not None:
        told = f"the hook before {layer.text}, {result.describe()}, gives other inputs than forward takes"
        return f"{told}: as many as it gets, or None"
    forward: Operand = type(layer.value).forward
    names = [name for name in inspect.signature(forward).parameters if name != "self"]
    node = failure.node
    for argument in node.args if isinstance(node, ast.Call) and len(node.args) == 1 else ():
        given = evaluate(argument, failure.frame)
        if isinstance(given, (list, tuple)) and len(given) == len(names):
            name, kind = text_of(argument), type(given).__name__
            told = f"{layer.text} takes {', '.join(names)}, and {name} is one {kind} of {len(given)}"
            return f"{told}: {layer.text}(*{name})"
    code = getattr(forward, "__code__", None)
    where = "" if code is None or not user_files[code.co_filename] else f", {definition_site(code).describe_briefly()},"
    count = len(node.args) if isinstance(node, ast.Call) else 0
    if isinstance(node, ast.Call) and node.args[len(names) :] and text_of(node.func) == layer.text:
        extra = ", ".join(map(text_of, node.args[len(names) :]))
        inner = [*vars(layer.value)["_modules"].values()] if type(layer.value).__name__ == "Sequential" else []
        taken = {len([*inspect.signature(type(each).forward).parameters]) - 1 for each in inner}
        if taken == {count}:
            x, *others = map(text_of, node.args)
            told = f"{layer.text}{at(layer)} passes on one input, and its layers take {count}"
            return f"{told}: for layer in {layer.text}: {x} = layer({', '.join([x, *others])})"
        told = f"forward of {layer.text}{where} takes {', '.join(names)}, and {count} are given"
        source = None if code is None else parse_source(code.co_filename)
        body = None if source is None or code is None else find_function(source, code.co_firstlineno)
        for each in ast.walk(body) if body is not None and len(names) == 1 else ():
            target = each.targets[0] if isinstance(each, ast.Assign) else None
            is_pair = isinstance(target, ast.Tuple) and len(target.elts) == count  # a, b = pair
            if is_pair and isinstance(each, ast.Assign) and text_of(each.value) == names[0]:
                return f"{told}: {layer.text}(({', '.join(map(text_of, node.args))})), one value of both"
        return f"{told}: leave {extra} out, or add it there"
    return None


def _find_other_class(kind: Operand, keyword: str) -> str | None:
    """Return the class of the same kind, such as a loss, that knows a keyword: of several that of the shortest name."""
    word = re.search(r"[A-Z][a-z]+(?:\dd)?$", getattr(kind, "__name__", ""))
    if word is None or not isinstance(kind, type) or not is_name_of_package(kind.__module__):
        return None
    layers = import_module(f"{kind.__module__.partition('.')[0]}.nn")
    others = [getattr(layers, name) for name in dir(layers) if name.endswith(word[0])]
    knowing = [each.__name__ for each in others if keyword in inspect.signature(each).parameters]
    return min(knowing, key=len, default=None)
