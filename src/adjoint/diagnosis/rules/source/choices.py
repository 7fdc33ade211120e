"""Rules on options and conditions: keys and words that do not occur, arguments that are swallowed, what never holds."""

from __future__ import annotations

import ast
import re

from adjoint.diagnosis.rules.source.slips import BEST
from adjoint.diagnosis.rules.source.standing import loops_around
from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

CHANGES = frozenset({"append", "extend", "add", "update", "insert", "setdefault", "appendleft", "push"})
DISCOUNT = re.compile(r"(?:^|_)(?:gamma|discount)(?:_factor)?$", re.IGNORECASE)
REWARD = re.compile(r"^(?:r|rew|rewards?|R|ret|returns?)(?:_?[a-z0-9])?$", re.IGNORECASE)


class MissingWord(TextRule):
    """A variable of a loop over words that is compared with another word: what the condition holds never runs."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            items = loop.iter.elts if isinstance(loop.iter, (ast.List, ast.Tuple)) else []
            words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if len(words) < 2 or len(words) != len(items) or not isinstance(loop.target, ast.Name):
                continue
            tests = [each for line in loop.body for each in ast.walk(line) if isinstance(each, ast.Compare)]
            for node in sorted(tests, key=lambda each: each.lineno):
                other = node.comparators[0]
                is_same = isinstance(node.ops[0], ast.Eq) and text_of(node.left) == loop.target.id
                if is_same and isinstance(other, ast.Constant) and other.value not in words:
                    problem = f"{text_of(node)} is never true: the loop goes over {', '.join(map(repr, words))}"
                    near = max(words, key=lambda word: len({*word} & {*str(other.value)}))
                    self.blame("never-equal", (source, node), loop.target.id, problem, f"{loop.target.id} == {near!r}")
                    return


class MissingKey(TextRule):
    """`config.get("learning_rate", 1e-3)` of a dict that has the value under another key, which nobody reads."""

    def read(self, source: SourceFile) -> None:
        for line in source.nodes_of(ast.Assign):
            if not isinstance(line.value, ast.Dict) or not isinstance(line.targets[0], ast.Name):
                continue
            name = line.targets[0].id
            keys = [key.value for key in line.value.keys if isinstance(key, ast.Constant)]
            uses = [node for node in source.nodes_of(ast.Name) if node.id == name and node is not line.targets[0]]
            parents = [source.parents[node] for node in uses]
            items = [node for node in parents if isinstance(node, ast.Subscript)]
            calls = [source.parents[node] for node in parents if isinstance(node, ast.Attribute) and node.attr == "get"]
            gets = [node for node in calls if isinstance(node, ast.Call) and len(node.args) == 2]
            is_plain = len(items) + len(gets) == len(uses) and all(isinstance(x.ctx, ast.Load) for x in items)
            read = {text_of(node.slice) for node in items} | {text_of(node.args[0]) for node in gets}
            unread = [key for key in keys if repr(key) not in read]
            for call in gets if is_plain and len(keys) == len(line.value.keys) else ():
                key = call.args[0]
                if isinstance(key, ast.Constant) and key.value not in keys and unread:
                    problem = (
                        f"{name} has no {key.value!r}: {text_of(call)} is {text_of(call.args[1])}, and nobody reads "
                    )
                    problem += f"{', '.join(map(repr, unread))}"
                    self.blame("key-missing", (source, call), str(key.value), problem, f"{name}[{unread[0]!r}]")
                    return


class SwallowedOption(TextRule):
    """An option that a class takes among its `**kwargs`, which nobody reads."""

    def read(self, source: SourceFile) -> None:
        for kind in source.nodes_of(ast.ClassDef):
            made = next((x for x in kind.body if isinstance(x, ast.FunctionDef) and x.name == "__init__"), None)
            if made is None or made.args.kwarg is None:
                continue
            rest = made.args.kwarg.arg
            if any(isinstance(x, ast.Name) and x.id == rest for x in ast.walk(made)):
                continue
            known = [arg.arg for arg in (*made.args.args, *made.args.kwonlyargs)]
            for call in source.calls_of(kind.name):
                option = next((each.arg for each in call.keywords if each.arg and each.arg not in known), None)
                if option is not None:
                    near = max(known, key=lambda name: len(common_start(name, option)))
                    problem = f"{kind.name} has no option {option}: **{rest} takes it, and nobody reads that"
                    self.blame("option-swallowed", (source, call), option, problem, f"{near}=…, and no **{rest}")
                    return


def common_start(one: str, other: str) -> str:
    """Return what two names begin with."""
    size = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:size]


class SharedAttribute(TextRule):
    """A list in the body of a class, or the default of a parameter, that methods fill: instances have the same one."""

    def _check_defaults(self, source: SourceFile, kind: ast.ClassDef, calls: list[ast.Call]) -> None:
        """Look for an attribute that is the default of a parameter, a list or a dict, in all instances."""
        for function in kind.body:
            if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
                continue
            given = function.args.args[-len(function.args.defaults) :] if function.args.defaults else []
            for arg, value in zip(given, function.args.defaults, strict=True):
                lines = [line for line in function.body if isinstance(line, ast.Assign)]
                kept = [text_of(line.targets[0]) for line in lines if text_of(line.value) == arg.arg]
                filled = any(
                    text_of(call.func).startswith(f"{name}.") and name_of(call) in CHANGES
                    for name in kept
                    for call in calls_in(kind)
                )
                left = [call for call in calls if not call.args and arg.arg not in {key.arg for key in call.keywords}]
                if isinstance(value, (ast.List, ast.Dict)) and filled and len(left) > 1:
                    problem = f"{kept[0]} is the default of {arg.arg}, one for all {len(left)} instances of "
                    problem += f"{kind.name}: what one of them keeps, the others have too"
                    advice = f"{arg.arg}=None, and {kept[0]} = {text_of(value)} where it is None"
                    self.blame("attribute-shared", (source, function), arg.arg, problem, advice)

    def read(self, source: SourceFile) -> None:
        for kind in source.nodes_of(ast.ClassDef):
            self._check_defaults(source, kind, source.calls_of(kind.name))
            calls = [call for call in source.calls_of(kind.name) if call.lineno > kind.lineno]
            own = {
                text_of(target) for line in ast.walk(kind) if isinstance(line, ast.Assign) for target in line.targets
            }
            for line in kind.body:
                value = line.value if isinstance(line, ast.Assign) else None
                is_empty = isinstance(value, (ast.List, ast.Dict)) and not ast.unparse(value).strip("[]{}")
                is_empty |= isinstance(value, ast.Call) and name_of(value) in ("deque", "list", "dict", "set")
                name = name_of(line.targets[0]) if isinstance(line, ast.Assign) else ""
                filled = any(
                    text_of(call.func).startswith(f"self.{name}.") and name_of(call) in CHANGES
                    for call in calls_in(kind)
                )
                if is_empty and filled and f"self.{name}" not in own and len(calls) > 1:
                    problem = (
                        f"{name} is one for all {len(calls)} instances of {kind.name}: what one of them keeps, the "
                    )
                    problem += "others have too"
                    advice = f"self.{name} = {text_of(value) if value else '[]'} in __init__"
                    self.blame("attribute-shared", (source, line), name, problem, advice)


class NeverBetter(TextRule):
    """A best value that is brought up to date before it is compared: no later one is ever better."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.If):
            test = node.test
            if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.Gt)):
                continue
            value, best = text_of(test.left), text_of(test.comparators[0])
            block = getattr(source.parents[node], "body", [])
            for line in block[: block.index(node)] if node in block else ():
                text = text_of(line)
                if text in {
                    f"{best} = {word}({a}, {b})" for word in ("min", "max") for a, b in ((best, value), (value, best))
                }:
                    problem = f"{text_of(test)} is never true: {best} has taken {value} already, at line {line.lineno}"
                    advice = f"compare first, and set {best} = {value} in the block"
                    self.blame("never-better", (source, line), best, problem, advice)


