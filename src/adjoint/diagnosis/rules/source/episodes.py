"""Rules on episodes: random actions where the best were meant, and transitions that lead nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

DRAWS = frozenset({"random", "rand", "uniform", "random_sample"})
CHOICES = frozenset({"randrange", "randint", "choice", "choices", "sample", "integers"})
GREEDY = frozenset({"argmax", "max"})
STORES = frozenset({"append", "push", "add", "store", "remember", "insert", "put", "appendleft"})
STATES = re.compile(r"^(?:\w*_)?(?:s|st|o|state|obs|observation|next_state|next_obs|s2|s_|ns)$")
ENDS = re.compile(r"d|dones?|is_done|terminal|terminated|term|ends?|finished|mask|not_done|nonterminal")
FLOORS = re.compile(r"min|end|final|floor|low|^0?\.[0-4]")
MIN_ITEMS = 4  # of a transition: state, action, reward, next state


class ExplorationChoice(TextRule):
    """An action that is random with the probability 1 - epsilon, and the best one with epsilon."""

    def read(self, source: SourceFile) -> None:
        choices: list[ast.If | ast.IfExp] = [*source.nodes_of(ast.If), *source.nodes_of(ast.IfExp)]
        for node in choices:
            yes, no = _branches(source, node)
            test = node.test
            if not isinstance(test, ast.Compare) or len(test.ops) != 1:
                continue
            draw, limit, op = test.left, test.comparators[0], test.ops[0]
            is_less = isinstance(op, (ast.Lt, ast.LtE))
            if name_of(limit) in DRAWS:
                draw, limit, is_less = limit, draw, not is_less
            if isinstance(draw, ast.Call) and name_of(draw) == "item" and isinstance(draw.func, ast.Attribute):
                draw = draw.func.value
            is_draw = isinstance(draw, ast.Call) and name_of(draw) in DRAWS
            is_named = re.search(r"(?:^|_)eps", name_of(limit).lower()) is not None
            if not is_draw or not is_named or not isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                continue
            random, best = (yes, no) if is_less else (no, yes)
            if _calls(best, CHOICES) and not _calls(best, GREEDY) and _calls(random, GREEDY):
                name = text_of(limit)
                problem = f"{text_of(test)} leads to the {'best' if is_less else 'random'} action: with {name} = 0.1 "
                problem += "nine of ten actions are random"
                advice = f"a random action where the number is below {name}: turn the comparison"
                self.blame("exploration-inverted", (source, test), name, problem, advice)


def _branches(source: SourceFile, node: ast.If | ast.IfExp) -> tuple[Sequence[ast.AST], Sequence[ast.AST]]:
    """Return what runs where a test holds, and where not."""
    if isinstance(node, ast.IfExp):
        return [node.body], [node.orelse]
    is_end = isinstance(node.body[-1], ast.Return) and not node.orelse
    return node.body, _statements_after(source, node) if is_end else node.orelse


def _statements_after(source: SourceFile, node: ast.AST) -> list[ast.AST]:
    """Return what follows a statement in its block."""
    parent = source.parents.get(node, source.tree)
    for block in (getattr(parent, name, []) for name in ("body", "orelse")):
        if isinstance(block, list) and node in block:
            return list(block[block.index(node) + 1 :])
    return []


def _calls(nodes: Sequence[ast.AST], names: frozenset[str]) -> bool:
    return any(name_of(call) in names for call in calls_in(*nodes))


class SameStates(TextRule):
    """A transition in a replay memory whose next state is the state itself."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of(*sorted(STORES)):
            only = call.args[0] if len(call.args) == 1 else None
            items = only.elts if isinstance(only, (ast.Tuple, ast.List)) else call.args
            items = [item for item in items if not isinstance(item, ast.Starred)]
            if len(items) < MIN_ITEMS:
                continue
            names = [text_of(_value_of(item)) for item in items]
            for i, name in enumerate(names):
                if name in names[:i] and STATES.search(name.rpartition(".")[2]):
                    problem = f"the transition has {name} as its state and as its next state: nothing leads anywhere"
                    advice = "store the state that the step of the environment gave"
                    self.blame("same-next-state", (source, call), name, problem, advice)
            self._check_order(source, call, names)

    def _check_order(self, source: SourceFile, call: ast.Call, names: list[str]) -> None:
        """Look for `state = next_state` ahead of the call that stores both."""
        statement = source.statement_of(call)
        parent = source.parents.get(statement, source.tree)
        block = getattr(parent, "body", [])
        for node in block[: block.index(statement)] if statement in block else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and len(node.targets) == 1:
                target, value = text_of(node.targets[0]), node.value.id
                if target in names and value in names and STATES.search(target):
                    problem = f"{target} = {value} comes before the line that stores both: state and next state are "
                    problem += "the same"
                    self.blame("same-next-state", (source, node), target, problem, "store the transition first")


