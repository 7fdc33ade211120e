"""Remedies for what Python itself refuses: names and keywords that are not there, calls, unpacking."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.package_name import display_name, is_name_of_package
from adjoint.core.runtime.similar_names import find_elsewhere, find_shared_word, find_similar_name, find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.steps import trace_back
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


def _find_abbreviated(owner: Operand, name: str) -> str | None:
    """Return the only part of a module whose class is named so for short: of `bn`, the BatchNorm2d."""
    parts = vars(owner).get("_modules", {}) if hasattr(owner, "__dict__") else {}
    short, found = name.lower().strip("_0123456789"), []
    for key, part in parts.items():
        kind = type(part).__name__
        initials = "".join(each for each in kind if each.isupper()).lower()
        if len(short) > 1 and (short in (initials, kind.lower()) or kind.lower().startswith(short)):
            found.append(key)
    return found[0] if len(found) == 1 else None


def _find_function(name: str) -> str | None:
    """Return where in the package a name is that a module or a tensor has not: `adjoint.nn.functional.relu6`."""
    place = find_elsewhere(name)
    return None if place is None else f"{display_name.package}.{place}"


def _is_of_library(owner: Operand) -> bool:
    """Return whether a value is a module, a class or an instance of a class of the library."""
    if isinstance(owner, ModuleType):
        name = owner.__name__
    else:
        name = (owner if isinstance(owner, type) else type(owner)).__module__
    return is_name_of_package(name)


@remedy(r"has no attribute '(\w+)'(?:\. Did you mean: .*)?$")
def name_attributes(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute that an object, a class or a module of the library has not."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Attribute) or node.attr != match[1]:
            continue
        owner = evaluate(node.value, failure.frame)
        owner = getattr(failure.error, "obj", None) if owner is MISSING else owner
        told_kind = re.match(r"'(\w+)' object", failure.message)
        if owner is None or (told_kind is not None and type(owner).__name__ != told_kind[1]):
            continue
        if is_module(owner):
            held = [name for table in ("_modules", "_parameters", "_buffers") for name in vars(owner)[table]]
            for name, part in vars(owner)["_modules"].items():
                if name.isdigit() and match[1] in {*vars(part)["_parameters"], *vars(part)["_modules"], *vars(part)}:
                    return f"{text_of(node.value)} holds parts by number: {text_of(node.value)}[{name}].{match[1]}"
            parent = failure.line.source.parents.get(node) if failure.line is not None else None
            if match[1] == "module" and isinstance(parent, ast.Attribute):
                told = f"{text_of(node.value)} is a {type(owner).__name__}, and no DistributedDataParallel is around it"
                return f"{told}: {text_of(node.value)}.{parent.attr}"
            if match[1] in ("device", "dtype"):
                name = text_of(node.value)
                return f"the parameters of {name} have it, and not {name} itself: next({name}.parameters()).{match[1]}"
            known = [*held, *vars(owner), *dir(type(owner))]
            similar = find_similar_name(match[1], known) or find_shared_word(match[1], held)
            similar = similar or _find_abbreviated(owner, match[1])
            hint = f"{text_of(node.value)}.{similar} is meant, perhaps; " if similar and not similar.isdigit() else ""
            uncalled = _find_class_as_loss(failure, node.value, owner)
            if uncalled is not None:
                return uncalled
            unused = _find_unused_call(failure, node.value) if match[1] in ("backward", "item") else None
            if unused is not None:
                return unused
            if _is_of_library(owner) and type(owner).__name__ not in ("Sequential", "Module"):
                own = f"it has {', '.join(held)}" if held else f"{type(owner).__name__} has no {match[1]}"
                return _choose_parts(failure, text_of(node.value), owner, match[1]) or f"{hint}{own}"
            if isinstance(parent, ast.Call) and parent.func is node and not similar:
                methods = [
                    name for name, each in vars(type(owner)).items() if inspect.isfunction(each) and name[0] != "_"
                ]
                told = (
                    f"{type(owner).__name__} has no method {match[1]}, only "
                    f"{', '.join(methods) or 'those of nn.Module'}"
                )
                return f"{told}: def {match[1]}(self, …) there, or a function of your own"
            if held and all(each.isdigit() for each in held):
                name = text_of(node.value)
                if similar in held:
                    told = f"{name} holds its parts by number, and has no {match[1]}"
                    return f"{told}: {name}[{similar}], the {type(vars(owner)['_modules'][similar]).__name__}"
                last = f" to {name}[{len(held) - 1}]" if len(held) > 1 else ""
                told = f"{name} holds its parts by number, {name}[0]{last}, and has no {match[1]}"
                wanted = parent.attr if isinstance(parent, ast.Attribute) else ""
                fitting = [key for key in held if hasattr(vars(owner)["_modules"][key], wanted)] if wanted else []
                if fitting:
                    return f"{told}: {name}[{fitting[-1]}].{wanted}"
                return f"{told}: {name}[0], or a Sequential of an OrderedDict, which names them"
            held += [name for name in vars(owner) if not name.startswith("_") and name != "training"]
            return f"{hint}it has {', '.join(held) or 'no parts'}: assign self.{match[1]} in __init__"
        groups = vars(owner).get("param_groups") if hasattr(owner, "__dict__") else None
        key = SYNONYMS.get(match[1], match[1])
        if isinstance(groups, list) and groups and key in groups[0]:
            name = text_of(node.value)
            return f"{name} keeps it for each group of parameters: {name}.param_groups[0][{key!r}]"
        has_functions = isinstance(owner, (ModuleType, Tensor))
        similar = find_similar_name(match[1], dir(owner), _find_function if has_functions else lambda name: None)
        if similar is not None and _is_of_library(owner):
            owned = "" if similar.startswith(f"{display_name.package}.") else f"{text_of(node.value)}."
            return f"{owned}{similar} is meant, perhaps"
        public = [each for each in dir(owner) if not each.startswith("_")] if _is_of_library(owner) else []
        longer = [each for each in public if each.startswith(match[1])]
        near = longer if len(longer) == 1 else get_close_matches(match[1], public, 1, 0.75)
        words = match[1].split("_")
        near = near or [
            each for each in public if words[1:] and each.split("_")[:: len(words) - 1] == words[:: len(words) - 1]
        ]
        if near and type(owner).__name__ != "GradScaler":
            return f"{text_of(node.value)}.{near[0]} is meant, perhaps"
        if (
            match[1] in ("size", "length", "shape", "count", "num_samples")
            and not has_functions
            and hasattr(owner, "__len__")
        ):
            return f"len({text_of(node.value)}) counts what a {type(owner).__name__} holds"
    return None


def _choose_parts(failure: Failure, name: str, part: Operand, attribute: str) -> str | None:
    """Return what to ask of the parts of a model, of which some have not the attribute."""
    goes_through = any(each.f_code.co_name == "apply" for place in failure.stack[1:2] for each in place.called)
    scope = None if failure.line is None else failure.line.source.scope_of(failure.line.node)
    for loop in ast.walk(scope) if scope is not None else ():
        if isinstance(loop, ast.For) and any(
            isinstance(each, ast.Name) and each.id == name for each in ast.walk(loop.target)
        ):
            goes_through = True
    if not goes_through:
        return None
    kind = type(part).__name__
    near = find_spelling(attribute, [*vars(part).get("_parameters", ()), *vars(part).get("_modules", ())])
    if near is not None:
        return f"{name} is a {kind}, which has no {attribute}: {name}.{near} is meant, perhaps"
    return (
        f"{name} is each part in turn, and {kind} has no {attribute}: if hasattr({name}, {attribute!r}), or "
        f"isinstance({name}, nn.Linear), before it"
    )


def _find_class_as_loss(failure: Failure, owner: ast.expr, value: Operand) -> str | None:
    """Return the call of a class, with the inputs of its instance, that has made an object in a value's place."""
    made = open_program(failure).find_construction(value)
    call = None if made is None else made.node
    if made is None or not isinstance(call, ast.Call) or not call.args:
        return None
    inputs = [made.context.program.compute(made.at(each, ())) for each in call.args]
    if not any(isinstance(each, Tensor) for each in inputs):
        return None
    given = list(trace_back(made.at(call.func, ())))[-1]
    told = f"{text_of(owner)} is a {type(value).__name__}, which {text_of(call)} at {made.place()} makes"
    return f"{told}, as {text_of(call.func)} is the class: {text_of(given.node)}() at {given.place()}"


def _find_other_class(kind: Operand, keyword: str) -> str | None:
    """Return the class of the same kind, such as a loss, that knows a keyword: of several that of the shortest name."""
    word = re.search(r"[A-Z][a-z]+(?:\dd)?$", getattr(kind, "__name__", ""))
    if word is None or not isinstance(kind, type) or not is_name_of_package(kind.__module__):
        return None
    layers = import_module(f"{kind.__module__.partition('.')[0]}.nn")
    others = [getattr(layers, name) for name in dir(layers) if name.endswith(word[0])]
    knowing = [each.__name__ for each in others if keyword in inspect.signature(each).parameters]
    return min(knowing, key=len, default=None)


def _find_unused_call(failure: Failure, owner: ast.expr) -> str | None:
    """Return the statement that calls a loss and lets go of its value, where the value is asked of the loss itself."""
    source = None if failure.line is None else failure.line.source
    for node in source.nodes_of(ast.Expr) if source is not None else ():
        call = node.value
        if isinstance(call, ast.Call) and text_of(call.func) == text_of(owner) and source is not None:
            told = f"{text_of(owner)} is the function, and {text_of(call)} at {source.place_of(node)} gives the value"
            return f"{told}: value = {text_of(call)} there, and value here"
    return None
