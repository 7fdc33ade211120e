"""Ways to write a call that PyTorch takes: `size=`, `out=`, lists of tensors, `in`, and what it refuses in them."""

import pickle

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

M = np.sin(np.arange(12.0)).reshape(3, 4)
V = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
N = np.array([3, 1, 2])
U = np.array([[3, 0], [255, 1]], np.uint8)
Z = np.array([[1 + 2j, 0.5 - 1j, 3j], [2.0, -1 + 1j, 1 - 1j]], np.complex128)


@pytest.mark.parametrize("expression", [
    "t.zeros(size=(2, 3))", "v.new_zeros(size=(2,))", "v.new_ones(size=[2, 2])", "v.new_empty(size=(2,)).shape",
    "m.view(size=(4, 3))", "t.arange(end=4)", "t.arange(start=1, end=4)", "t.rand(size=(2, 3)).shape",
    "t.randn(size=[4]).shape", "t.manual_seed(3) and t.rand(size=(4,))", "t.manual_seed(3) and t.randn(size=(2, 2))",
])  # fmt: skip
def test_sizes_and_bounds_may_be_named(expression: str) -> None:
    same(expression, v=V, m=M)


@pytest.mark.parametrize("expression", [
    "t.zeros(2, out=t.empty(0))", "t.ones(2, 2, out=t.empty(2, 2, dtype=t.float64))", "t.full((2,), 3, out=t.empty(0))",
    "t.eye(2, 3, out=t.empty(0))", "t.linspace(0, 1, 5, out=t.empty(0))", "t.empty(2, out=t.ones(2)).shape",
    "t.nonzero(n, out=t.empty(0, dtype=t.int64))", "t.diag(v, out=t.empty(0, dtype=v.dtype))",
    "t.hstack((v, v), out=t.empty(0, dtype=v.dtype))", "t.vstack((v, v), out=t.empty(0, dtype=v.dtype))",
    "t.dstack((m, m), out=t.empty(0, dtype=m.dtype))", "t.column_stack((v, v), out=t.empty(0, dtype=v.dtype))",
    "t.msort(m, out=t.empty(0, dtype=m.dtype))", "t.kron(m, m, out=t.empty(0, dtype=m.dtype))",
    "t.inner(v, v, out=t.empty((), dtype=v.dtype))", "t.vdot(v, v, out=t.empty((), dtype=v.dtype))",
    "t.searchsorted(v.sort()[0], m, out=t.empty(0, dtype=t.int64))", "t.nan_to_num(v, out=t.empty(5, dtype=v.dtype))",
    "t.bucketize(m, v.sort()[0], out=t.empty(0, dtype=t.int64))", "t.histc(v, 4, out=t.empty(0, dtype=v.dtype))",
    "t.isposinf(v, out=t.empty(0, dtype=t.bool))", "t.ldexp(v, v, out=t.empty(0, dtype=v.dtype))",
    "t.logaddexp2(v, v, out=t.empty(0, dtype=v.dtype))", "t.deg2rad(v, out=t.empty(0, dtype=v.dtype))",
    "t.addmv(n.double(), m, v[:4], out=t.empty(3, dtype=m.dtype))",
])  # fmt: skip
def test_out(expression: str) -> None:
    same(expression, gradient=False, v=V, m=M, n=N)


@pytest.mark.parametrize("expression", [
    "t.tensor([t.tensor(1), 2.5])", "t.tensor([1, t.tensor(2.5, dtype=t.float64)])", "t.tensor([True, t.tensor(2)])",
    "t.tensor([t.tensor(1, dtype=t.int32), 2])", "t.tensor([t.tensor(1.0, dtype=t.float16), 2.5])",
    "t.tensor([[1.5], [t.tensor(1, dtype=t.int8)]])", "t.tensor([t.tensor(1.5), 2j])", "t.as_tensor([v.sum(), 1])",
])  # fmt: skip
def test_lists_take_the_type_in_which_all_their_numbers_meet(expression: str) -> None:
    same(expression, gradient=False, v=V)


@pytest.mark.parametrize("expression", [
    "2.0 in v", "9 in v", "v[0] in v", "m[0] in m", "t.tensor(7.0) in m", "list(reversed(v))", "reversed(m)",
    "reversed(v.sum())", "u.any()", "u.all(0)", "u.any((0, 1), keepdim=True)", "m.all(())", "m.any(dim=[])",
    "t.cat([t.zeros(0), t.zeros(0)], 1)", "t.cat([t.zeros(0), t.ones(2, 3)], -1)", "m.roll(1, None)",
    "m.dim_order()", "m.dim_order(ambiguity_check=[t.contiguous_format])",
    "m.mT.dim_order()", "m.is_contiguous(memory_format=t.channels_last)",
    "m[None, None].to(memory_format=t.channels_last).is_contiguous(memory_format=t.channels_last)",
    "t.ones(2, 3, 4, 5).to(memory_format=t.channels_last).is_contiguous()", "v.clone().map_(v + 1, lambda a, b: a * b)",
    "m.clone().map_(m[0], lambda a, b: a - b)", "v.clone().map2_(v, v * 2, lambda a, b, c: a + b + c)",
    "s.std(correction=0)", "s.var(correction=0)", "m.clone().copy_(2.5)", "n.clone().copy_(True)",
    "n.clone().copy_(2.7)",
    "(lambda o: (t.split_with_sizes_copy(t.ones(2, 3), (0, 3), 1, out=o), o)[1])([t.zeros(2, 0), t.zeros(2, 3)])",
    "t.nn.functional.rms_norm(z, (3,))", "t.nn.functional.rms_norm(z, (2, 3), eps=1e-3)",
])  # fmt: skip
def test_calls(expression: str) -> None:
    same(expression, gradient="map" not in expression, v=V, m=M, n=N, u=U, z=Z, s=np.array(1.5))


