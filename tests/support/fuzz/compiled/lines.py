"""The lines of which random steps are made: each function writes an expression around a variable, or None."""

from __future__ import annotations

from typing import Any

from tests.support.fuzz import generate as shared
from tests.support.fuzz.generate import Template, dim_of, key_of


def kind_of(v: Any) -> str:
    return str(v.detach().numpy().dtype.kind)


def _part(a: Any, x: str, v: Any) -> str | None:
    d = dim_of(a, v)
    if not v.ndim or not v.shape[d]:
        return None
    at = a.random.randrange(v.shape[d])
    return str(
        a.one_of(
            [f"{x}.select({d}, {at})", f"{x}.unbind({d})[{at}]", f"{x}.split(1, {d})[{at}]", f"{x}.chunk(2, {d})[0]"]
        )
    )


VIEWS: list[Template] = [*shared.VIEWS, _part, _part]


def _binary(a: Any, x: str, v: Any) -> str:
    y = a.fitting(tuple(v.shape), "f" if kind_of(v) == "f" else "fiub")
    return str(a.one_of([
        f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{y} * {x}", f"{y} + {x}", f"ad.maximum({x}, {x} * 0 + {y})",
        f"ad.minimum({x} * 0 + {y}, {x})", f"ad.where({condition(a, v)}, {x}, {y})",
        f"ad.add({x}, {x} * 0 + {y}, alpha=2)",
        f"{x}.masked_fill({condition(a, v)}, 0.5)", f"ad.where({condition(a, v)}, {y}, {x})",
        f"ad.addcmul({x}, {x}, {x} * 0 + {y}, value=0.5)", f"ad.lerp({x} * 1.0, {x} * 0.0 + {y}, 0.5)",
    ]))  # fmt: skip


def condition(a: Any, v: Any) -> str:
    """Truth values that broadcast with v."""
    return str(a.fitting(tuple(v.shape), "b", number=False))


def _unary(a: Any, x: str, v: Any) -> str:
    if kind_of(v) == "b":  # of truths some give what NumPy happens to give
        return f"{x}.clone()"
    return str(a.one_of([
        f"-{x}", f"ad.abs({x})", f"ad.relu({x})", f"ad.square({x})", f"{x}.clone()", f"{x} * 0.5", f"2 - {x}",
        f"ad.clamp({x}, -1, 1)", f"{x} / 2", f"ad.leaky_relu({x}, 0.25)", f"F.hardtanh({x}, -1, 2)", f"{x} * True",
        f"{x}.to(ad.float64)", f"{x}.to(ad.float32)", f"{x}.float()", f"ad.positive({x})", f"F.relu6({x})",
        f"{x} * ad.arange({v.shape[-1] if v.ndim else 1})", f"{x} + ad.full({tuple(v.shape)}, 0.25)",
        f"ad.zeros_like({x}) + {x}", f"ad.nan_to_num({x})", f"{x} ** 2", f"F.threshold({x}, 0.5, 0.25)",
    ]))  # fmt: skip


def _fold(a: Any, x: str, v: Any) -> str:
    d, keep = dim_of(a, v), a.one_of([True, False])
    return str(a.one_of([
        f"{x}.sum()", f"{x}.sum({d}, keepdim={keep})", f"{x}.amax({d})", f"{x}.amin({d}, keepdim={keep})",
        f"{x}.max()", f"{x}.cumsum({d})", f"{x}.max({d})[0]", f"{x}.min({d}, keepdim={keep}).values",
        f"ad.sort({x}, {d})[0]", f"ad.topk({x}, 1, {d})[0]", f"ad.cummax({x}, {d})[0]", f"ad.diff({x})",
        f"{x}.sum(())", f"{x}.sum({tuple(range(v.ndim))})", f"ad.trace({x})", f"{x}.median()", f"ad.nansum({x})",
        f"ad.prod({x}.clamp(-1, 1), {d})", f"ad.aminmax({x}, dim={d}).max",
    ]))  # fmt: skip


def _product(a: Any, x: str, v: Any) -> str | None:
    options = shared.products(a, x, v)
    if v.ndim == 2:
        options.append(f"F.max_pool1d({x}.unsqueeze(0), 2, padding=1)")
    elif v.ndim == 3:
        options.append(f"F.max_pool2d({x}, 2, padding=1)")
    return str(a.one_of(options)) if options else None


