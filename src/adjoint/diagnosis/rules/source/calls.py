"""Rules on single calls: arguments that mean something else, blocks that are not entered, rates that rise."""

from __future__ import annotations

import ast
import re

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.rules.source.epochs import nested_loops
from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array

BLOCKS = frozenset({"no_grad", "inference_mode", "enable_grad", "autocast"})
ANGLES = re.compile(
    r"(?:^|_|\b)(?:deg|degrees?|angles?|lat|lon|latitude|longitude|heading|bearing|azimuth|rotation|direction)"
)
RADIANS = re.compile(r"pi\b|tau\b|3\.14|rad(?:ians?)?(?:_|\b)|deg2rad|radians", re.IGNORECASE)
LOG_VARIANCE = re.compile(r"^(?:log_?vars?|lv|log_?sigma2|log_?variance)$", re.IGNORECASE)
MIN_DEGREES, FULL_TURN = 20, 360
MAX_SMOOTHING = 0.5
MIN_RISE = 2  # less is a search for the rate
MAX_DECAY = 0.97  # of the rate, from one batch to the next


def number_in(node: ast.expr | None) -> float | None:
    """Return the value of a number that a program writes."""
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, (int, float)) else None


class BackwardArgument(TextRule):
    """`loss.backward(loss)`: the gradients are multiplied by the loss."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("backward"):
            if not isinstance(call.func, ast.Attribute):
                continue
            given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "gradient")]
            name = text_of(call.func.value)
            if given and text_of(given[0]) == name:
                problem = (
                    f"backward gets {name} as the gradient of {name}: all gradients are multiplied by it, and vanish "
                )
                problem += "as it falls"
                self.blame("loss-as-gradient", (source, call), name, problem, f"{name}.backward()")


class UnenteredBlock(TextRule):
    """`torch.no_grad()` on a line of its own, which changes nothing."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.Expr):
            call = node.value
            if isinstance(call, ast.Call) and name_of(call) in BLOCKS and isinstance(call.func, ast.Attribute):
                name = name_of(call)
                problem = f"{text_of(call)} makes a block that nothing enters: the lines below it run as before"
                self.blame("block-not-entered", (source, node), name, problem, f"with {text_of(call)}: …")


class SharedTransform(TextRule):
    """The transform of one part of a split that is set through its dataset, which both parts have."""

    def read(self, source: SourceFile) -> None:
        if not source.calls_of("random_split", "Subset"):
            return
        for node in source.nodes_of(ast.Assign):
            for target in node.targets:
                if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Attribute):
                    continue
                if any(
                    text_of(x) == text_of(target.value) for line in source.nodes_of(ast.Assign) for x in line.targets
                ):
                    continue  # the part has a dataset of its own
                if target.value.attr == "dataset" and target.attr != "indices":
                    part = text_of(target.value.value)
                    problem = (
                        f"{text_of(target)} is set for the dataset that all parts share: the samples of training get "
                    )
                    problem += "it too"
                    advice = f"a dataset of its own for {part}: Subset(other, {part}.indices)"
                    self.blame("transform-shared", (source, node), text_of(target), problem, advice)


class SmoothedAway(TextRule):
    """A smoothing of labels that leaves hardly anything of them."""

    def read(self, source: SourceFile) -> None:
        for each in source.nodes_of(ast.keyword):
            value = number_in(each.value) if each.arg == "label_smoothing" else None
            if value is not None and value > MAX_SMOOTHING:
                problem = f"label_smoothing={value:g} gives {value:.0%} of each target to all classes alike: hardly "
                problem += "anything of the label is left"
                self.blame("smoothed-away", (source, each.value), "label_smoothing", problem, "label_smoothing=0.1")


