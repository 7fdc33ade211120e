"""Docstrings of modules that take paragraphs and sections from their base's."""

import inspect
import re

from adjoint import nn
from adjoint.nn.module.module_docstring import inherit_sections


class Layer(nn.Module):
    """Layer of any rank.

    It has a weight.

    Args:
        size: number of features.

    Raises: ValueError for no features.
    """


class Layer2d(Layer):
    """Layer of images.

    Raises: TypeError for no size.

    Example:
        >>> 1
        1
    """


def test_sections_come_in_order_and_own_ones_win() -> None:
    completed = inspect.getdoc(inherit_sections(Layer2d)) or ""
    parts = completed.split("\n\n")
    assert parts[:2] == ["Layer of images.", "It has a weight."]
    assert [part.partition(":")[0] for part in parts[2:]] == ["Args", "Raises", "Example"]
    assert "Raises: TypeError" in completed
    assert "Raises: ValueError" not in completed


def test_every_rank_of_a_layer_explains_its_arguments() -> None:
    for name in ("Conv", "ConvTranspose", "MaxPool", "AvgPool", "BatchNorm", "InstanceNorm", "AdaptiveMaxPool"):
        for rank in (1, 2, 3):
            kind = getattr(nn, f"{name}{rank}d")
            made = kind if hasattr(kind, "__signature__") else kind.__init__  # Python 3.11.2 looks at `__new__`
            parameters = [name for name in inspect.signature(made).parameters if name != "self"]
            assert parameters
            for parameter in parameters:
                assert re.search(rf"^ +(\w+, )*{parameter}(, \w+)*: ", kind.__doc__, re.MULTILINE), (kind, parameter)