def _joined(a: Any, x: str, v: Any) -> str | None:
    s, d = tuple(v.shape), dim_of(a, v)
    options = shared.joins(a, x, v)
    if v.ndim and s[d]:
        n = s[d]
        at = a.random.choices(range(n), k=a.random.randint(1, 4))
        zeros = f"ad.zeros({s}, dtype=ad.int64)"
        options += [
            f"{x}[{key_of(a, s, a.chance(0.5), True, False)}]", f"ad.scatter_add({x}, {d}, {zeros}, {x})",
            f"ad.index_add({x}, {d}, ad.tensor([0]), {x}.narrow({d}, 0, 1))",
            f"F.embedding(ad.tensor({at}), {x}.reshape({n}, -1))", f"F.pad({x}, (1, 2))",
            f"ad.take({x}, ad.tensor([0, -1]))", f"ad.rot90({x})" if v.ndim > 1 else f"{x}[::2]",
            f"ad.index_put({x}, (ad.tensor([0, 0]),), {x}[0], accumulate=True)",
            f"ad.select_scatter({x}, {x}.select({d}, 0), {d}, {n - 1})",
        ]  # fmt: skip
    return str(a.one_of(options))


def _smooth(a: Any, x: str, v: Any) -> str:
    return str(a.one_of([
        f"ad.tanh({x})", f"ad.sigmoid({x})", f"ad.sin({x})", f"ad.cos({x})", f"ad.exp(-ad.square({x}))",
        f"ad.log1p(ad.square({x}))", f"ad.sqrt(ad.square({x}) + 1)", f"ad.rsqrt(ad.square({x}) + 1)", f"F.gelu({x})",
        f"F.gelu({x}, approximate='tanh')", f"F.silu({x})", f"F.softplus({x})", f"ad.erf({x})", f"F.elu({x})",
        f"ad.expm1({x}.clamp(-2, 2))", f"F.logsigmoid({x})", f"F.selu({x})", f"F.tanhshrink({x})", f"ad.atan({x})",
        f"ad.asinh({x})", f"ad.log(ad.square({x}) + 0.5)", f"ad.reciprocal(ad.square({x}) + 1)",
        f"ad.exp2(ad.tanh({x}))",
        f"(ad.square({x}) + 0.5) ** 1.5", f"2.0 ** ad.sin({x})", f"ad.sinc({x})", f"ad.lgamma(ad.square({x}) + 1)",
        f"ad.log2(ad.square({x}) + 1)", f"ad.acos(ad.tanh({x}) * 0.5)", f"ad.erfc({x})", f"ad.log10(ad.abs({x}) + 1)",
    ]))  # fmt: skip


def _smooth_of_two(a: Any, x: str, v: Any) -> str:
    y = a.fitting(tuple(v.shape))
    return str(a.one_of([
        f"{x} / ({y} * {y} + 1.0)", f"ad.atan2({x}, {x} * {x} + 1.0)",
        f"(ad.square({x}) + 0.5) ** ad.tanh({x} * 0 + {y})",
        f"ad.logaddexp({x}, {x} * 0 + {y})", f"ad.hypot({x} + 0.3, {x} * 0 + 1)", f"F.mse_loss({x}, {x} * 0 + {y})",
        f"F.huber_loss({x}, {x} * 0 + {y})", f"F.smooth_l1_loss({x}, {x} * 0 + {y}, reduction='none')",
        f"F.binary_cross_entropy_with_logits({x}, ad.sigmoid({x} * 0 + {y}))",
        f"F.l1_loss({x}, {x} * 0 + {y}, reduction='sum')",
        f"F.cosine_similarity({x} + 0.3, {x} * 0 + {y} + 0.1, dim=0)",
    ]))  # fmt: skip


