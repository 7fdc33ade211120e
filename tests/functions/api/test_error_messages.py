"""What PyTorch refuses is refused in its words: types of `out=`, factors, sizes, positions, memory that overlaps."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

F = np.array([0.5, -1.0, 2.0], np.float32)
A = np.eye(3, dtype=np.float32)
B3 = np.ones((2, 3, 3), np.float32)

OUT = [
    ("t.all(f, out=f.clone())", "all only supports bool tensor for result, got: Float"),
    ("t.any(f, 0, out=f.clone())", "any only supports bool tensor for result, got: Float"),
    ("t.cumsum(f, 0, out=f.clone(), dtype=t.float64)", "Expected out tensor to have dtype double, but got float inst"),
    ("t.sum(f, 0, out=f[0].clone(), dtype=t.float64)", "Expected out tensor to have dtype double, but got float inst"),
    ("t.prod(f, 0, out=f[0].clone(), dtype=t.float64)", "Expected out tensor to have dtype double"),
    ("t.max(f, 0, out=(f[0].int(), f[0].long()))", "Expected out tensor to have dtype float, but got int instead"),
    ("t.max(f, 0, out=(f[0].clone(), f[0].int()))", "Expected out tensor to have dtype long int, but got int instead"),
    ("t.amax(f, 0, out=f[0].int())", "Expected the dtype for input and out to match, but got Float for input's dtype"),
    ("t.mode(A.long(), out=(f.clone(), f.long()))", "expected scalar type 'Long' but got 'Float' for values output"),
    ("t.mode(A, out=(f.clone(), f.int()))", "expected scalar type 'Long' but got 'Int' for indices output"),
    ("t.isposinf(f, out=f.clone())", "isposinf does not support non-boolean outputs."),
    ("t.frexp(f, out=(f.clone(), f.long()))", "torch.frexp() expects exponent to have int dtype but got"),
    ("t.frexp(f, out=(f.double(), f.int()))", "torch.frexp() expects mantissa to have dtype float"),
    ("t.cummax(f, 0, out=(f.short(), f.long()))", "expected scalar_type Float but found Short"),
    ("t.logcumsumexp(f.double(), 0, out=f.clone())", "expected scalar_type Double but found Float"),
    ("t.nonzero(f, out=f.int())", "nonzero: Expected out tensor to have scalar type Long"),
    ("t.nonzero(f, as_tuple=True, out=f.long())", "nonzero does not support the out kwarg when as_tuple is True"),
    ("t.nonzero_static(f, size=1, out=f.clone())", "nonzero_static: Expected out tensor to have scalar type Long"),
    ("t.complex(f, f, out=f.clone())", "Expected object of scalar type ComplexFloat but got scalar type Float for arg"),
    ("t.float_power(f, 2, out=f.clone())", "the output given to float_power has dtype Float but the operation's resu"),
    ("t.linalg.inv(A, out=A.int())", "Expected out tensor to have dtype float, but got int instead"),
    ("t.linalg.eigvals(A, out=f.clone())", "Expected eigenvalues to be safely castable from ComplexFloat dtype"),
    ("t.linalg.matrix_rank(A, out=f[0] > 0)", "Expected result to be safely castable from Long dtype, but got result"),
    ("t.cholesky_solve(A, A, out=A.int())", "cholesky_solve: Expected result to be safely castable from Float dtype"),
    ("t.linalg.multi_dot([A, A], out=A.double())", "multi_dot(): expected out tensor to have dtype float but got dou"),
    ("t.add(f.long(), 1.5, out=f.long())", "result type Float can't be cast to the desired output type Long"),
    ("f.long().add_(1.5)", "result type Float can't be cast to the desired output type Long"),
    ("t.zeros(2, dtype=t.float64, out=f.clone())", "dtype Double does not match dtype of out parameter (Float)"),
    ("t.arange(3, dtype=t.float64, out=f.clone())", "dtype Double does not match dtype of out parameter (Float)"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "head"), OUT)
def test_types_of_out(expression: str, head: str) -> None:
    same_error(expression, head, f=F, A=A)


@pytest.mark.parametrize("expression", [
    "t.sum(f, 0, out=f[0].long())", "t.cumsum(f, 0, out=f.double())", "t.prod(f.int(), 0, out=f[0].int())",
    "t.mean(f, 0, out=f[0].double())", "t.cumprod(f.int(), 0, out=f.int())", "t.nonzero(f, out=f.long()[:0])",
    "t.nonzero_static(f, size=2, out=f.long()[:0])", "t.any(f, 0, out=f[0].byte())",
    "t.arange(4, out=t.zeros(2, 3).narrow(1, 1, 2))", "t.linspace(0, 3, 4, out=t.zeros(2, 2))",
    "t.zeros(3, out=t.ones(3), requires_grad=True)", "t.full((2,), 1.5, out=t.zeros(2))",
])  # fmt: skip
def test_results_in_out(expression: str) -> None:
    same(expression, f=F, gradient=False)


PRODUCTS = [
    ("t.addr(A, f, f, beta=True)", "Boolean beta only supported for Boolean results."),
    ("t.addr(A.long(), f.long(), f.long(), alpha=0.5)", "For integral input tensors, argument alpha must not be a fl"),
    ("t.add(f.long(), f.long(), alpha=1.0)", "For integral input tensors, argument alpha must not be a floating point"),
    ("t.add(f, f, alpha=True)", "Boolean alpha only supported for Boolean results."),
    ("t.baddbmm(B3.long(), B3, B3)", "Input dtypes must be the same"),
    ("t.dot(f, f.double())", "dot : expected both vectors to have same dtype, but found Float and Double"),
    ("t.dot(f, t.ones(4))", "expected tensor [3] and src [4] to have the same number of elements, but got 3 and 4 el"),
    ("t.einsum('')", "must specify the equation string and at least one operand"),
    ("t.linalg.multi_dot([f[0], A])", "multi_dot(): the first tensor must be 1D or 2D but got 0D"),
    ("t.linalg.vector_norm(f, 1 + 2j)", "linalg.vector_norm: Expected a non-complex scalar as the order of norm."),
    ("t.linalg.matrix_norm(A, 1 + 2j)", "linalg.matrix_norm: Expected a non-complex scalar as the order of norm."),
    ("t.norm(f, 'nuc', (0, 1))", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
    ("t.linalg.tensorsolve(A, t.ones(4))", "Expected self to satisfy the requirement prod(self.shape[other.ndim:])"),
    ("t.linalg.lu_solve(A, t.zeros(3, dtype=t.int32), A)", "Pivots given to lu_solve must all be greater or equal to"),
    ("t.linalg.lu_solve(A, t.full((3,), 9, dtype=t.int32), A)", "must all be smaller or equal to LU.size(-2)"),
    ("t.lu_unpack(A, t.zeros(3, dtype=t.int32))", "pivots passed to lu_unpack must be between 1 and LU.size(-2) incl"),
    ("t.eig(A)", "This function was deprecated since version 1.9 and is now removed."),
    ("(f > 0) - (f > 0)", "Subtraction, the `-` operator, with two bool tensors is not supported."),
    ("1 - (f > 0)", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert"),
    ("f - (f > 0)", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert"),
    ("f.sub_(f > 0)", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to inv"),
    ("t.sub(f, f > 0, alpha=2)", "Subtraction, the `-` operator, with a bool tensor is not supported."),
    ("f - True", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a"),
    ("t.tensor([f, f])", "only one element tensors can be converted to Python scalars"),
    ("t.as_tensor([[f]])", "only one element tensors can be converted to Python scalars"),
    ("t.stack(f)", "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    ("format(f, '.3f')", "unsupported format string passed to Tensor.__format__"),
    ("-(f > 0)", "Negation, the `-` operator, on a bool tensor is not supported."),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "head"), PRODUCTS)
def test_products(expression: str, head: str) -> None:
    same_error(expression, head, f=F, A=A, B3=B3)


@pytest.mark.parametrize("expression", [
    "t.addmm(2, A, 3, A, A)", "A.addmm(2, A, A)", "t.addbmm(2, A, B3, B3)", "A.addbmm(2, 3, B3, B3)",
    "t.baddbmm(2, B3, 3, B3, B3)", "B3.baddbmm(2, B3, B3)", "f.addmv(2, A, f)", "t.addr(2, A, 3, f, f)",
    "t.ldexp(f.half(), t.tensor([1, 2, -3])).float()", "t.nan_to_num(t.tensor([inf, -inf, nan]).bfloat16())",
])  # fmt: skip
def test_products_of_old(expression: str) -> None:
    same(expression, f=F, A=A, B3=B3, gradient="half" not in expression)


SIZES = [
    ("t.repeat_interleave(f)", "\"repeat_interleave_cpu\" not implemented for 'Float'"),
    ("t.repeat_interleave(f, t.tensor([1, -1, 1]))", "repeats can not be negative"),
    ("t.repeat_interleave(f, -1)", "Repeats must be non-negative"),
    ("t.repeat_interleave(f, t.tensor([1, 1]))", "repeats must have the same size as input along dim"),
    ("t.roll(f, (), ())", "`shifts` required"),
    ("t.empty_strided((3, 2), (10, 0, 3))", "dimensionality of sizes (2) must match dimensionality of strides (3)"),
    ("t.empty([2, 4, 2**29, 2**29], dtype=t.float64)", "Storage size calculation overflowed with sizes=[2, 4, "),
    ("t.empty(()).double().resize_([0, 4, 2**61])", "Stride calculation overflowed"),
    ("t.tensor([2**64])", "Overflow when unpacking long long"),
    ("t.tensor([-256], dtype=t.uint8)", "value cannot be converted to type uint8 without overflow"),
    ("t.ones(3, dtype=t.int64, requires_grad=True)", "Only Tensors of floating point and complex dtype can require"),
    ("int(f)", "only one element tensors can be converted to Python scalars"),
    ("t.linspace(0, 1j, 3, dtype=t.float32)", "torch.linspace(): inferred dtype c10::complex<float> can't be safely"),
    ("t.linspace(f, 1, 3)", "linspace only supports 0-dimensional start and end tensors"),
    ("t.frombuffer([1, 2], dtype=t.float32)", "object does not implement Python buffer protocol."),
    ("t.asarray(f, dtype=t.float64, copy=False)", "can't alias tensor with dtype 'Float' into dtype 'Double'."),
    ("t.FloatTensor((2.0, 3.0), device='cuda')", "legacy constructor expects device type: cpu but device type: cuda"),
    ("t.normal(t.ones(120), t.ones(2, 5))", "The size of tensor a (120) must match the size of tensor b (5)"),
    ("(f > 0).random_(-43, 2)", "from is out of bounds for"),
    ("f.uniform_(-3.4e38, 3.4e38)", "uniform_ expects to-from <= "),
    ("t.complex(f.long(), f.long())", "Expected both inputs to be Half, Float or Double tensors but got Long and Long"),
    ("t.bincount(f)", "\"bincount_cpu\" not implemented for 'Float'"),
    ("t.histc(t.tensor([1.0, inf]))", "torch.histc: range of [1, inf] is not finite"),
    ("t.quantile(f, -1.0)", "quantile() q must be in the range [0, 1] but got -1"),
    ("t.nanmean(f.long())", "nanmean(): expected input to have floating point or complex dtype but got Long"),
    ("t.histogramdd(A, [f[0].double()] * 3)", "input tensor and bins tensors should have the same dtype"),
    ("t.diff(A, prepend=t.ones(2, 3), dim=1)", "diff expects the shape of tensor to prepend or append to match that"),
    ("t.ones(4).unflatten('a', (2, 2))", "unflatten(): argument 'dim' (position 1) must be int, not str"),
    ("f.index_fill_(0, t.tensor([0]), 1 + 1j)", "Converting complex Scalar to non-complex type is not supported"),
    ("t.ones(()).index_add(0, t.tensor([0]), t.ones(1, 1, 1))", "source tensor shape must match self tensor shape, e"),
    ("f.index_add(0, t.tensor([0]), t.ones(2))", "Number of indices (1) should be equal to source.size(dim): (2), fo"),
    ("A.index_add(0, t.tensor([5]), t.ones(1, 3))", "index 5 is out of bounds for dimension 0 with size 3"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "head"), SIZES)
def test_sizes_and_positions(expression: str, head: str) -> None:
    same_error(expression, head, f=F, A=A)


@pytest.mark.parametrize("expression", [
    "t.tensor([-1, 7], dtype=t.uint8)", "t.tensor([-1, 2], dtype=t.uint16).int()", "t.tensor(2**64, dtype=t.float32)",
    "t.tensor([2**70, 0], dtype=t.bool)", "t.logspace(0, 1, 3, base=-2)", "t.logspace(0, 1j, 3)",
    "t.empty(0, 3).stride()", "t.empty(2, 0, 3).stride()", "t.empty_strided((4, 3, 2), (10, 0, 3)).fill_(1.0)",
    "f.new(size=(3, 4)).shape[1]", "f.new(f).data_ptr() == f.data_ptr()", "t.FloatTensor(f).data_ptr() == f.data_ptr()",
    "f.scatter(0, t.zeros(0, 2, dtype=t.int64), t.zeros(0, 2))", "A.scatter(0, t.zeros(0, dtype=t.int64), 1.0)",
    "A.scatter_add(0, t.zeros(0, dtype=t.int64), t.zeros(1))",
    "A.scatter_reduce(0, t.zeros(0, dtype=t.int64), t.zeros(1), reduce='amax')",
])  # fmt: skip
def test_what_is_taken(expression: str) -> None:
    same(expression, f=F, A=A, gradient=False)


@pytest.mark.parametrize("expression", [
    "f.index_add_(0, i, f[:3])", "i.index_copy_(0, i, i.clone())", "i.index_fill_(0, i, 0)", "f.put_(i, f[:3])",
    "f.index_put_((i,), f[0])", "i.scatter_(0, i, i.clone())", "f.scatter_add_(0, i, f)",
])  # fmt: skip
def test_operands_in_the_memory_that_is_written(expression: str) -> None:
    same_error(expression, "unsupported operation", f=F, i=np.array([2, 1, 0]))


@pytest.mark.parametrize("name", ["var", "std"])
def test_no_degrees_of_freedom(name: str) -> None:
    import adjoint as ad

    with pytest.warns(UserWarning, match=rf"{name}\(\): degrees of freedom is <= 0"):
        assert np.isnan(getattr(ad, name)(ad.ones(1)).item())


@pytest.mark.parametrize("expression", [
    "t.linspace(5, 10, 3, dtype=t.bool)", "t.einsum('...ik..., ...jk ->', A, A)", "A['a']", "A[{}]",
    "f[0].softmax(1)", "f[0].log_softmax(())", "f[0].cumsum(1)", "f[0].cumsum(())",
])  # fmt: skip
def test_what_no_dimension_or_index_can_be(expression: str) -> None:
    same(expression, f=F, A=A, gradient=False)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("t.randint(3, 10)", "must be tuple of ints, not int"),
        ("A.sum(0, 1)", "argument 'keepdim' (position 2) must be bool, not int"),
        ("A.mean(0, 1)", "argument 'keepdim' (position 2) must be bool, not int"),
        ("A.amax(0, 1)", "argument 'keepdim' (position 2) must be bool, not int"),
        ("A[i.short()]", "tensors used as indices must be long, int, byte or bool tensors"),
        ("A.index_select(0, i.byte())", "index_select(): Expected dtype int32 or int64 for index"),
        ("f.gather(0, i.byte())", "gather(): Expected dtype int32/int64 for index"),
        ("t.nn.functional.embedding(i.short(), A)", "Expected tensor for argument #1 'indices' to have one of the"),
        ("A.to_sparse_csr().unsqueeze(0)", "strides"),
    ],
)
def test_numbers_and_indices_of_other_types(expression: str, words: str) -> None:
    same_error(expression, words, f=F, A=A, i=np.array([2, 1, 0]))


@pytest.mark.parametrize("expression", ["A[None].squeeze(0, 1)", "A[:1, :1].squeeze(0, 1)", "B.count_nonzero(0, 2)"])
def test_dimensions_one_by_one(expression: str) -> None:
    same(expression, A=A, B=B3, gradient=False)
