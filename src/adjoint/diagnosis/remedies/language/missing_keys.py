"""Remedies for keys that a dictionary, a `ModuleDict` or a checkpoint has not."""

from __future__ import annotations

import ast
import re

from adjoint.core.runtime.similar_names import find_shared_word, find_similar_name
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.language.sources_of_none import find_literal
from adjoint.diagnosis.remedies.registry import at, find_length, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_expression, text_of

NUMBERED = re.compile(r"\d+\W?\w*$")  # names of samples, such as img_0.png
UNKNOWN = re.compile(r"unk|oov", re.IGNORECASE)  # the word that stands for all that are not known


@remedy(r"^'?([\w.]+)'?$")
def name_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """A key that a dictionary of modules, or of a checkpoint, has not."""
    if not isinstance(failure.error, KeyError):
        return None
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        owner = (
            evaluate(node.value, failure.frame) if isinstance(node, ast.Attribute) and node.attr == match[1] else None
        )
        if isinstance(owner, dict) and isinstance(node, ast.Attribute) and type(owner) is not dict:
            name = text_of(node.value)
            near = find_similar_name(match[1], map(str, owner)) or next(
                (key for key in owner if str(key).startswith(match[1]) or match[1].startswith(str(key))), None
            )
            told = f"{name}{at(failure.find_operand(name))} has no {match[1]}, only {', '.join(map(str, owner))}"
            return f"{told}: {name}.{near} is meant, perhaps" if near else f"{told}: {match[1]!r} among its keys"
        if isinstance(node, ast.Subscript):
            held: Operand = compute(node.value, failure.frame)
            held = _read_parts(failure, node.value) if held is MISSING else held
            held = vars(held)["_modules"] if is_module(held) else held
            statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
            near = find_similar_name(match[1], [each for each in held if isinstance(each, str)]) if held else None
            if type(held) is dict and isinstance(statement, ast.AugAssign) and statement.target is node and not near:
                name, key = text_of(node.value), text_of(node.slice)
                new = ast.BinOp(ast.Name(f"{name}.get({key}, 0)", ast.Load()), statement.op, statement.value)
                told = f"{name} has no {key} before the first {text_of(statement)}"
                return f"{told}: {name}[{key}] = {text_of(new)}, or {name} = collections.defaultdict(float)"
            if type(held) is dict and held and all(isinstance(each, Tensor) for each in held):
                filled = None if failure.line is None else _find_filling(failure.line.source, text_of(node.value))
                told = f"the keys of {text_of(node.value)} are tensors, of which none is found by its value"
                return f"{told}: {filled or 'key.item() where it is filled'}"
            if isinstance(held, dict) and 0 < len(held) <= 40:
                told = f"{text_of(node.value)} has the keys {', '.join(map(repr, held))}"
                key = evaluate(node.slice, failure.frame)
                columns = [name for name, each in held.items() if isinstance(name, str) and hasattr(each, "__len__")]
                if type(key) is int and all(isinstance(each, str) and NUMBERED.search(each) for each in held):
                    own = text_of(node.value)
                    return f"{told}, and {text_of(node.slice)} is a place: list({own}.values())[{text_of(node.slice)}]"
                if type(key) is int and len(columns) == len(held):
                    own = f"{text_of(node.value)}[{columns[0]!r}]"
                    counted = find_length(failure)
                    length = "" if counted is None else f", and len({own}) at {counted.place()}"
                    return f"{told}, each with values: {own}[{text_of(node.slice)}]{length}"
                if type(key) is int and all(type(each) is int for each in held):
                    return f"{told}, and {key} is none of them: keys are no places"
                if match[1].isdigit() and all(isinstance(each, (list, tuple)) for each in held.values()):
                    return f"{told}: {text_of(node.value)}[{next(iter(held))!r}][{text_of(node.slice)}]"
                alone = _find_others(failure, node, held)
                if alone is not None:
                    return alone
                texts = [key for key in held if isinstance(key, str)]
                listed = _find_list_of_keys(failure, node, held) if type(key) is int else None
                if listed is not None:
                    return f"{told}, and {text_of(node.slice)} is a place: {listed}"
                is_word = not isinstance(node.slice, ast.Constant)  # of a vocabulary, and no setting
                if is_word and texts and all(type(each) is int for each in held.values()) and len(held) > 1:
                    key = text_of(node.slice)
                    name = text_of(node.value)
                    known = ", ".join(map(repr, texts[:6])) + (", …" if len(texts) > 6 else "")
                    told = f"{name} has no {match[1]!r}, only {known}"
                    if match[1].lower() in texts:
                        return f"{told}, which are in lower case: {name}[{key}.lower()]"
                    unknown = next((each for each in texts if UNKNOWN.search(each)), None)
                    if unknown is not None:
                        return f"{told}: {name}.get({key}, {name}[{unknown!r}])"
                    return f"{told}: {name}.get({key}, …), with a number for what is unknown"
                inner = _find_within(held, match[1], text_of(node.value))
                if inner is not None:
                    known = ", ".join(map(repr, held))
                    around = failure.stack[min(1, len(failure.stack) - 1)]
                    source, call = find_expression(around) or (None, None)
                    given = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
                    if source is not None and given is not None and evaluate(given, around.frame) is held:
                        own = inner.removeprefix(text_of(node.value)).removesuffix(f"[{match[1]!r}]")
                        told = f"{text_of(given)}{own}, given at {source.place_of(given)}, is meant, perhaps"
                        return f"{text_of(node.value)} has no {match[1]!r}, only {known}: {told}"
                    return f"{text_of(node.value)} has no {match[1]!r}, only {known}: {inner} holds it"
                near = find_similar_name(match[1], texts) or next(
                    (key for key in texts if key in match[1] or match[1] in key), None
                )
                if near is not None and re.sub(r"\d", "", near) == re.sub(r"\d", "", match[1]):
                    near = None  # another of the same kind, as weights of two layers
                near = near or find_shared_word(match[1], texts) or _find_same_words(match[1], texts)
                saved = _find_save(failure, node, match[1]) if near is None else None
                told_key = _describe_missing_key(failure, node, match[1])
                is_far = failure.line is not None and not isinstance(node.slice, ast.Constant)
                where = find_literal(failure.line.source, match[1], ast.Pass()) if failure.line and is_far else ""
                told += f", and no {match[1]!r}{where.replace(', from', ' at')}" if where else ""
                return saved or (told_key if near is None else f"{told}: {near!r} is meant, perhaps")
    return None