def _smooth_fold(a: Any, x: str, v: Any) -> str | None:
    d, keep = dim_of(a, v), a.one_of([True, False])
    if not v.numel():
        return f"{x}.sum({d})"
    options = [
        f"{x}.mean()", f"{x}.mean({d}, keepdim={keep})", f"F.softmax({x}, {d})", f"F.log_softmax({x}, {d})",
        f"ad.logsumexp({x}, {d})", f"ad.norm({x} + 0.3)", f"ad.norm({x} + 0.3, 2, {d})",
        f"F.normalize({x} + 0.3, dim={d})", f"ad.logcumsumexp({x}, {d})", f"ad.cumprod(ad.sigmoid({x}), {d})",
        f"ad.prod(ad.sigmoid({x}), {d})",
    ]  # fmt: skip
    if v.ndim and v.shape[d] > 1:
        options += [f"{x}.std({d})", f"{x}.var({d}, keepdim={keep})", f"{x}.var({d}, unbiased=False)"]
    if v.ndim and v.shape[-1] > 1 and v.is_floating_point():
        options += [f"F.layer_norm({x}, ({v.shape[-1]},))"]
    if v.ndim == 2:
        options += [f"F.cross_entropy({x}, ad.tensor({[i % v.shape[1] for i in range(v.shape[0])]}))"]
        if v.shape[0] > 1:
            options += [f"F.batch_norm({x}, None, None, training=True)"]
    return str(a.one_of(options))


def _random(a: Any, x: str, v: Any) -> str:
    return str(a.one_of([
        f"F.dropout({x}, 0.3)", f"{x} * ad.rand({tuple(v.shape)})", f"{x} + ad.randn_like({x}.float())",
        f"{x} * ad.bernoulli(ad.full({tuple(v.shape)}, 0.5))", f"{x} + ad.randint(0, 3, {tuple(v.shape)})",
        f"{x} * ad.empty({tuple(v.shape)}).uniform_(-1, 1)", f"{x} + ad.zeros({tuple(v.shape)}).normal_()",
    ]))  # fmt: skip


def _transformed(a: Any, x: str, v: Any) -> str | None:
    options = [
        f"ad.func.grad(lambda t: (t * t.sin()).sum())({x})",
        f"ad.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {x}, use_reentrant=False)",
        f"ad.func.vjp(lambda t: t.tanh() * t, {x})[1]({x})[0]",
        f"ad.func.jvp(lambda t: t.tanh() * t, ({x},), ({x},))[1]",
    ]
    if v.ndim and v.shape[0]:
        options.append(f"ad.vmap(lambda t: t.tanh() * t.sum())({x})")
    return str(a.one_of(options))


def _compared(a: Any, x: str, v: Any) -> str:
    if kind_of(v) == "b":
        return str(a.one_of([f"~{x}", f"{x} & {condition(a, v)}", f"{x}.any()", f"{x}.all({dim_of(a, v)})"]))
    y = a.fitting(tuple(v.shape), sharp=True)
    d = dim_of(a, v)
    return str(a.one_of([
        f"{x} > {y}", f"{x} <= {y}", f"{x} == {y}", f"ad.ne({x}, {y})", f"({x} > 0) & ({x} < {y})", f"{x}.bool()",
        f"ad.sign({x})", f"ad.floor({x})", f"ad.ceil({x})", f"ad.round({x})", f"ad.trunc({x})", f"{x}.long()",
        f"{x}.int()", f"ad.argmax({x})", f"ad.argmax({x}, {d})", f"ad.argmin({x}, {d}, keepdim=True)",
        f"ad.sort({x}, {d}, stable=True)[1]", f"ad.isfinite({x})", f"ad.logical_not({x})",
        f"ad.logical_xor({x}, {x} > {y})",
        f"ad.remainder({x}, 1.5)", f"ad.fmod({x}, 1.5)", f"{x} // 2", f"{x} % 2", f"ad.any({x} > {y})",
        f"ad.all({x} < 2, {d})",
        f"ad.count_nonzero({x}, {d})", f"F.one_hot(ad.abs({x}).long().clamp(0, 3), 4)",
        f"ad.isclose({x}, {x} * 0 + {y})",
        f"ad.max({x}, {d})[1]", f"ad.cummax({x}, {d})[1]", f"ad.heaviside({x}, {x} * 0)", f"ad.frac({x})",
        f"ad.signbit({x})", f"ad.copysign({x}, {x} * 0 + {y})",
    ]))  # fmt: skip


VALUES: dict[str, list[Template]] = {
    "exact": [_binary, _binary, _unary, _fold, _product, _joined],
    "rough": [_smooth, _smooth, _smooth_of_two, _smooth_fold, _random, _transformed],
}
SHARP: list[Template] = [_compared]


