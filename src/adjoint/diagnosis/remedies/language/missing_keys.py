"""Remedies for keys that a dictionary, a `ModuleDict` or a checkpoint has not."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple

from adjoint.core.runtime.similar_names import find_shared_word, find_similar_name
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.language.sources_of_none import find_literal
from adjoint.diagnosis.remedies.registry import at, find_length, remedy, try_in_order
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_expression, text_of

NUMBERED = re.compile(r"\d+\W?\w*$")  # names of samples, such as img_0.png
UNKNOWN = re.compile(r"unk|oov", re.IGNORECASE)  # the word that stands for all that are not known


KEY = r"^'?([\w.]+)'?$"  # all that the message of a KeyError tells


class KeyLookup(NamedTuple):
    """An expression that asks a dictionary, or the parts of a module, for a key that it has not."""

    source: SourceFile
    node: ast.Subscript
    held: Operand  # the dictionary
    key: str  # as the message tells it

    @property
    def name(self) -> str:
        return text_of(self.node.value)

    @property
    def key_text(self) -> str:
        """The text between the brackets."""
        return text_of(self.node.slice)

    @property
    def texts(self) -> list[str]:
        """The keys that are strings."""
        return [key for key in self.held if isinstance(key, str)]

    @property
    def description(self) -> str:
        return f"{self.name} has the keys {', '.join(map(repr, self.held))}"


@remedy(KEY)
def name_fields(failure: Failure, match: re.Match[str]) -> str | None:
    """A field that a dictionary whose keys are attributes has not."""
    if not isinstance(failure.error, KeyError) or failure.line is None:
        return None
    for node in ast.walk(failure.line.node):
        if not isinstance(node, ast.Attribute) or node.attr != match[1]:
            continue
        owner = evaluate(node.value, failure.frame)
        if isinstance(owner, dict) and type(owner) is not dict:
            name = text_of(node.value)
            near = find_similar_name(match[1], map(str, owner)) or next(
                (key for key in owner if str(key).startswith(match[1]) or match[1].startswith(str(key))), None
            )
            told = f"{name}{at(failure.find_operand(name))} has no {match[1]}, only {', '.join(map(str, owner))}"
            return f"{told}: {name}.{near} is meant, perhaps" if near else f"{told}: {match[1]!r} among its keys"
    return None


@remedy(KEY)
def name_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """A key that a dictionary of modules, or of a checkpoint, has not."""
    if not isinstance(failure.error, KeyError) or failure.line is None:
        return None
    for node in ast.walk(failure.line.node):
        if not isinstance(node, ast.Subscript):
            continue
        held: Operand = compute(node.value, failure.frame)
        held = _read_parts(failure, node.value) if held is MISSING else held
        held = vars(held)["_modules"] if is_module(held) else held  # of a ModuleDict
        lookup = KeyLookup(failure.line.source, node, held, match[1])
        advice = try_in_order(ADVICE_ON_KEYS, failure, lookup)
        if advice is not None:
            return advice
    return None


def _count_from_zero(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return how to count up a key that is not there before its first time."""
    statement = lookup.source.statement_of(lookup.node)
    if type(lookup.held) is not dict or not isinstance(statement, ast.AugAssign) or statement.target is not lookup.node:
        return None
    if lookup.held and find_similar_name(lookup.key, lookup.texts):
        return None
    name, key = lookup.name, lookup.key_text
    new = ast.BinOp(ast.Name(f"{name}.get({key}, 0)", ast.Load()), statement.op, statement.value)
    told = f"{name} has no {key} before the first {text_of(statement)}"
    return f"{told}: {name}[{key}] = {text_of(new)}, or {name} = collections.defaultdict(float)"


