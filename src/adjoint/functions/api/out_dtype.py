"""Dtypes of `out=`: most functions ask for exactly the dtype of their result, others for one that can hold it.

PyTorch's elementwise functions, and those that join tensors, cast what they computed, as far as the kind of number
allows. Those named here do not: an index that is written into uint8 would wrap without a word.
"""

from __future__ import annotations

from adjoint.core.dtype.dtype import dtype
from adjoint.core.dtype.dtype_info import scalar_type

_EXPECTED = "Expected out tensor to have dtype {want}, but got {have} instead"
_FOUND = "Found dtype {Have} but expected {Want}"
_FLOATING = "{name} expects a floating point output tensor, but got {Have}"
_SAME_AS_INPUT = "{name}: Expected the output tensor to have dtype {Want}, but got an output tensor with dtype {Have}"
_HISTOGRAM = (
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {want} and hist {have}"
)
_BIN_EDGES = (
    "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input {want} and "
    "bin_edges {have} for dimension 0"
)
_BUCKETS = (
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {Have} and out_int32 flag is {is_int32}"
)
# {want} and {have} are the types' names in C++, {Want} and {Have} PyTorch's of its scalar types
_ERRORS_OF_EXACT = {
    _EXPECTED: """
        addbmm addmm addmv alias_copy aminmax argmax argmin as_strided_copy avg_pool2d avg_pool3d baddbmm bmm ceil
        cholesky cholesky_ex cross det diag diagonal_copy eigh eigvalsh expand_copy fix floor frac gather index_add
        hash_tensor index_copy index_reduce inv inv_ex isin kthvalue ldl_factor ldl_factor_ex ldl_solve linear
        log_softmax lu lu_factor lu_factor_ex lu_solve lu_unpack masked_select matmul median mm msort mv
        nanmedian narrow_copy neg negative norm permute_copy qr renorm round scatter scatter_add scatter_reduce sgn sign
        slice_scatter slogdet softmax solve solve_ex sort split_copy split_with_sizes_copy squeeze_copy svd svdvals
        t_copy take take_along_dim topk transpose_copy triangular_solve tril triu trunc unbind_copy unfold_copy
        unsqueeze_copy vector_norm view_copy
    """,
    _FOUND: "abs absolute bitwise_not conj_physical gelu hardshrink softplus softshrink",
    "{name} does not support non-boolean outputs.": "isneginf isposinf signbit",
    "expected scalar_type {Want} but found {Have}": "cummax cummin logcumsumexp",
    "expected scalar type {Want} but found {Have}": "logsigmoid solve_triangular",
    "result dtype {Have} does not match input dtype {Want}": "dot vdot",
    _SAME_AS_INPUT: "inner tensordot",
    "{name}: Expected out tensor to have scalar type {Want} but got scalar type {Have}": "nonzero nonzero_static",
    "{name}(): self and result must have the same scalar type": "index_select",
    "quantile() out tensor must be same dtype as the input tensor": "nanquantile quantile",
    "linalg.{name} expected out tensor dtype {Want} but got: {Have}": "matrix_norm",
    "linalg.vecdot: Expected out of dtype{Want} but found {Have}": "vecdot",
    "nan_to_num: dtype of out: {Have} should be same as input: {Want}": "nan_to_num",
    "heaviside is not yet implemented for tensors with different dtypes.": "heaviside",
    "Expected out type to be {Want} but got {Have}": "where",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{Want} and result has dtype "
    "{Have}": "ormqr",
    "Expected object of scalar type {Want} but got scalar type {Have} for argument 'out'": "complex polar",
    "multi_dot(): expected out tensor to have dtype {want} but got {have}": "multi_dot",
    "the output given to float_power has dtype {Have} but the operation's result requires dtype {Want}": "float_power",
    "multinomial expects {Want} tensor out, got: {Have}": "multinomial",
    "Expected the dtype for input and out to match, but got {Want} for input's dtype and {Have} for out's dtype.": (
        "amax amin"
    ),
    _BUCKETS: "bucketize searchsorted",
    _HISTOGRAM: "histc histogram",
}
ERRORS_OF_EXACT = {name: error for error, names in _ERRORS_OF_EXACT.items() for name in names.split()}
PAIRS_REQUIRING_RESULT_DTYPE = frozenset({"max", "min"})  # of which only the pairs are exact
# of several results each
ERRORS_OF_PARTS = {
    "mode": (
        "expected scalar type '{Want}' but got '{Have}' for values output",
        "expected scalar type '{Want}' but got '{Have}' for indices output",
    ),
    "frexp": (
        "torch.frexp() expects mantissa to have dtype {want_name} but got {have_name}",
        "torch.frexp() expects exponent to have int dtype but got {have_name}",
    ),
    "histogram": (_HISTOGRAM, _BIN_EDGES),
}
# real numbers, however many digits
FLOATING_RESULTS = frozenset({"hfft", "hfft2", "hfftn", "irfft", "irfft2", "irfftn"})
# whatever `out` is, the result is copied into it
COPIED_RESULTS = frozenset({"torch.lu"})
OTHER_AT_TOP_LEVEL = frozenset({"cholesky", "lu"})  # which know other rules than their namesakes in `linalg`
# of linear algebra: those that say of their results that a type must hold them
_UNNAMED_RESULTS = """
    torch.cholesky cholesky_inverse cholesky_solve cond householder_product matrix_power matrix_rank pinv tensorinv
    tensorsolve
"""
SAFE_CAST_RESULTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNNAMED_RESULTS.split(), ()),
    "eig": ("eigenvalues", "eigenvectors"),
    "eigvals": ("eigenvalues",),
    "geqrf": ("a", "tau"),
    "lstsq": ("solution", "residuals", "rank", "singular_values"),
}
CPP_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def check_out_dtype(name: str, at: int, several: bool, got: dtype, have: dtype) -> None:
    """Raise RuntimeError if result number `at`, of dtype `got`, cannot be written into `out`, of dtype `have`."""
    complaint = _out_dtype_error(name, at, several, got, have)
    if complaint is not None:
        raise RuntimeError(complaint)


