"""Functions of bfloat16: as near to the exact values as PyTorch's, or within a unit in the last place of either."""

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
import adjoint.nn.functional

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

NUMBERS = np.random.default_rng(0)
STEP = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


def rounded(values: Any) -> Any:
    """The values, float32, that bfloat16 holds."""
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


ARRAYS = {
    "x": rounded(NUMBERS.uniform(-2, 2, (4, 6))), "y": rounded(NUMBERS.uniform(-2, 2, (4, 6))),
    "p": rounded(NUMBERS.uniform(0.2, 3, (4, 6))), "u": rounded(NUMBERS.uniform(-0.9, 0.9, (4, 6))),
    "m": rounded(NUMBERS.normal(size=(6, 5))), "v": rounded(NUMBERS.normal(size=(6,))),
    "b": rounded(NUMBERS.normal(size=(5,))), "s": rounded(NUMBERS.normal(size=(4, 4)) + 3 * np.eye(4)),
    "im": rounded(NUMBERS.normal(size=(2, 3, 8, 8))), "k": rounded(NUMBERS.normal(size=(4, 3, 3, 3))),
    "im1": rounded(NUMBERS.normal(size=(2, 3, 9))), "q": rounded(NUMBERS.normal(size=(2, 2, 5, 4))),
    "kk": rounded(NUMBERS.normal(size=(2, 2, 5, 4))), "vv": rounded(NUMBERS.normal(size=(2, 2, 5, 4))),
    "w3": rounded(NUMBERS.normal(size=(3,))), "e": rounded(NUMBERS.normal(size=(7, 3))),
}  # fmt: skip
OTHERS = {
    "i": np.array([0, 2, 1, 1]), "i2": NUMBERS.integers(0, 4, (4, 6)), "c": NUMBERS.random((4, 6)) > 0.5,
    "t4": np.array([1, 0, 3, 5]),
}  # fmt: skip
EXPRESSIONS = [
    "t.abs(x)", "t.acos(u)", "t.asin(u)", "t.atan(x)", "t.ceil(x)", "t.cos(x)", "t.cosh(x)", "t.erf(x)", "t.exp(x)",
    "t.exp2(x)", "t.expm1(x)", "t.floor(x)", "t.isfinite(x)", "t.isinf(x)", "t.isnan(x)", "t.log(p)", "t.log10(p)",
    "t.log1p(p)", "t.log2(p)", "t.logical_not(x)", "t.neg(x)", "t.reciprocal(p)", "t.relu(x)", "t.round(x)",
    "t.rsqrt(p)", "t.sigmoid(x)", "t.sign(x)", "t.sin(x)", "t.sinh(x)", "t.sqrt(p)", "t.square(x)", "t.tan(x)",
    "t.tanh(x)", "t.trunc(x)", "t.clone(x)", "t.acosh(x)", "t.asinh(x)", "t.atanh(u)", "t.erfc(x)", "t.sinc(x)",
    "t.frac(x)", "t.signbit(x)", "t.lgamma(p)", "t.digamma(p)", "t.erfinv(u)", "t.logit(u.abs())", "t.nan_to_num(x)",
    "t.deg2rad(x)", "t.rad2deg(x)", "t.positive(x)", "t.sgn(x)", "t.add(x,p)", "t.sub(x,p)", "t.mul(x,p)",
    "t.div(x,p)", "t.maximum(x,p)", "t.minimum(x,p)", "t.eq(x,p)", "t.ne(x,p)", "t.lt(x,p)", "t.le(x,p)", "t.gt(x,p)",
    "t.ge(x,p)", "t.fmod(x,p)", "t.remainder(x,p)", "t.atan2(x,p)", "t.hypot(x,p)", "t.logaddexp(x,p)", "t.fmax(x,p)",
    "t.fmin(x,p)", "t.copysign(x,p)", "t.xlogy(p,y)", "t.true_divide(x,p)", "t.logical_and(x,p)",
    "t.logaddexp2(x,p)", "p**y", "p**2", "p**3", "p**0.5", "p**-1.5", "2.0**x", "x+1.001", "x*1.001", "1.001-x",
    "x/3", "3/p", "x+i2", "x*True", "x+t.tensor(1.001)", "x+t.tensor([1.001])", "x*x.half()", "x.float()*x",
    "x.double()*x", "t.where(c,x,y)", "t.where(c,x,0.1)", "t.where(c,x.float(),y)", "x>0.3", "x==x",
    "x.clamp(-.5,.5)", "x.clamp(min=0)", "t.lerp(x,y,0.3)", "t.addcmul(x,y,p,value=0.5)",
    "t.addcdiv(x,y,p,value=0.5)", "t.add(x,y,alpha=0.3)", "t.sub(x,y,alpha=2)", "t.sum(x)", "t.sum(x,dim=1)",
    "t.sum(x,dim=(0,1))", "t.mean(x)", "t.mean(x,dim=1)", "t.mean(x,dim=(0,1))", "t.prod(x)", "t.prod(x,dim=1)",
    "t.max(x)", "t.max(x,dim=1)", "t.min(x)", "t.min(x,dim=1)", "t.amax(x,dim=1)", "t.amax(x,dim=(0,1))",
    "t.amin(x,dim=1)", "t.logsumexp(x,dim=1)", "t.logsumexp(x,dim=(0,1))", "t.var(x)", "t.var(x,dim=1)",
    "t.var(x,dim=(0,1))", "t.std(x)", "t.std(x,dim=1)", "t.norm(x)", "t.norm(x,dim=1)", "t.cumsum(x,dim=1)",
    "t.cumprod(x,dim=1)", "t.argmax(x)", "t.argmax(x,dim=1)", "t.argmin(x)", "t.argmin(x,dim=1)", "t.all(x)",
    "t.all(x,dim=1)", "t.any(x)", "t.any(x,dim=1)", "t.median(x)", "t.median(x,dim=1)", "t.nansum(x)",
    "t.nansum(x,dim=1)", "t.nanmean(x)", "t.nanmean(x,dim=1)", "t.cummax(x,dim=1)", "t.cummin(x,dim=1)",
    "t.count_nonzero(x)", "t.count_nonzero(x,dim=1)", "t.logcumsumexp(x,dim=1)", "t.sort(x)", "t.sort(x,dim=1)",
    "t.argsort(x)", "t.argsort(x,dim=1)", "t.aminmax(x)", "t.aminmax(x,dim=1)", "t.mode(x)", "t.mode(x,dim=1)",
    "t.nanmedian(x)", "t.nanmedian(x,dim=1)", "t.diff(x)", "t.diff(x,dim=1)", "t.kthvalue(x,2)", "t.topk(x,3)",
    "x.sum(dtype=t.float32)", "t.sum(x,1,dtype=t.float64)", "t.var_mean(x,1)", "t.std_mean(x)", "t.linalg.norm(x)",
    "t.linalg.vector_norm(x,3,dim=1)", "x.norm(p=1,dim=0)", "t.dist(x,y)", "t.trace(s)", "x@m", "x@v", "v@m",
    "t.mm(x,m)", "t.matmul(q,kk.transpose(-1,-2))", "t.bmm(q[0],kk[0].transpose(1,2))", "t.addmm(b,x,m)",
    "t.addmm(b,x,m,beta=0.5,alpha=2)", "t.einsum('ij,jk->ik',x,m)", "t.outer(v,b)", "t.dot(v,v)", "t.mv(x,v)",
    "t.tensordot(x,m,1)", "t.kron(s,s)", "t.baddbmm(q[0]@kk[0].transpose(1,2),q[0],kk[0].transpose(1,2))",
    "t.inner(x,y)", "t.addmv(x[:,0],x,v)", "t.addr(x,x[:,0],v)", "F.relu(x)", "F.gelu(x)", "F.silu(x)",
    "F.softplus(x)", "F.elu(x)", "F.selu(x)", "F.celu(x)", "F.mish(x)", "F.leaky_relu(x)", "F.hardtanh(x)",
    "F.hardswish(x)", "F.hardsigmoid(x)", "F.logsigmoid(x)", "F.softsign(x)", "F.tanhshrink(x)", "F.softshrink(x)",
    "F.hardshrink(x)", "F.relu6(x)", "F.glu(x)", "F.sigmoid(x)", "F.tanh(x)", "F.gelu(x,approximate='tanh')",
    "F.softmax(x,dim=1)", "F.log_softmax(x,dim=1)", "F.softmin(x,dim=0)", "F.cross_entropy(x,t4)",
    "F.cross_entropy(x,t4,label_smoothing=0.1)", "F.cross_entropy(x,t4,reduction='none')", "F.nll_loss(x,t4)",
    "F.mse_loss(x,y)", "F.l1_loss(x,y)", "F.smooth_l1_loss(x,y)", "F.huber_loss(x,y)",
    "F.binary_cross_entropy(u.abs(),u.abs())", "F.binary_cross_entropy_with_logits(x,u.abs())", "F.kl_div(x,p)",
    "F.cosine_similarity(x,y)", "F.pairwise_distance(x,y)", "F.normalize(x)", "F.linear(x,m.T,b)", "F.linear(x,m.T)",
    "F.bilinear(x,y,t.ones(2,6,6,dtype=x.dtype))", "F.layer_norm(x,(6,),v,v)", "F.layer_norm(x,(6,))",
    "F.rms_norm(x,(6,),v)", "F.group_norm(im,3,w3,w3)", "F.batch_norm(im,None,None,w3,w3,training=True)",
    "F.batch_norm(x,None,None,training=True)", "F.instance_norm(im)", "F.conv2d(im,k)",
    "F.conv2d(im,k,w3.sum()*t.ones(4,dtype=im.dtype),stride=2,padding=1)", "F.conv1d(im1,k[:,:,0])",
    "F.max_pool2d(im,2)", "F.avg_pool2d(im,2)", "F.adaptive_avg_pool2d(im,3)",
    "F.scaled_dot_product_attention(q,kk,vv)", "F.scaled_dot_product_attention(q,kk,vv,is_causal=True)",
    "F.embedding(i,e)", "F.interpolate(im,scale_factor=2)", "F.interpolate(im,scale_factor=2,mode='bilinear')",
    "F.pad(x,(1,2))", "F.unfold(im,2)", "F.pixel_shuffle(q.reshape(1,4,5,4),2)", "F.triplet_margin_loss(x,y,p)",
    "F.margin_ranking_loss(x[:,0],y[:,0],p[:,0].sign())", "F.hinge_embedding_loss(x,y.sign())", "F.one_hot(i)",
    "F.prelu(x,v[:1])", "F.threshold(x,0.5,0.1)", "F.cosine_embedding_loss(x,y,p[:,0].sign())", "x[1]", "x[:,1:3]",
    "x[i]", "x[c]", "x[i,i]", "x.T", "x.reshape(-1)", "x.flip(0)", "t.cat([x,y])", "t.stack([x,y])",
    "t.cat([x,y.float()])", "x.gather(1,i2)", "t.take_along_dim(x,i2,1)", "x.scatter(0,i2,y)",
    "x.scatter_add(0,i2,y)", "x.index_select(0,i)", "x.index_add(0,i,y)", "x.masked_fill(c,0.1)", "t.tril(s)",
    "t.roll(x,1,0)", "x.repeat(2,1)", "x.unfold(1,2,1)", "x.expand(2,4,6)", "t.diag(s)", "x.index_fill(0,i,0.3)",
    "x.index_copy(0,t.arange(4),y)", "x.masked_scatter(c,y)", "t.scatter_reduce(x,0,i2,y,'prod')",
    "t.scatter_reduce(x,0,i2,y,'mean')", "t.searchsorted(x.sort(1)[0],y)", "t.histc(x,5)", "t.isin(x,y)",
    "t.nonzero(x)", "t.diff(x)", "t.trapezoid(x)", "t.tile(x,(2,))", "t.split(x,2)", "t.chunk(x,2,1)",
    "t.maximum(x,x)", "x.to(t.float16)", "x.to(t.int32)", "x.to(t.float64)", "x.bool()",
    "t.zeros(3,dtype=t.bfloat16)", "t.ones_like(x)", "t.full((2,),0.1,dtype=t.bfloat16)", "t.full_like(x,0.1)",
    "t.arange(5,dtype=t.bfloat16)", "t.arange(0,1,0.1,dtype=t.bfloat16)", "t.linspace(0,1,7,dtype=t.bfloat16)",
    "t.logspace(0,1,7,dtype=t.bfloat16)", "t.eye(3,dtype=t.bfloat16)", "t.tensor([1.1,2.2],dtype=t.bfloat16)",
    "t.tensor(0.1,dtype=t.bfloat16).item()", "x.tolist()", "float(x[0,0])", "x.element_size()",
    "x.is_floating_point()", "t.is_floating_point(x)", "x.new_tensor([0.1])", "x.dtype.itemsize",
    "x.mul(2).add_(1.001)", "x.clone().mul_(y)", "x.detach().clone().copy_(y.float()*1.001)",
    "x.detach().clone().fill_(0.1)", "x.clone().clamp_(0,1)", "x.abs().max().item()", "x.double().to(t.bfloat16)",
    "i.to(t.bfloat16)", "t.promote_types(t.bfloat16,t.float16).itemsize", "F.dropout(x,0.0)",
]  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_near_as_pytorch(expression: str) -> None:
    ours, theirs = evaluated(adjoint, expression), evaluated(torch, expression)
    assert len(ours) == len(theirs)
    exact: list[Any] = []
    for (place, got), (other, expected) in zip(ours, theirs, strict=True):
        assert place == other
        if expected is None or got is None:
            assert got is None or not np.any(got[1])  # a gradient of zeros, which PyTorch may leave out, or we
            assert expected is None or not np.any(expected[1])
            continue
        assert got[0] == expected[0], f"{place}: {got[0]} for {expected[0]}"
        if np.array_equal(got[1], expected[1], equal_nan=np.asarray(got[1]).dtype.kind == "f"):
            continue
        exact = exact or evaluated(torch, expression.replace("bfloat16", "float64"), exact=True)
        nearer(got, expected, dict(exact)[place], place)


