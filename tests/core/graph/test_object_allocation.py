"""Objects made without their constructors: as `object.__new__` makes them, and freed as they are."""

import gc
import sys
import weakref

import pytest

from adjoint.core.graph.node import OutputSlot
from adjoint.core.graph.object_allocation import make_allocator, make_plain_allocator
from adjoint.core.op.recorder import allocate_tensor
from adjoint.core.tensor.tensor import Tensor


@pytest.mark.parametrize("make", [make_allocator, make_plain_allocator])
@pytest.mark.parametrize("kind", [Tensor, OutputSlot])
def test_an_object_has_no_attribute_yet(make, kind):
    made = make(kind)()
    assert type(made) is kind
    for name in kind.__slots__:
        if not name.startswith("__"):
            assert not hasattr(made, name) or hasattr(kind(*[None] * 4) if kind is OutputSlot else kind, name)


def test_attributes_of_its_own_come_with_the_first():
    made = allocate_tensor()
    assert made.__dict__ == {}
    made.label = "a"
    assert made.__dict__ == {"label": "a"}
    del made.label
    assert not hasattr(made, "label")


def test_objects_are_freed_alone_and_in_cycles():
    made = allocate_tensor()
    alive = weakref.ref(made)
    del made
    assert alive() is None
    made = allocate_tensor()
    made.itself = made
    alive = weakref.ref(made)
    del made
    gc.collect()
    assert alive() is None


def test_classes_are_counted_as_often_as_objects_refer_to_them():
    before = sys.getrefcount(Tensor)
    made = [allocate_tensor() for _ in range(100)]
    assert sys.getrefcount(Tensor) == before + 100
    del made
    assert sys.getrefcount(Tensor) == before


def test_no_arguments_are_taken():
    with pytest.raises(TypeError):
        allocate_tensor(1)