def _take_numbers_as_keys(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return where a dictionary is filled whose keys are tensors."""
    if type(lookup.held) is not dict or not lookup.held or not all(isinstance(each, Tensor) for each in lookup.held):
        return None
    told = f"the keys of {lookup.name} are tensors, of which none is found by its value"
    return f"{told}: {_find_filling(lookup.source, lookup.name) or 'key.item() where it is filled'}"


def _index_by_place(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return what to index where a dictionary is asked for a place."""
    held, name, index = lookup.held, lookup.name, lookup.key_text
    if not _is_short_dictionary(held):
        return None
    key = evaluate(lookup.node.slice, failure.frame)
    if type(key) is int and all(isinstance(each, str) and NUMBERED.search(each) for each in held):
        return f"{lookup.description}, and {index} is a place: list({name}.values())[{index}]"
    columns = [column for column, each in held.items() if isinstance(column, str) and hasattr(each, "__len__")]
    if type(key) is int and len(columns) == len(held):
        own = f"{name}[{columns[0]!r}]"
        counted = find_length(failure)
        length = "" if counted is None else f", and len({own}) at {counted.place()}"
        return f"{lookup.description}, each with values: {own}[{index}]{length}"
    if type(key) is int and all(type(each) is int for each in held):
        return f"{lookup.description}, and {key} is none of them: keys are no places"
    if lookup.key.isdigit() and all(isinstance(each, (list, tuple)) for each in held.values()):
        return f"{lookup.description}: {name}[{next(iter(held))!r}][{index}]"
    return None


def _index_list_of_keys(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return the list of a dictionary's keys that holds one at the place that the dictionary is asked for."""
    if not _is_short_dictionary(lookup.held) or type(evaluate(lookup.node.slice, failure.frame)) is not int:
        return None
    listed = _find_list_of_keys(failure, lookup.node, lookup.held)
    return None if listed is None else f"{lookup.description}, and {lookup.key_text} is a place: {listed}"


def _number_unknown_word(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return the number of a word that a vocabulary has not."""
    if not _is_short_dictionary(lookup.held) or isinstance(lookup.node.slice, ast.Constant):
        return None  # a constant is a setting, and no word
    texts, name, key = lookup.texts, lookup.name, lookup.key_text
    if len(lookup.held) < 2 or not texts or not all(type(each) is int for each in lookup.held.values()):
        return None
    known = ", ".join(map(repr, texts[:6])) + (", …" if len(texts) > 6 else "")
    told = f"{name} has no {lookup.key!r}, only {known}"
    if lookup.key.lower() in texts:
        return f"{told}, which are in lower case: {name}[{key}.lower()]"
    unknown = next((each for each in texts if UNKNOWN.search(each)), None)
    if unknown is not None:
        return f"{told}: {name}.get({key}, {name}[{unknown!r}])"
    return f"{told}: {name}.get({key}, …), with a number for what is unknown"


def _ask_inner_dictionary(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return the dictionary within the one asked that has the key."""
    inner = _find_within(lookup.held, lookup.key, lookup.name) if _is_short_dictionary(lookup.held) else None
    if inner is None:
        return None
    told = f"{lookup.name} has no {lookup.key!r}, only {', '.join(map(repr, lookup.held))}"
    around = failure.stack[min(1, len(failure.stack) - 1)]
    source, call = find_expression(around) or (None, None)
    given = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
    if source is None or given is None or evaluate(given, around.frame) is not lookup.held:
        return f"{told}: {inner} holds it"
    own = inner.removeprefix(lookup.name).removesuffix(f"[{lookup.key!r}]")
    return f"{told}: {text_of(given)}{own}, given at {source.place_of(given)}, is meant, perhaps"


def _name_nearest_key(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return the key that is meant, or where one is to be added."""
    if not _is_short_dictionary(lookup.held):
        return None
    key, texts = lookup.key, lookup.texts
    near = find_similar_name(key, texts) or next((each for each in texts if each in key or key in each), None)
    if near is not None and re.sub(r"\d", "", near) == re.sub(r"\d", "", key):
        near = None  # another of the same kind, as weights of two layers
    near = near or find_shared_word(key, texts) or _find_same_words(key, texts)
    if near is None:
        return _find_save(failure, lookup.node, key) or _describe_missing_key(failure, lookup.node, key)
    is_constant = isinstance(lookup.node.slice, ast.Constant)
    where = "" if is_constant else find_literal(lookup.source, key, ast.Pass())
    told = f"{lookup.description}, and no {key!r}{where.replace(', from', ' at')}" if where else lookup.description
    return f"{told}: {near!r} is meant, perhaps"


def _is_short_dictionary(held: Operand) -> bool:
    """True for a dictionary of so few keys that a line can tell them."""
    return isinstance(held, dict) and 0 < len(held) <= 40


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


def _complete_record(failure: Failure, lookup: KeyLookup) -> str | None:
    """Return which of the records that a loop goes through lacks a key that others of them have."""
    source, name, held = lookup.source, lookup.name, lookup.held
    key = compute(lookup.node.slice, failure.frame)
    loop: ast.AST | None = lookup.node
    while loop is not None and not isinstance(loop, ast.For):
        loop = source.parents.get(loop)
    records = compute(loop.iter, failure.frame) if isinstance(loop, ast.For) else None
    if not isinstance(loop, ast.For) or not isinstance(records, list):
        return None
    if type(key) is not str or not isinstance(held, dict):
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


# What knows more of the dictionary comes first.
ADVICE_ON_KEYS: tuple[Callable[[Failure, KeyLookup], str | None], ...] = (
    _count_from_zero,
    _take_numbers_as_keys,
    _index_by_place,
    _complete_record,
    _index_list_of_keys,
    _number_unknown_word,
    _ask_inner_dictionary,
    _name_nearest_key,
)