def nearer(got: Any, expected: Any, exact: Any, place: str) -> None:
    """Each element is within a unit of PyTorch's or of the exact one, or as near to it as PyTorch's farthest is."""
    ours, theirs, truth = (np.asarray(x[1], np.float64) for x in (got, expected, exact))
    assert ours.shape == theirs.shape == truth.shape
    smallest = 1e-3 * max(float(np.nanmax(np.abs(truth))), 1e-30)
    units = np.exp2(np.floor(np.log2(np.maximum(np.abs(truth), smallest)))) * STEP[got[0]]
    errors, known = np.abs(ours - truth) / units, float(np.nanmax(np.abs(theirs - truth) / units))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    near = np.abs(ours - theirs) / units <= 1.01
    assert np.all(same | near | (errors <= max(known, 1.01))), f"{place}: {errors.max()} units, PyTorch {known}"


def evaluated(library: Any, expression: str, exact: bool = False) -> list[Any]:
    """[(where, (type, values))] of the results, then of the gradients by the arrays."""
    made = {name: library.tensor(a).double() if exact else library.tensor(a).bfloat16() for name, a in ARRAYS.items()}
    names = {name: a.requires_grad_() for name, a in made.items()} | {n: library.tensor(a) for n, a in OTHERS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = eval(expression, {"t": library, "F": library.nn.functional, **names})
    results = flat(library, out)
    roots = [r for r in results if r.requires_grad]
    seeds = [library.tensor(rounded(np.cos(np.arange(r.numel()))).reshape(tuple(r.shape))).to(r.dtype) for r in roots]
    if roots:
        library.autograd.backward(roots, seeds)
    values = [(f"result {i}", told(r)) for i, r in enumerate(results)]
    values += [(f"gradient of {name}", None if made[name].grad is None else told(made[name].grad)) for name in made]
    return values if results else [("value", (type(out).__name__, out))]


def told(tensor: Any) -> Any:
    kind = str(tensor.dtype).rpartition(".")[2]
    return kind, (tensor.detach().float() if kind == "bfloat16" else tensor.detach()).numpy()


def flat(library: Any, out: Any) -> list[Any]:
    if isinstance(out, library.Tensor):
        return [out]
    return [r for part in out for r in flat(library, part)] if isinstance(out, (tuple, list)) else []