def exact_dtype_error(want: dtype, have: dtype) -> str:
    """Return the words for an `out` of another dtype than its function writes."""
    return _EXPECTED.format(want=_cpp_type_name(want), have=_cpp_type_name(have))


def _cpp_type_name(kind: dtype) -> str:
    """Return the name of the type in C++, if it differs."""
    return CPP_TYPE_NAMES.get(kind.name, kind.name)


def _out_dtype_error(name: str, at: int, several: bool, got: dtype, have: dtype) -> str | None:
    theirs, ours = scalar_type(got), scalar_type(have)
    if name in ("all", "any"):
        wrong = have.name not in ("bool", "uint8")
        return f"{name} only supports bool tensor for result, got: {ours}" if wrong else None
    if got is have or name in COPIED_RESULTS:
        return None
    if name in ERRORS_OF_PARTS or name in ERRORS_OF_EXACT or (several and name in PAIRS_REQUIRING_RESULT_DTYPE):
        template = ERRORS_OF_PARTS[name][at] if name in ERRORS_OF_PARTS else ERRORS_OF_EXACT.get(name, _EXPECTED)
        return template.format(
            name=name,
            want=_cpp_type_name(got),
            have=_cpp_type_name(have),
            Want=theirs,
            Have=ours,
            want_name=got.name,
            have_name=have.name,
            is_int32=got.name == "int32",
        )
    if name in FLOATING_RESULTS:
        return None if have.is_floating_point else _FLOATING.format(name=name, Have=ours)
    if got.rank <= have.rank:
        return None
    if name in SAFE_CAST_RESULTS:
        parts = SAFE_CAST_RESULTS[name]
        part, name = parts[at] if parts else "result", name.removeprefix("torch.")
        return f"{name}: Expected {part} to be safely castable from {theirs} dtype, but got {part} with dtype {ours}"
    return f"result type {theirs} can't be cast to the desired output type {ours}"