def _find_filling(source: SourceFile, table: str) -> str | None:
    """Return what to write where a table is filled, for a key that is a tensor of one number."""
    for node in ast.walk(source.tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Call) and text_of(node.func) == f"{table}.setdefault" and node.args:
            key = node.args[0]
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and text_of(node.value) == table:
            key = node.slice
        if key is not None:
            return f"{text_of(key)}.item() in the place of {text_of(key)} at {source.place_of(node)}"
    return None


def _read_parts(failure: Failure, node: ast.expr) -> Operand:
    """Return the parts of a model by their names, of `dict(model.named_modules())`."""
    inner = node.args[0] if isinstance(node, ast.Call) and text_of(node.func) == "dict" and node.args else None
    method = inner.func if isinstance(inner, ast.Call) and not inner.args else None
    if not isinstance(method, ast.Attribute) or not method.attr.startswith("named_"):
        return MISSING
    model = evaluate(method.value, failure.frame)
    return dict(getattr(model, method.attr)()) if is_module(model) else MISSING


def _find_others(failure: Failure, node: ast.Subscript, held: dict[str, Operand]) -> str | None:
    """Return which of the records that a loop goes through lacks a key that others of them have."""
    source, name = None if failure.line is None else failure.line.source, text_of(node.value)
    key = compute(node.slice, failure.frame)
    loop: ast.AST | None = node
    while source is not None and loop is not None and not isinstance(loop, ast.For):
        loop = source.parents.get(loop)
    records = compute(loop.iter, failure.frame) if isinstance(loop, ast.For) else None
    if source is None or not isinstance(loop, ast.For) or not isinstance(records, list) or type(key) is not str:
        return None
    having = [i for i, each in enumerate(records) if isinstance(each, dict) and key in each]
    place = next((i for i, each in enumerate(records) if each is held), None)
    if not having or place is None:
        return None
    own = f"{text_of(loop.iter)}[{place}]"
    told = f"{name} is {own}, which has no {key!r}, as {text_of(loop.iter)}[{having[0]}] has"
    texts = {each for each, value in held.items() if isinstance(value, str)}
    for literal in source.nodes_of(ast.Dict):
        names = [str(each.value) for each in literal.keys if isinstance(each, ast.Constant)]
        written = dict(zip(names, literal.values, strict=False))
        is_own = bool(names) and key not in names and {*names} <= {*held}
        if is_own and all(text_of(written[each]) == repr(held[each]) for each in texts & {*names}):
            return f"{told}: {key!r} in {text_of(literal)} at {source.place_of(literal)} too"
    return f"{told}: {key!r} there too, or {name}.get({key!r}, …)"


