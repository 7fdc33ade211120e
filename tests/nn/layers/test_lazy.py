"""Layers that learn their sizes from their first input; PyTorch's rules for what has no shape yet."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.utils import _pair, _triple
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn
from adjoint.nn.module.uninitialized import is_lazy

LAYERS: list[tuple[str, str, tuple[int, ...]]] = [
    ("LazyLinear(3)", "Linear(5, 3)", (2, 5)),
    ("LazyLinear(3, bias=False)", "Linear(5, 3, bias=False)", (2, 5)),
    *((f"LazyConv{r}d(4, 2, groups=1)", f"Conv{r}d(3, 4, 2)", (2, 3, *[5] * r)) for r in (1, 2, 3)),
    *((f"LazyConvTranspose{r}d(4, 2)", f"ConvTranspose{r}d(3, 4, 2)", (2, 3, *[5] * r)) for r in (1, 2, 3)),
    *((f"LazyBatchNorm{r}d()", f"BatchNorm{r}d(3)", (2, 3, *[5] * r)) for r in (1, 2, 3)),
    *(
        (f"LazyInstanceNorm{r}d()", f"InstanceNorm{r}d(3, affine=True, track_running_stats=True)", (2, 3, *[5] * r))
        for r in (1, 2, 3)
    ),
]


def made(text: str) -> Any:
    ad.manual_seed(1)
    return eval(f"nn.{text}", {"nn": nn})


@pytest.mark.parametrize(("lazy", "plain", "shape"), LAYERS, ids=[text for text, _, _ in LAYERS])
def test_after_its_first_call_it_is_the_ordinary_layer(lazy: str, plain: str, shape: Any) -> None:
    layer = made(lazy)
    assert all(is_lazy(p) for p in layer.parameters())
    revived = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
    other = made(plain)
    ad.manual_seed(1)
    x = ad.randn(*shape)
    expected = other(x)
    for each in (layer, revived):
        ad.manual_seed(1)
        each(ad.randn(*shape)) if not list(each.parameters()) else None
        each.load_state_dict(made(plain).state_dict())
        np.testing.assert_array_equal(each(x).detach().numpy(), expected.detach().numpy())
        assert type(each) is type(other)
        assert (repr(each), list(each.state_dict())) == (repr(other), list(other.state_dict()))
        assert not any(is_lazy(p) for p in each.parameters())


def test_its_first_values_are_drawn_at_the_first_call() -> None:
    layer = nn.LazyLinear(3)
    ad.manual_seed(4)
    layer(ad.zeros(2, 5))
    ad.manual_seed(4)
    assert (layer.weight == nn.Linear(5, 3).weight).all()


def test_what_has_no_shape_says_so() -> None:
    layer = nn.LazyLinear(3)
    assert repr(layer.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        _ = layer.weight.shape
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        nn.Linear(4, 3).load_state_dict(layer.state_dict())
    layer.load_state_dict(nn.LazyLinear(3).state_dict())
    assert layer.has_uninitialized_params()
    assert layer.double().weight.dtype is ad.float64
    assert layer(ad.ones(1, 2, dtype=ad.float64)).dtype is ad.float64
    with pytest.raises(RuntimeError, match=r"Expected 3D .* or 4D .* input to LazyConv2d"):
        nn.LazyConv2d(2, 1)(ad.ones(2, 2))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(2, 1, groups=2)(ad.ones(1, 3, 2, 2))


def test_a_lazy_module_of_ones_own() -> None:
    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self, complete: bool = True) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()
            self.offset: Any = nn.UninitializedBuffer()
            self.register_buffer("count", self.offset)
            self.complete = complete

        def initialize_parameters(self, x: Any) -> None:
            if self.complete:
                self.weight.materialize((x.shape[-1],))
                self.offset.materialize((1,))
                nn.init.ones_(self.weight)
                nn.init.zeros_(self.offset)

        def forward(self, x: Any) -> Any:
            return x * self.weight + self.offset

    layer = Scale()
    assert layer(ad.full((2, 3), 2.0)).tolist() == [[2.0] * 3] * 2
    assert not layer.has_uninitialized_params()
    assert_raises(RuntimeError, "has not been fully initialized", lambda: Scale(complete=False)(ad.ones(2)))


def test_one_number_for_each_dimension() -> None:
    assert _pair(3) == (3, 3)
    assert _triple([1, 2, 3]) == (1, 2, 3)


def test_tensors_without_a_shape_take_one_size_or_several() -> None:
    held: Any = nn.UninitializedParameter()
    held.materialize(10)
    assert (tuple(held.shape), type(held)) == ((10,), nn.Parameter)


def test_buffers_without_a_shape_are_registered_when_assigned() -> None:
    class Net(nn.modules.lazy.LazyModuleMixin, nn.Module):
        pass

    net: Any = Net()
    net.late = nn.UninitializedBuffer()
    assert list(dict(net.named_buffers())) == ["late"]
    assert net.has_uninitialized_params()
    assert_raises(RuntimeError, "Can't share memory on an uninitialized", net.share_memory)


def test_a_module_whose_layer_has_no_shape_yet_is_not_shared() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3))
    assert_raises(RuntimeError, "Can't share memory on an uninitialized", module.share_memory)
