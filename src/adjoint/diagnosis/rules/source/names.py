"""Rules on names: functions that read a loop's variable too late, counters that share a name, results taken in turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from adjoint.diagnosis.rules.source.splits import pairs_of
from adjoint.diagnosis.rules.source.text_rule import TextRule, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

KEEPS = re.compile(r"^(?:append|add|register_.*|insert|setdefault)$")
HIDDEN = re.compile(r"^(?:h|hx|hidden|h_?[ntx0-9]|h_new|state)$")
CELL = re.compile(r"^(?:c|cx|cell|c_?[ntx0-9]|c_new)$")
OUTPUT = re.compile(r"^(?:o|out|outs|outputs?|enc_outs?|encoder_outputs?|seq|ys?|features?)$")
MIN_PARTS = 3  # of a transition
LAYER_RESULTS = {
    **dict.fromkeys(("LSTMCell",), (HIDDEN, CELL)),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (OUTPUT, HIDDEN)),
}


class LateBinding(TextRule):
    """Functions made in a loop that read its variable when they run, after the loop: all see its last value."""

    def read(self, source: SourceFile) -> None:
        functions: list[ast.Lambda | ast.FunctionDef] = [*source.nodes_of(ast.Lambda)]
        functions += source.nodes_of(ast.FunctionDef)
        for function in functions:
            late = sorted(loop_variables(source, function) & free_names(function))
            if late:
                problem = (
                    f"the functions of this loop read {late[0]} when they are called, after the loop: all of them "
                )
                problem += "see its last value"
                advice = f"bind it where the function is made: {late[0]}={late[0]} among its parameters"
                self.blame("late-binding", (source, function), late[0], problem, advice)
                return


def free_names(function: ast.Lambda | ast.FunctionDef) -> set[str]:
    """Return the names that a function reads and does not define."""
    body = function.body if isinstance(function.body, list) else [function.body]
    names = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Name)]
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    own = {arg.arg for arg in arguments} | {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - own


def loop_variables(source: SourceFile, function: ast.Lambda | ast.FunctionDef) -> set[str]:
    """Return the variables of the comprehension or of the loops in which a function is made, and kept for later."""
    parent = source.parents[function]
    if isinstance(parent, (ast.ListComp, ast.DictComp)):
        item = parent.elt if isinstance(parent, ast.ListComp) else parent.value
        return set() if item is not function else {name for each in parent.generators for name in _names(each.target)}
    found: set[str] = set()
    while not isinstance(parent, (ast.Module, ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        if isinstance(parent, ast.For) and _is_kept(parent, function):
            found |= _names(parent.target)
        parent = source.parents[parent]
    return found


def _is_kept(loop: ast.For, function: ast.Lambda | ast.FunctionDef) -> bool:
    """Return whether a turn of a loop gives a function to what outlives it: a list or dict from before, a hook."""
    stored = {
        name
        for line in ast.walk(loop)
        if isinstance(line, ast.Assign)
        for each in line.targets
        for name in ([each.id] if isinstance(each, ast.Name) else [])
    }
    for node in ast.walk(loop):
        values = node.args if isinstance(node, ast.Call) and KEEPS.match(name_of(node)) else []
        owner = (
            node.func.value if values and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        )
        is_item = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
        if is_item and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            values, owner = [node.value], node.targets[0].value
        if any(value is function or has_name_of(value, function) for value in values):
            is_list = is_item or name_of(node) in ("append", "add", "insert", "setdefault")
            return not (is_list and owner is not None and text_of(owner) in stored)
    return False


def has_name_of(value: ast.expr, function: ast.Lambda | ast.FunctionDef) -> bool:
    """Return whether an expression is the name of a function."""
    return isinstance(value, ast.Name) and isinstance(function, ast.FunctionDef) and value.id == function.name


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


class SharedCounter(TextRule):
    """A loop within another that counts with the same variable, which is read after it."""

    def read(self, source: SourceFile) -> None:
        for outer in source.nodes_of(ast.For):
            for i, inner in enumerate(outer.body):
                shared = _names(outer.target) & _names(inner.target) if isinstance(inner, ast.For) else set()
                for name in sorted(shared - {"_"}):
                    use = next(reads_first(outer.body[i + 1 :], name), None)
                    if use is not None:
                        problem = (
                            f"{name} counts the loop at line {outer.lineno} too: line {use.lineno} reads the last "
                        )
                        problem += "value of this one"
                        self.blame("counter-shared", (source, inner), name, problem, "another name for one of them")


def reads_first(lines: list[ast.stmt], name: str) -> Iterator[ast.Name]:
    """Yield the first use of a name in some lines, if that is no new value."""
    uses = [node for line in lines for node in ast.walk(line) if isinstance(node, ast.Name) and node.id == name]
    if uses and all(isinstance(node.ctx, ast.Load) for node in uses):
        yield min(uses, key=lambda node: node.lineno)


class CrossedResults(TextRule):
    """Results that are given the names of one another: `logvar, mu = model(x)` of a model that returns `mu, logvar`."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.Assign):
            for target, value in pairs_of(node):
                if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Call):
                    continue
                taken = [name_of(each) for each in flatten(target)]
                given = self._find_given(source, value, len(taken))
                pair = next(
                    (
                        (i, j)
                        for i, j in combinations(range(len(taken)), 2)
                        if len(given) == len(taken)
                        and given[i].search(taken[j])
                        and given[j].search(taken[i])
                        and not given[i].search(taken[i])
                        and not given[j].search(taken[j])
                    ),
                    None,
                )
                if pair is not None:
                    i, j = pair
                    problem = f"{text_of(value.func)} gives them in the other order: {taken[i]} gets what belongs to "
                    problem += f"{taken[j]}"
                    right = list(taken)
                    right[i], right[j] = taken[j], taken[i]
                    self.blame("results-crossed", (source, node), taken[i], problem, f"{', '.join(right)} = …")
                    return

    def _find_given(self, source: SourceFile, call: ast.Call, count: int) -> list[re.Pattern[str]]:
        """Return what the names of the parts of a result are to match."""
        if name_of(call) == "grad" and len(call.args) > 1 and isinstance(call.args[1], (ast.Tuple, ast.List)):
            names = [name_of(each) for each in call.args[1].elts]
            return [re.compile(rf"(?:_|_d|^d\w*d)_?{re.escape(name)}$") for name in names if name]
        if name_of(call) == "zip" and len(call.args) == 1 and isinstance(call.args[0], ast.Starred):
            return self._find_stored(source, count)
        made = find_class(source, call.func)
        if made in LAYER_RESULTS and count == 2:
            return list(LAYER_RESULTS[made])
        functions = [
            node
            for node in source.nodes_of(ast.FunctionDef)
            if (node.name == name_of(call) and isinstance(source.parents[node], (ast.Module, ast.ClassDef)))
            or (node.name in ("forward", "__call__") and getattr(source.parents[node], "name", "") == made)
        ]
        returns = [each.value for node in functions for each in ast.walk(node) if isinstance(each, ast.Return)]
        tuples = [[name_of(part) for part in flatten(each)] for each in returns if isinstance(each, ast.Tuple)]
        if len(functions) != 1 or len(tuples) != len(returns) or len({tuple(each) for each in tuples}) != 1:
            return []
        return [re.compile(rf"^{re.escape(name)}$" if name else "(?!)") for name in tuples[0]]

    def _find_stored(self, source: SourceFile, count: int) -> list[re.Pattern[str]]:
        """Return what the names of the parts of stored transitions are to match, where one line stores such."""
        stored = [
            [name_of(item) for item in call.args[0].elts]
            for call in source.calls_of("append", "push", "add")
            if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) and len(call.args[0].elts) == count
        ]
        if len({tuple(names) for names in stored}) != 1 or count < MIN_PARTS:
            return []
        return [
            re.compile(rf"^(?:b_|batch_)?{re.escape(name)}(?:s|es|_b|_batch)?$" if name else "(?!)")
            for name in stored[0]
        ]


