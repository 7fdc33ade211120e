"""What looks at the memory around a tensor sees in a compiled step what it sees eagerly, whatever the tensor is of it.

Every reader of a storage, an offset or strides × every way in which an argument or a captured tensor lies in memory,
which changes between the calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytest.importorskip("llvmlite")

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda base: base,
    "a part": lambda base: base[3:9],
    "every second": lambda base: base[1::2],
    "a block": lambda base: base.view(3, 4)[1:, 1:],
    "transposed": lambda base: base.view(3, 4).t(),
    "expanded": lambda base: base[1:4].view(3, 1).expand(3, 2),
    "one element": lambda base: base[5],
    "by NumPy": lambda base: ad.from_numpy(base.numpy()[2:8]),
    "detached": lambda base: base[2:].detach(),
    "its own": lambda base: base[2:8].clone(),
    "data of a part": lambda base: base.data[4:],
}


def write_through(x: Any, offset: int | None) -> Any:
    x.as_strided((2,), (1,), offset).add_(10.0)
    return x * 1


def set_source(x: Any) -> Any:
    t = ad.zeros(1)
    t.set_(x)
    return t * 2


def set_storage(x: Any) -> Any:
    t = ad.zeros(1)
    t.set_(x.untyped_storage(), 1, (2,), (1,))
    return t * 2


def view_in_place(x: Any) -> Any:
    y = x.clone().view(-1)
    y.as_strided_((1,), (1,), 0)
    return y


USES: dict[str, Callable[[Any], Any]] = {
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)) * 2,
    "as_strided with an offset": lambda x: x.as_strided((2, 2), (1, 2), 1) * 2,
    "a view at an offset": lambda x: x.as_strided((2,), (3,), 5),
    "as_strided of a view": lambda x: x.reshape(-1)[0:1].as_strided((1,), (1,)) * 2,
    "as_strided of what was made": lambda x: (x * 2).as_strided((1,), (1,), 0),
    "storage_offset": lambda x: x.sum() * x.storage_offset(),
    "storage_offset of a view": lambda x: x.reshape(-1)[-1:].storage_offset(),
    "stride": lambda x: x.sum() * (1 + sum(x.stride())),
    "is_contiguous": lambda x: x.sum() * x.is_contiguous(),
    "untyped_storage": lambda x: x.untyped_storage().nbytes(),
    "a byte": lambda x: x.untyped_storage()[7],
    "storage": lambda x: x.storage()[1],
    "data_ptr": lambda x: x.untyped_storage().data_ptr() == x.data_ptr(),
    "is_set_to": lambda x: x.is_set_to(x),
    "set_": set_source,
    "set_ to a storage": set_storage,
    "as_strided_": view_in_place,
    "as_strided_scatter": lambda x: ad.as_strided_scatter(x, ad.zeros(1), (1,), (1,)),
    "as_strided_scatter at an offset": lambda x: ad.as_strided_scatter(x, ad.zeros(2), (2,), (1,), 4),
    "a write": lambda x: write_through(x, None),
    "a write at an offset": lambda x: write_through(x, 4),
}


def run_case(use: str, layouts: tuple[str, ...], wrap: Callable[[Any], Any], captured: bool) -> list[Any]:
    held: dict[str, Any] = {}
    step = wrap(lambda: USES[use](held["x"])) if captured else wrap(USES[use])
    seen: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for layout in layouts:
            base = ad.arange(12.0)
            held["x"] = LAYOUTS[layout](base)
            try:
                found = step() if captured else step(held["x"])
                seen.append(found.tolist() if isinstance(found, ad.Tensor) else found)
            except RuntimeError as error:
                seen.append(str(error)[:40])
            seen.append(base.tolist())
    return seen


@pytest.mark.sweep(4)
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("use", USES)
def test_the_memory_of_a_tensor(use: str, layout: str, captured: bool) -> None:
    for layouts in product((layout, "whole"), ("whole", layout), (layout,)):
        assert run_case(use, layouts, ad.compile, captured) == run_case(use, layouts, lambda f: f, captured), layouts


def test_a_step_over_whole_memory_is_compiled() -> None:
    step = ad.compile(lambda x: x.as_strided((2, 2), (1, 2), 1) * x.storage_offset() + 1)
    for _ in range(3):
        step(ad.arange(12.0))
    assert step.compilations == 1
    with pytest.warns(RuntimeWarning, match=r"runs eagerly: as_strided\(\) at .*looks at the memory"):
        assert step(ad.arange(12.0)[2:]).tolist() == (np.array([[1, 3], [2, 4]]) * 2.0 + 1).tolist()