@pytest.mark.parametrize("expression", [
    "'a' in v", "[1.0] in v", "t.hstack(1)", "t.hstack([1, 2])", "t.vstack(None)", "t.dstack(m)", "t.column_stack(m)",
    "v.tensor_split(1.5)", "v.tensor_split((1, 1.5))", "v.tensor_split(t.tensor([[1]]))", "t.broadcast_shapes(1.5)",
    "v.tensor_split(t.tensor(2, dtype=t.int32))", "t.broadcast_shapes((-1,), 2)", "t.broadcast_shapes(t.tensor(2))",
    "t.diff(m, prepend=v)", "t.meshgrid(v, n, indexing='ij')", "t.cartesian_prod(m, v)", "t.vander(v, N=-1)",
    "t.block_diag(v, t.ones(1, 1, 1))", "t.repeat_interleave(n.reshape(3, 1))", "v.mH", "v.adjoint()",
    "t.empty(1).resize_(2**62, 2**60)", "v.clone().apply_(lambda x: 'a')", "v.clone().map_(v, lambda a, b: 'a')",
    "m.clone().map_(v, lambda a, b: a)", "v.clone().map_(3, lambda a, b: a)", "t.arange()", "t.zeros(2, sice=3)",
    "v.clone().copy_('a')", "v.clone().copy_([1])", "t.isclose(v, v, 0.1, t.ones(()).requires_grad_())",
    "t.ones(1, 2).dim_order(ambiguity_check=True)", "m.dim_order(ambiguity_check='a')",
    "t.zeros(0, 1).dim_order(ambiguity_check=[t.contiguous_format, t.contiguous_format])",
    "t.nn.functional.bilinear(v, v, m)",
])  # fmt: skip
def test_what_is_refused(expression: str) -> None:
    same(expression, gradient=False, v=V, m=M, n=N)


@pytest.mark.parametrize("expression", [
    "t.einsum(m, [0, 1], [1, 0])", "t.einsum(m, [0, 1], m, [0, 2])", "t.einsum(m, [26, 51], m, (26, 51), [51])",
    "t.einsum(m, [..., 1], v[:4], [1], [...])", "t.einsum(m, [0, 1])", "t.einsum(m, [0, 52])", "t.einsum(m, 3)",
    "t.zeros(0, 3).kthvalue(1, 0)", "t.zeros(0, 3).kthvalue(9, 1)",
])  # fmt: skip
def test_numbers_for_letters_and_empty_dimensions(expression: str) -> None:
    same(expression, v=V, m=M)


@pytest.mark.parametrize("power", [-2, -1, -0.5, 0.5, 3])
@pytest.mark.parametrize("values", [[np.inf, np.inf], [np.inf, 1.0], [0.0, np.inf], [0.0, 1.0]])
def test_norms_of_infinities_and_zeros(values: list[float], power: float) -> None:
    same(f"t.linalg.vector_norm(x, {power})", gradient=False, x=np.array(values))


class Foreign:
    """Answers every operator from the right."""

    def __add__(self, other: object) -> str:
        return "theirs"

    __radd__ = __rmatmul__ = __rsub__ = __add__


@pytest.mark.parametrize("expression", ["v + f", "v @ f", "v - f"])
def test_operands_of_foreign_types_answer_for_themselves(expression: str) -> None:
    for library in (ad, torch):
        assert eval(expression, {"v": library.ones(3), "f": Foreign()}) == "theirs"


@pytest.mark.parametrize("name", ["__iadd__", "__imul__", "__matmul__", "__rmatmul__", "__iand__", "__ipow__"])
def test_operators_leave_foreign_types_alone(name: str) -> None:
    for library in (ad, torch):
        assert getattr(library.ones(3), name)(Foreign()) is NotImplemented
    with pytest.raises(TypeError):
        eval("v @ 'a'", {"v": ad.ones(3)})


def test_refusals_say_what_was_given() -> None:
    same_error("t.vander(v, N=-1)", "N must be non-negative", v=V)
    same_error("v.mH", "only supported on matrices or batches of matrices", v=V)
    same_error("t.block_diag(v, t.ones(1, 1, 1))", "Input 1 has 3 dimensions", v=V)
    same_error("v.tensor_split(t.tensor([[1]]))", "zero-dimensional or one-dimensional tensor, but got", v=V)


@pytest.mark.parametrize("call", [
    "max(0)", "min(1, True)", "sort()", "topk(2, 0)", "median(0)", "nanmedian(0)", "mode()", "kthvalue(1)", "cummax(0)",
    "cummin(1)",
])  # fmt: skip
def test_pairs_are_printed_after_their_function(call: str) -> None:
    ours, theirs = (eval(f"x.{call}", {"x": library.from_numpy(M)}) for library in (ad, torch))
    assert repr(ours) == repr(theirs).replace("torch", "adjoint")
    again = pickle.loads(pickle.dumps(ours))
    assert type(again) is type(ours)
    assert again.indices.tolist() == ours.indices.tolist()


@pytest.mark.parametrize("expression", ["t.finfo(t.float32)", "t.finfo(t.float16)", "t.histogram(v, 3)"])
def test_printed(expression: str) -> None:
    ours, theirs = (
        repr(eval(expression, {"t": library, "v": library.tensor([1.0, 2.0, 3.0])})) for library in (ad, torch)
    )
    assert ours == theirs.replace("torch", "adjoint")


def test_a_pair_crosses_a_compiled_step() -> None:
    found = ad.compile(lambda x: x.max(0))(ad.from_numpy(M))
    assert type(found) is type(ad.from_numpy(M).max(0))
    assert found.indices.tolist() == M.argmax(0).tolist()