def flatten(node: ast.Tuple) -> list[ast.expr]:
    """Return the parts of a tuple, and of those in it."""
    return [each for part in node.elts for each in (flatten(part) if isinstance(part, ast.Tuple) else [part])]


def find_class(source: SourceFile, callee: ast.expr) -> str:
    """Return the name of the class of which a variable or an attribute of self holds an object."""
    key = name_of(callee)
    lines = source.assignments_in(source.tree).get(key, []) if isinstance(callee, ast.Name) else []
    if isinstance(callee, ast.Attribute):
        lines = [line for (_, name), made in source.attribute_assignments.items() if name == key for line in made]
    kinds = {name_of(line.value) for line in lines if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)}
    return kinds.pop() if len(kinds) == 1 else ""


class RepeatedDerivative(TextRule):
    """The same derivative under two names, where the second was to be that of the first."""

    def read(self, source: SourceFile) -> None:
        lines = [
            (target, node)
            for node in source.nodes_of(ast.Assign)
            for target, value in pairs_of(node)
            if any(name_of(call) == "grad" for call in ast.walk(value) if isinstance(call, ast.Call))
        ]
        for (one, first), (other, second) in combinations(lines, 2):
            scope = source.scope_of(first)
            if scope is not source.scope_of(second) or text_of(first.value) != text_of(second.value):
                continue
            between = [
                name
                for name, made in source.assignments_in(scope).items()
                if any(first.lineno <= line.lineno < second.lineno and line is not first for line in made)
            ]
            given = _names(first.value)
            if text_of(one) != text_of(other) and not given & set(between) and not given & _names(one):
                problem = (
                    f"{text_of(other)} is computed as {text_of(one)} was, at line {first.lineno}: both are the same "
                )
                problem += "derivative"
                advice = f"the gradient of {text_of(one)}, if it is to be the second derivative"
                self.blame("derivative-repeated", (source, second), text_of(other), problem, advice)
                return