def _find_list_of_keys(failure: Failure, node: ast.Subscript, held: dict[object, Operand]) -> str | None:
    """Return the item of a list of the same object, or of the frame, that is a key of a dictionary."""
    owner = node.value.value if isinstance(node.value, ast.Attribute) else None
    known = failure.frame.f_locals if owner is None else getattr(evaluate(owner, failure.frame), "__dict__", {})
    for name, each in known.items():
        if isinstance(each, (list, tuple)) and each and all(type(key) is str and key in held for key in each):
            text = name if owner is None else f"{text_of(owner)}.{name}"
            return f"{text_of(node.value)}[{text}[{text_of(node.slice)}]]"
    return None


def _find_same_words(name: str, keys: list[str]) -> str | None:
    """Return the key of as many words, of which each begins as the name's: `optim_state` of `optimizer_state`."""
    for key in keys:
        pairs = [*zip(key.lower().split("_"), name.lower().split("_"), strict=False)]
        are_alike = all(a and b and (a.startswith(b) or b.startswith(a)) for a, b in pairs)
        if key.count("_") == name.count("_") > 0 and are_alike:
            return key
    return None


def _find_within(held: Operand, key: str, text: str) -> str | None:
    """Return where the only dict within another one that has a key holds it: `cfg['train']['epochs']`."""
    found = (
        [name for name, each in held.items() if isinstance(each, dict) and key in each] if type(held) is dict else []
    )
    return f"{text}[{found[0]!r}][{key!r}]" if len(found) == 1 else None


def _find_save(failure: Failure, node: ast.Subscript, key: str) -> str | None:
    """Return the line that saves a checkpoint without a key that is asked of what is loaded."""
    origin = None if failure.line is None else find_origin(failure.line.source, node.value, failure.stack)
    made = None if origin is None else origin.value
    if origin is None or not isinstance(made, ast.Call) or not text_of(made.func).endswith("load"):
        return None
    for call in ast.walk(origin.source.tree):
        given = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if isinstance(call, ast.Call) and isinstance(given, ast.Dict) and text_of(call.func).endswith("save"):
            keys = ", ".join(text_of(each) for each in given.keys if each is not None)
            told = f"{text_of(node.value)}{at(NamedValue('', None, origin))} has no {key!r}"
            return (
                f"{told}: {origin.source.place_of(call)} saves {keys}; save {key!r} there too, or leave this line out"
            )
    return None


def _describe_missing_key(failure: Failure, node: ast.Subscript, key: str) -> str:
    """Return the lines that made the dictionary and the key, and how to read a key that may not be there."""
    held: Operand = compute(node.value, failure.frame)
    held = _read_parts(failure, node.value) if held is MISSING else held
    is_of_modules = is_module(held)
    own, given = failure.find_operand(text_of(node.value)), failure.find_operand(text_of(node.slice))
    origin = None if own is None or own.origin is None else own.origin.value
    name = text_of(node.value)
    if isinstance(origin, ast.Subscript) and isinstance(place := evaluate(origin.slice, failure.frame), (int, str)):
        name = f"{name}, {text_of(origin.value)}[{place!r}],"
    known = ", ".join(map(repr, vars(held)["_modules"] if is_of_modules else held))
    told = f"{name}{at(own)} has no {key!r}, only {known}"
    if given is not None and given.origin is not None:
        told += f", and {given.text}{at(given)} is {key!r}"
    source = None if failure.line is None else failure.line.source
    loops = source.nodes_of(ast.For) if source is not None else ()
    is_of_loop = any(node in ast.walk(loop) and text_of(node.slice) in text_of(loop.target) for loop in loops)
    read = f"if {text_of(node.slice)} in {text_of(node.value)}" if is_of_modules or is_of_loop else ""
    read = read or f"{text_of(node.value)}.get({text_of(node.slice)}, …) for those without"
    return f"{told}: {key!r} there too, or {read}"
