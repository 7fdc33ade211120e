"""The arguments with which a step can be called again: those of its first call while somebody has them."""

import gc

import numpy as np

import adjoint as ad
from adjoint.compiler.report.example_arguments import LAST_ONES, MADE_UP, ExampleArguments


def test_arguments_that_are_alive_are_found() -> None:
    x, mask = ad.ones(2, 3), ad.tensor([True, False])
    example = ExampleArguments((x, 2), {"masks": [mask, None]})
    args, kwargs, what = example.find()
    assert args[0] is x
    assert args[1] == 2
    assert kwargs["masks"][0] is mask
    assert kwargs["masks"][1] is None
    assert what == LAST_ONES


def test_arguments_that_are_gone_are_made_up_in_shape_and_dtype() -> None:
    example = ExampleArguments((ad.ones(2, 3, requires_grad=True), ad.ones(4, dtype=ad.int64)), {})
    gc.collect()
    (x, classes), _, what = example.find()
    assert (x.shape, x.dtype, x.requires_grad) == ((2, 3), ad.float32, True)
    assert classes.dtype == ad.int64
    np.testing.assert_array_equal(classes.numpy(), np.zeros(4))
    assert what == MADE_UP


def test_a_tensor_given_twice_is_one_tensor_again() -> None:
    x = ad.ones(3)
    example = ExampleArguments((x, x), {})
    del x
    gc.collect()
    (first, second), _, _ = example.find()
    assert first is second