class Degrees(TextRule):
    """The sine or cosine of an angle in degrees."""

    ops = frozenset({"sin", "cos"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.large: set[int] = set()  # lines whose angles are no radians

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if is_array(x) and x.node is None and x.array.size and MIN_DEGREES < abs(x.array).max() <= FULL_TURN:
            self.large.add(caller_place().site.line)

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("sin", "cos"):
            text = text_of(call.args[0] if call.args else call.func)
            owner = text_of(call.func).rpartition(".")[0]
            is_written = re.search(r"(?<![\w.])(?:180|360)(?:\.0*)?(?![\w.])", text) is not None
            is_named = ANGLES.search(text) is not None and call.lineno in self.large
            is_told = re.search(r"(?:^|_)deg(?:rees?)?(?:_|$)", text) is not None
            if RADIANS.search(text) is None and (is_written or is_named or is_told):
                problem = f"{text_of(call)} takes an angle in degrees for one in radians"
                right = f"{owner}.radians({text})" if owner == "math" else f"torch.deg2rad({text})"
                self.blame("angle-in-degrees", (source, call), text, problem, right)
                return


class VarianceAsDeviation(TextRule):
    """A Normal whose deviation is the exponential of the logarithm of a variance."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("Normal"):
            scale = call.args[1] if len(call.args) > 1 else None
            inner = scale if isinstance(scale, ast.Call) and name_of(scale) == "exp" else None
            of_method = inner.func.value if inner is not None and isinstance(inner.func, ast.Attribute) else None
            source_of = inner.args[0] if inner is not None and inner.args else of_method
            if (
                source_of is not None
                and LOG_VARIANCE.match(name_of(source_of))
                and not isinstance(source_of, ast.BinOp)
            ):
                name = text_of(source_of)
                problem = f"{text_of(call)} takes the variance, the exponential of {name}, for the deviation"
                self.blame("variance-as-deviation", (source, call), "Normal", problem, f"(0.5 * {name}).exp()")
                return


class LostVectors(TextRule):
    """Pretrained values that a later `apply` of initial values writes over."""

    def read(self, source: SourceFile) -> None:
        functions = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
        for call in source.calls_of("apply"):
            function = functions.get(text_of(call.args[0]).rpartition(".")[2]) if len(call.args) == 1 else None
            if function is None or not isinstance(call.func, ast.Attribute):
                continue
            body = " ".join(text_of(line) for line in function.body)
            writes = re.search(r"init\.|normal_|uniform_|reset_parameters|zero_|fill_|constant_", body) is not None
            of_all = "Embedding" in body or not re.search(r"isinstance|type\(|__class__", body)
            for other in source.calls_of("from_pretrained", "copy_", "load_state_dict"):
                is_loaded = name_of(other) == "load_state_dict"
                owner = text_of(other.func).partition(".")[0]
                is_vector = "weight" in text_of(other.func) or name_of(other) == "from_pretrained"
                in_class = isinstance(source.parents.get(source.scope_of(other)), ast.ClassDef)
                is_before = source.scope_of(other) is source.scope_of(call) and other.lineno < call.lineno
                is_built = (
                    in_class
                    and not is_loaded
                    and not isinstance(source.parents.get(source.scope_of(call)), ast.ClassDef)
                )
                is_same = not is_loaded or owner == text_of(call.func.value)
                if writes and is_same and (is_loaded or (of_all and is_vector)) and (is_before or is_built):
                    problem = (
                        f"{text_of(call)} draws initial values after line {other.lineno}, which put in known ones: "
                    )
                    problem += "they are lost"
                    advice = "the initial values first, then the known ones"
                    self.blame("pretrained-overwritten", (source, call), text_of(other.func), problem, advice)
                    return


class RisingSchedule(TextRule):
    """A schedule whose factor is above 1: the learning rate grows with each of its steps."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("StepLR", "MultiStepLR", "ExponentialLR"):
            name = name_of(call)
            given = next((each.value for each in call.keywords if each.arg == "gamma"), None)
            position = 1 if name == "ExponentialLR" else 2
            value = number_in(given or (call.args[position] if len(call.args) > position else None))
            if value is not None and value >= MIN_RISE:
                problem = (
                    f"gamma={value:g} of {name} multiplies the learning rate: it grows {value:g} times as large with "
                )
                problem += "each of its steps"
                self.blame("rate-rises", (source, call), f"gamma={value:g}", problem, f"gamma={1 / value:g}")


class RateInBatches(TextRule):
    """A learning rate that a loop over batches multiplies, within that over epochs."""

    def read(self, source: SourceFile) -> None:
        for outer, inner in nested_loops(source):
            if not any(name_of(call) == "backward" for call in calls_in(*inner.body)):
                continue
            for line in inner.body:
                for node in ast.walk(line) if isinstance(line, (ast.For, ast.AugAssign)) else ():
                    if not isinstance(node, ast.AugAssign) or not isinstance(node.op, (ast.Mult, ast.Div)):
                        continue
                    value = number_in(node.value)
                    factor = None if value is None else value if isinstance(node.op, ast.Mult) else 1 / value
                    is_rate = isinstance(node.target, ast.Subscript) and text_of(node.target.slice) == "'lr'"
                    if is_rate and factor is not None and factor < MAX_DECAY:
                        problem = f"the learning rate is multiplied by {factor:g} after each batch, in the loop over "
                        problem += f"{text_of(inner.iter)}: after 100 of them it is {factor**100:.2g} times what it was"
                        advice = f"once in each turn of the loop over {text_of(outer.target)}"
                        self.blame("rate-falls-in-batches", (source, node), "lr", problem, advice)
