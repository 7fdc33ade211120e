"""What tensors say of themselves, older ways to make them, and settings that mean nothing here but are taken."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import equal, same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

X = np.arange(6.0).reshape(2, 3)
WHOLE = np.array([[1, 2], [3, 4]])
C = np.array([1 + 2j, 3j])
GIVEN = {"x": X, "i": WHOLE, "c": C}


@pytest.mark.parametrize("expression", [
    "x.nelement()", "x.ndimension()", "x.element_size()", "x.nbytes", "i.itemsize", "x.is_cuda", "x.is_sparse",
    "x.is_quantized", "x.is_nested", "x.is_mkldnn", "x.is_meta", "x.is_cpu", "x.is_shared()", "x.is_pinned()",
    "x.is_complex()", "c.is_complex()", "t.is_complex(x)", "t.is_floating_point(i)", "x.is_signed()",
    "i.is_signed()", "t.zeros(1, dtype=t.uint8).is_signed()", "x.is_conj()", "t.is_neg(x)", "x.is_same_size(x)",
    "x.is_same_size(i)", "x.is_set_to(x)", "x.is_set_to(x[1:])", "x.get_device()", "t.numel(x)", "t.is_tensor(x)",
    "t.is_tensor(3)", "t.is_storage(x.untyped_storage())", "t.is_nonzero(x[0, 1])", "x.mH", "x.H", "x.adjoint()",
    "x.real", "c.real", "c.imag", "c.conj().real", "x.conj()", "t.finfo(t.float32).eps", "t.finfo(t.float64).max",
    "t.finfo().tiny", "t.finfo(t.float16).bits", "t.iinfo(t.int8).min", "t.iinfo(t.int64).max",
    "t.iinfo(t.uint8).bits", "x.sum_to_size(1, 3)", "x.sum_to_size((3,))",
    "x.type('torch.FloatTensor' if t.__name__ == 'torch' else 'FloatTensor')", "x.type(t.int32)",
    "i.type(t.FloatTensor)", "x.new(2, 2).shape == (2, 2)", "x.new([1, 2])", "x.new_empty(2, 3).shape == (2, 3)",
    "t.LongTensor([0, 2])", "t.FloatTensor(x.float().tolist())", "t.BoolTensor(2, 2).dtype == t.bool",
    "t.DoubleTensor().shape == (0,)", "isinstance(x, t.DoubleTensor)", "isinstance(x, t.FloatTensor)",
    "isinstance(i, t.LongTensor)", "isinstance(3, t.LongTensor)", "t.pi", "t.inf", "t.e",
    "t.cfloat == t.complex64", "t.ones_like(x, memory_format=t.preserve_format)",
    "t.zeros(2, 3, device='cpu', layout=t.strided, pin_memory=False)", "t.full_like(x, 3, layout=t.strided)",
    "t.arange(3, device='cpu', layout=t.strided)", "t.zeros(size=(2, 3))", "x.new_zeros(2, device='cpu')",
    "x.new_full((2,), 3, requires_grad=True)", "x.new_tensor([1, 2], requires_grad=True)",
    "x.clone(memory_format=t.contiguous_format)", "x.to(t.float32, memory_format=t.preserve_format)",
    "x.reshape(1, 2, 3, 1).to(memory_format=t.channels_last)",
    "x.reshape(1, 2, 3, 1).contiguous(memory_format=t.channels_last).stride()", "x.layout == t.strided",
])  # fmt: skip
def test_same_as_pytorch(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.imag", "imag is not implemented for tensors with non-complex dtypes."),
        ("t.is_nonzero(x)", "Boolean value of Tensor with more than one value is ambiguous"),
        ("x.sum_to_size(2, 2)", "is not expandable to size"),
        ("t.finfo(t.int32)", "requires a floating point input type. Use torch.iinfo to handle"),
        ("t.iinfo(t.float32)", "requires an integer input type. Use torch.finfo to handle"),
        ("x[None].H", "tensor.H is only supported on matrices (2-D tensors). Got 3-D tensor."),
        ("x.contiguous(memory_format=t.channels_last)", "required rank 4 tensor to use channels_last format"),
        ("x.type('NoTensor')", "invalid type: 'NoTensor'"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_volatile_is_told() -> None:
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert ad.ones(1).volatile is False  # type: ignore[attr-defined]


def test_type_without_an_argument_is_a_name() -> None:
    x: Any = ad.ones(2)
    assert x.type() == "adjoint.FloatTensor"
    assert x.type(x.type()) is x


def test_values_without_meaning_print() -> None:
    shown = [repr(v) for v in (ad.strided, ad.channels_last, ad.preserve_format, ad.iinfo(ad.int8))]
    values = ["adjoint.strided", "adjoint.channels_last", "adjoint.preserve_format"]
    assert shown == [*values, "iinfo(min=-128, max=127, dtype=int8)"]


def test_apply() -> None:
    x: Any = ad.arange(3.0)
    assert x.apply_(lambda v: v * 2) is x
    assert x.tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        x.requires_grad_().apply_(abs)


def test_random_numbers_like_a_tensor_take_all_settings() -> None:
    for library in (ad, torch):
        library.manual_seed(3)
    drawn = [
        t.randn_like(t.tensor(X), device="cpu", dtype=t.float32, requires_grad=True, memory_format=t.preserve_format)
        for t in (ad, torch)
    ]
    equal(*drawn)


def test_fork_rng() -> None:
    ad.manual_seed(5)
    with ad.random.fork_rng():
        first = ad.rand(3)
    assert ad.equal(first, ad.rand(3))


def test_storage_shows_the_elements_of_the_whole_memory() -> None:
    x = ad.arange(6.0).view(2, 3)
    storage = x[1].storage()
    assert len(storage) == storage.size() == 6
    assert (storage[4], storage.tolist()) == (4.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert storage.data_ptr() == x.data_ptr() == x.untyped_storage().data_ptr()


def test_types_of_complex_numbers_have_names() -> None:
    z = ad.tensor([1j])
    assert z.type() == "adjoint.ComplexFloatTensor"
    assert z.type("adjoint.ComplexDoubleTensor").dtype is ad.complex128


def test_names_of_types() -> None:
    assert ad.typename(ad.zeros(1)) == "adjoint.FloatTensor"
    assert ad.typename(ad.nn.Linear(1, 1)) == ad.typename(ad.nn.Linear) == "adjoint.nn.layers.linear.Linear"
    assert ad.typename(1) == "int"