def _value_of(node: ast.expr) -> ast.expr:
    """Return a variable past the methods that copy it."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    return node


class EpisodeEnds(TextRule):
    """Returns that go on over the end of an episode, though the loop reads where episodes end."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            inside = [each for line in loop.body for each in ast.walk(line)]
            used = {each.id for each in inside if isinstance(each, ast.Name)}
            scope = source.scope_of(loop)
            known = [name_of(each) for each in getattr(loop.target, "elts", ())]
            known += [arg.arg for arg in scope.args.args] if isinstance(scope, ast.FunctionDef) else []
            known += [] if isinstance(loop.target, ast.Tuple) else list(source.assignments_in(scope))
            ends = [name for name in known if ENDS.fullmatch(name)]
            if not isinstance(loop.target, ast.Tuple):
                ends = [name for name in ends if name.endswith("s")]  # those of all steps
            if any(ENDS.fullmatch(name) for name in used):
                continue
            for node in inside:
                if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
                    continue
                name, value = text_of(node.targets[0]), node.value
                sides = value.left, value.right
                products = [side for side in sides if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult)]
                has_itself = any(text_of(each) == name for side in products for each in ast.walk(side))
                if ends and has_itself and isinstance(value.op, ast.Add):
                    problem = (
                        f"{text_of(node)} does not use {ends[0]}: the return of an episode goes on with the rewards "
                    )
                    problem += "of the next one"
                    advice = f"{name} times (1 - {ends[0]})"
                    self.blame("returns-over-ends", (source, node), ends[0], problem, advice)


class FloorAsCeiling(TextRule):
    """A value that decays to a least one by `min`, which takes it there at once."""

    def read(self, source: SourceFile) -> None:
        for value in source.calls_of("min"):
            node = source.parents.get(value)
            if not isinstance(node, ast.Assign) or len(value.args) != 2:
                continue
            name = text_of(node.targets[0])
            for decayed, floor in (value.args, value.args[::-1]):
                is_product = isinstance(decayed, ast.BinOp) and isinstance(decayed.op, ast.Mult)
                has_itself = name in {text_of(each) for each in ast.walk(decayed)}
                factors = [each.value for each in ast.walk(decayed) if isinstance(each, ast.Constant)]
                is_decay = "decay" in text_of(decayed).lower() or any(isinstance(x, float) and x < 1 for x in factors)
                if is_product and has_itself and is_decay and FLOORS.search(name_of(floor).lower() or text_of(floor)):
                    problem = f"min takes {name} to {text_of(floor)} at once: it is the least of both"
                    self.blame("floor-as-ceiling", (source, node), name, problem, f"max({text_of(floor)}, …)")


class ReturnsOfThePast(TextRule):
    """Discounted returns that are added up from the first reward on: each is of the past."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if not isinstance(loop.iter, (ast.Name, ast.Attribute)):
                continue
            rewards, item = name_of(loop.iter), text_of(loop.target)
            for node in loop.body if re.search(r"rew|^rs?$", rewards) else ():
                value = node.value if isinstance(node, ast.Assign) else None
                if (
                    not isinstance(value, ast.BinOp)
                    or not isinstance(value.op, ast.Add)
                    or not isinstance(node, ast.Assign)
                ):
                    continue
                name, sides = text_of(node.targets[0]), (value.left, value.right)
                product = next((x for x in sides if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Mult)), None)
                is_sum = product is not None and name in {text_of(x) for x in ast.walk(product)}
                if is_sum and any(text_of(x) == item for x in sides):
                    problem = (
                        f"{text_of(node)} goes through {rewards} from the first on: each return adds up the rewards "
                    )
                    problem += "before it, and not those after it"
                    advice = f"for {item} in reversed({rewards}), and insert(0, {name})"
                    self.blame("returns-of-the-past", (source, loop), rewards, problem, advice)
