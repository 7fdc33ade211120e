"""Settings of layers that give tensors their sizes: the call that made a layer, and the number there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.numbers import NumberTrace, trace_number
from adjoint.diagnosis.source_expressions import parameters_of, text_of

INPUTS = ("in_features", "in_channels", "num_features", "normalized_shape", "input_size")
OUTPUTS = ("out_features", "out_channels", "embedding_dim", "hidden_size")
MODULE_SIZES = ("stride", "kernel_size", "scale_factor", "size", "padding", "output_size", "dilation", "dim")


@dataclass(frozen=True)
class SizeTrace:
    """The origin of a size of a tensor: the expression that made it so, and the number in it."""

    step: SourceStep
    number: NumberTrace | None = None
    lost: bool = False  # another size was there before, the one that is wanted
    name: str = ""  # of the setting of a layer that the number is
    parts: tuple[tuple[str, int, SizeTrace], ...] = ()  # that were put together
    image: SizeTrace | None = None  # what the layers had to begin with
    converted: SourceStep | None = None  # the call that made a tensor of it
    setter: SourceStep | None = None  # the call of the method that gave an object the attribute

    def roots(self) -> list[SourceStep]:
        """Return the lines to blame, the first first."""
        inner = [root for _, _, trace in self.parts for root in trace.roots()]
        image = self.image.roots() if self.image is not None and self.image.number is not None else []
        return [*(self.number.roots() if self.number is not None else ()), *inner, self.step, *image]

    def describe(self) -> str:
        """Return the lines of it."""
        is_told = self.converted is None or self.converted.place() in (
            self.step.place(),
            *map(SourceStep.place, self.roots()),
        )
        made = "" if is_told or self.converted is None else f", made a tensor at {self.converted.line()}"
        told = self._describe_origin() + made
        is_set = self.setter is not None and self.setter.place() not in told
        return told + (f", set by {self.setter.line()}" if is_set and self.setter is not None else "")

    def _describe_origin(self) -> str:
        own = self.step.line()
        if self.image is not None and self.image.number is not None:
            return f"{replace(self, image=None)._describe_origin()}, of images from {self.image.describe()}"
        if self.parts:
            inner = (f"{name} has {size}, from {trace.describe()}" for name, size, trace in self.parts)
            return f"{own} ({'; '.join(inner)})"
        if self.number is None or (self.number.root.place() == self.step.place() and not self.number.parts):
            return own
        if self.number.root.place() == self.step.place():
            return self.number.describe()
        told = self.number.describe()
        if self.lost:
            return f"{own}, with {text_of(self.number.steps[0].node)} from {told}"
        call = self.step.context.call
        is_between = call is not None and call.place() not in told and call.place() != self.step.place()
        through = f", through {text_of(call.node)} at {call.place()}" if call is not None and is_between else ""
        return f"{told}, in {text_of(self.step.node)} at {self.step.place()}{through}"


def channel_place(module: Operand) -> int:
    """Return the place of a layer's features or channels, from the end."""
    name = type(module).__name__
    found = re.search(r"(\d)d$", name)
    return int(found[1]) + 1 if found is not None and not name.startswith("BatchNorm1") else int(name != "Upsample")


def trace_attribute(step: SourceStep, module: Operand, name: str, size: int) -> SizeTrace | None:
    """Return where a size of a layer comes from: the argument of the call that made it, and the number there."""
    made = step.context.program.find_construction(module)
    if made is None or not isinstance(made.node, ast.Call):
        return None
    argument = find_constructor_argument(made.node, module, name)
    number = None if argument is None else trace_number(SourceStep(made.context, argument), size)
    return SizeTrace(made, number, name=name)


def find_constructor_argument(call: ast.Call, module: Operand, name: str) -> ast.expr | None:
    """Return the argument that a call which made a layer gives for a setting."""
    names = parameters_of(type(module).__init__)[1:]
    aliases = {"embed_dim": "d_model", "normalized_shape": "normalized_shape"}
    if type(module).__name__ in ("LSTM", "GRU", "RNN"):
        names = ("input_size", "hidden_size", "num_layers")
    given = next((each.value for each in call.keywords if each.arg in (name, aliases.get(name))), None)
    if given is None and name in names and names.index(name) < len(call.args):
        given = call.args[names.index(name)]
    return None if isinstance(given, ast.Starred) else given


def trace_setting(step: SourceStep, module: Operand) -> SizeTrace | None:
    """Return the call that made a layer which changes the size of images, with the setting that is named there."""
    made = step.context.program.find_construction(module)
    if made is None or not isinstance(made.node, ast.Call):
        return None
    for name in MODULE_SIZES:
        argument = find_constructor_argument(made.node, module, name)
        if isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript)):
            value = getattr(module, name)
            value = value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value
            return SizeTrace(made, trace_number(SourceStep(made.context, argument), value), name=name)
    return SizeTrace(made)