def _write(a: Any, x: str, v: Any) -> str:
    s, kind = tuple(v.shape), kind_of(v)
    if kind == "b":
        return str(
            a.one_of(
                [f"{x}.logical_not_()", f"{x}.fill_(True)", f"{x}.logical_and_({condition(a, v)})", f"{x}.zero_()"]
            )
        )
    if kind in "iu":
        return str(
            a.one_of(
                [
                    f"{x}.add_(1)",
                    f"{x}.mul_(0)",
                    f"{x}.fill_(2)",
                    f"{x}.clamp_(0, 2)",
                    f"{x}.masked_fill_({condition(a, v)}, 1)",
                ]
            )
        )
    y = a.fitting(s)
    return str(a.one_of([
        f"{x}.add_({y})", f"{x}.sub_({y}, alpha=2)", f"{x}.mul_({y})", f"{x}.div_({y} * {y} + 1.0)", f"{x}.mul_({x})",
        f"{x}.copy_({x} * 0 + {y})", f"{x}.fill_({a.number()})", f"{x}.zero_()", f"{x} += {y}", f"{x} *= {y}",
        f"{x} -= {y}",
        f"{x}.clamp_(-1.0, 1.0)", f"{x}.masked_fill_({condition(a, v)}, 0.25)", f"{x}.tanh_()", f"{x}.sin_()",
        f"{x}.neg_()",
        f"{x}.add_({y}).mul_(0.5)", f"F.relu({x}, inplace=True)", f"F.leaky_relu({x}, 0.2, inplace=True)",
        f"{x}.abs_()",
        f"{x}.lerp_({x} * 0 + {y}, 0.25)", f"{x}.addcmul_({x}, {x} * 0 + {y}, value=0.5)", f"{x}.uniform_(-1, 1)",
        f"{x}.clone().mul_({y})", f"F.dropout({x}, 0.4, inplace=True)", f"{x}.normal_()", f"{x}.sigmoid_()",
    ]))  # fmt: skip


def _write_at(a: Any, x: str, v: Any) -> str | None:
    if not v.ndim or not v.numel() or kind_of(v) != "f":
        return None
    s, d = tuple(v.shape), dim_of(a, v)
    n = s[d]
    at = a.random.sample(range(n), a.random.randint(1, n))
    part = (*s[: d % v.ndim], len(at), *s[d % v.ndim + 1 :])
    p = f"data({part}, {a.random.randrange(1000)}, '{v.dtype.name}')"
    first = a.random.sample(range(s[0]), a.random.randint(1, s[0]))
    value = f"data({s[1:]}, {a.random.randrange(1000)}, '{v.dtype.name}')"
    zeros = f"ad.zeros({s}, dtype=ad.int64)"
    return str(a.one_of([
        f"{x}.tril_()" if v.ndim > 1 else f"{x}.neg_()", f"{x}.scatter_add_({d}, {zeros}, {x}.detach().clone())",
        f"{x}.index_put_((ad.tensor({first}),), {value})",
        f"{x}.index_put_((ad.tensor({first}),), {value}, accumulate=True)",
        f"{x}.index_add_({d}, ad.tensor({at}), {p})", f"{x}.index_copy_({d}, ad.tensor({at}), {p})",
        f"{x}.index_fill_({d}, ad.tensor({at}), 0.5)", f"{x}.scatter_({d}, {zeros}, 0.5)",
        f"{x}.fill_diagonal_(0.5)" if v.ndim == 2 else f"{x}.neg_()", f"{x}.cumsum_({d})",
        f"{x}[{first[0]}] = {x}[{first[-1]}] * 0.5",
    ]))  # fmt: skip


WRITES: list[Template] = [_write, _write, _write_at]

# Each takes (…, 4).
MODELS = [
    "nn.Linear(4, 3)", "nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))",
    "nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 1))",
    "nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4), nn.SiLU(), nn.Linear(4, 4, bias=False))",
    "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.LogSoftmax(-1))",
    "nn.Sequential(nn.Unflatten(-1, (1, 4)), nn.Conv1d(1, 2, 3, padding=1), nn.Sigmoid(), nn.Flatten(-2))",
    "nn.Sequential(nn.Linear(4, 4), nn.Softplus(), nn.Softmax(-1))",
]  # fmt: skip
