"""The only training region of a small program, as the finder divides it."""

from __future__ import annotations

import ast
import textwrap

from adjoint.compiler.scripts.region_finder import find_training_regions

STEP = "out = model(x)\nloss = f(out, y)\nloss.backward()\nopt.step()"


def split(loop: str, around: str = "") -> tuple[list[str], list[str]]:
    """The statements of the only region in a loop over batches, and those of the loop behind it."""
    tree = ast.parse(f"{around}for x, y in batches:\n{textwrap.indent(loop, '    ')}")
    (region,) = find_training_regions(tree)
    block = region.place.block
    return [*map(ast.unparse, region.statements)], [*map(ast.unparse, block[region.stop :])]