class StandingBest(TextRule):
    """A best value that no line brings up to date: each epoch counts as the best."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.If):
            test = node.test
            if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE)):
                continue
            best = test.comparators[0]
            scope = source.scope_of(node)
            keeps = any(name_of(call) in ("state_dict", "save", "deepcopy") for call in calls_in(*node.body))
            if not isinstance(best, ast.Name) or not BEST.search(best.id.lower()) or not keeps:
                continue
            stores = [
                x
                for x in ast.walk(scope)
                if isinstance(x, ast.Name) and x.id == best.id and not isinstance(x.ctx, ast.Load)
            ]
            if len(stores) == 1 and stores[0].lineno < node.lineno and not any(loops_around(source, stores[0])):
                problem = f"no line brings {best.id} up to date: it stays what line {stores[0].lineno} made it, and "
                problem += "nearly each state counts as the best"
                advice = f"{best.id} = {text_of(test.left)} in the block"
                self.blame("never-better", (source, node), best.id, problem, advice)


class LargeDiscount(TextRule):
    """A discount above 1: values of later steps count more than those of the next, and grow without a limit."""

    def read(self, source: SourceFile) -> None:
        sums = [node for node in source.nodes_of(ast.BinOp) if isinstance(node.op, ast.Add)]
        used = {
            text_of(x)
            for node in sums
            if REWARD.match(name_of(node.left))
            for x in ast.walk(node.right)
            if isinstance(x, (ast.Name, ast.Attribute))
        }
        for line in source.nodes_of(ast.Assign):
            name, value = name_of(line.targets[0]), line.value
            number = value.value if isinstance(value, ast.Constant) else 0
            if (
                DISCOUNT.search(name)
                and isinstance(number, (int, float))
                and number > 1
                and text_of(line.targets[0]) in used
            ):
                problem = (
                    f"{name} is {number:g}: a value is worth more the later it comes, and targets grow without a limit"
                )
                self.blame("discount-above-one", (source, line), name, problem, f"{name} = 0.99")
