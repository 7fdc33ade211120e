"""Random steps whose sizes follow from two integers and from the length of a tensor, others in each call.

A step is an expression of matrices. Each of its ops cuts, joins, moves or computes so that the size of what it gives
may depend on `n`, `m` or `len(v)`; whatever these are, it is defined.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

MAX_DEPTH = 5
ROWS, COLUMNS = 24, 10  # of `x`, `y` and `w`; `v` has as many columns
Draw = Callable[[], str]

HELPERS = """
import adjoint as ad
import adjoint.nn.functional as F


def fit(a, b, function):
    rows, columns = min(a.shape[0], b.shape[0]), min(a.shape[1], b.shape[1])
    return function(a[:rows, :columns], b[:rows, :columns])


def multiply(a, b):
    size = min(a.shape[1], b.shape[0])
    return a[:, :size] @ b[:size] * 0.2


def put(a, where, value):
    a = a.clone()
    a[where] = value
    return a


def add_turns(a, turns):
    for turn in range(turns):
        a = a + a.roll(turn, 0) * 0.1
    return a


def draw_windows(a, size):
    size = min(size, a.shape[0])
    return a.unfold(0, size, 1).mean(-1)


def convolve(a, taps):
    kernel = ad.ones(1, 1, taps) / taps
    return F.conv1d(F.pad(a.T, (taps - 1, 0)).unsqueeze(1), kernel).squeeze(1).T


def attend(a, b):
    size = min(a.shape[1], b.shape[1])
    q, k = a[:, :size], b[:, :size]
    mask = ad.arange(q.shape[0])[:, None] < ad.arange(k.shape[0]) - 1
    return (q @ k.T * 0.1).masked_fill(mask, -9.0).softmax(1) @ k


def pack(parts):
    size = min(part.shape[1] for part in parts)
    return ad.cat([part[:, :size] for part in parts], 0)
"""

# `{a}` and `{b}` stand for matrices, `{i}` for an integer, `{0..3}` for one in this range; `{d}` for a dimension.
OPS = """
{a}[{0..5}:]
{a}[:{1..20}]
{a}[{0..2}:{3..9}]
{a}[:, {0..1}:]
{a}[::{1..3}]
{a}[{0..1}:, :{1..9}]
{a}.narrow(0, 0, min({a:same}.shape[0], {1..4}))
{a}[-{1..4}:]
{a}[ad.arange({1..6}) % 2 % {a:same}.shape[0]]
{a}.index_select(0, ad.arange({1..5}) % {a:same}.shape[0])
{a}.gather(0, ad.arange({1..5}).unsqueeze(1).expand(-1, {a:same}.shape[1]) % {a:same}.shape[0])
pack([{a}, {b}])
pack([{a}, {b}[:{1..3}], {a:same}])
ad.stack([{a}, {a:same} * 0.5], 1).flatten(0, 1)
ad.stack([{a}, {a:same} * 0.5], {d}).sum({d})
fit({a}, {b}, lambda a, b: a * b)
fit({a}, {b}, lambda a, b: a + b.sigmoid())
fit({a}, {b}, ad.maximum)
{a}.tanh()
{a}.softmax({d})
{a}.cumsum({d})
{a}.flip({d})
{a}.T
{a} - {a:same}.mean({d}, keepdim=True)
{a} / {a:same}.square().mean().add(1.0).sqrt()
{a}.sum(0, keepdim=True) + {b}[:, :1]
F.pad({a}, (0, {0..3}, {0..2}, 0))
F.pad({a}, ({0..2}, 0, 0, {0..2}), value={0..3} * 0.1)
ad.roll({a}, {i}, {d})
{a}.repeat({1..3}, 1)
{a}.repeat_interleave({1..3}, 0)
{a}[None].expand({1..3}, -1, -1).reshape(-1, {a:same}.shape[1])
{a} * ad.arange({1..12}, dtype=ad.float32).mean()
{a} * ad.arange({a:same}.shape[0], dtype=ad.float32).unsqueeze(1) / {a:same}.shape[0]
{a} + ad.linspace(0, 1, {a:same}.shape[0]).unsqueeze(1)
{a} / ({i} ** 2 + 1)
{a} * {a:same}.shape[0] / (len(v) + 1)
multiply({a}, {b})
multiply({a}, {a:same}.T)
put({a}, {i} % {a:same}.shape[0], 0.5)
put({a}, slice({0..2}, {3..6}), 0.25)
put({a}, slice(None, {1..4}), 0.5 * {a:same}[:{1..4:same}])
ad.where({a} > {i} * 0.1, 0.5, {a:same} * 2)
{a}.masked_fill(ad.arange({a:same}.shape[0]).unsqueeze(1) < {i}, 0.5)
{a}.tril({i} % 5)
{a}.clamp(-abs({i}), 1.0)
{a}.sort({d})[0]
{a}.topk(min({1..3}, {a:same}.shape[1]), 1)[0]
{a}.chunk({1..3}, 0)[0]
{a}.split({1..5}, 0)[-1]
ad.cat([part * (j + 1) for j, part in enumerate({a}.split({2..7}, 0))], 0)
add_turns({a}, {0..2})
draw_windows({a}, {1..4})
convolve({a}, {1..3})
attend({a}, {b})
ad.einsum("ij,kj->ik", {a}, {a:same}[:{1..5}])
F.layer_norm({a}, {a:same}.shape[1:])
{a}.amax({d}, keepdim=True) * {a:same}
{a}.unsqueeze({d}).transpose(0, 1).reshape({a:same}.shape[::-1]).T
{a}.reshape(-1)[: {a:same}.numel() // 2 * 2].view(2, -1)
{a}.diagonal().unsqueeze(1) * {b}[:1]
""".strip().splitlines()


def write_step(number: int) -> str:
    """Return the text of a random step, `step(n, m, v)`."""
    draw = Random(number)
    lines = ["def step(n, m, v):", "    for leaf in (x, w):", "        leaf.grad = None"]
    lines.append(f"    loss = ({_write_matrix(draw, draw.randrange(2, MAX_DEPTH + 1))}).square().mean()")
    if draw.random() < 0.4:
        lines.append(f"    loss = loss + ({_write_matrix(draw, draw.randrange(1, 4))}).sin().sum() * 0.1")
    if draw.random() < 0.3:
        lines.append(f"    if {_write_integer(draw)} > {_write_integer(draw)}:\n        loss = loss * 2")
    lines.append("    loss = loss + 0 * (x.sum() + w.sum())")
    lines.append("    loss.backward()\n    return loss, x.grad, w.grad")
    return "\n".join(lines)


def _write_matrix(draw: Random, depth: int) -> str:
    if depth == 0:
        return draw.choice("xyxwv")
    text, known = draw.choice(OPS), dict[str, str]()
    while "{" in text:
        begin, _, rest = text.partition("{")
        name, _, end = rest.partition("}")
        kind = name.removesuffix(":same")
        if name == kind:
            known[kind] = _write_part(draw, kind, depth)
        text = begin + known.setdefault(kind, _write_part(draw, kind, depth)) + end
    return text


def _write_part(draw: Random, kind: str, depth: int) -> str:
    if kind in ("a", "b"):
        return f"({_write_matrix(draw, draw.randrange(depth))})"
    if kind == "i":
        return _write_integer(draw)
    if kind == "d":
        return str(draw.randrange(2))
    low, high = kind.split("..")
    return f"({low} + {_write_integer(draw)} % {int(high) - int(low) + 1})"


def _write_integer(draw: Random, depth: int = 0) -> str:
    a = draw.choice(["n", "m", "n", "m", "len(v)", str(draw.randrange(1, 9))])
    if depth == 2 or draw.random() < 0.3:
        return a
    b = _write_integer(draw, depth + 1)
    forms = ("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "min({}, {})")
    if draw.random() < 0.3:
        return f"({b} {draw.choice(('//', '%'))} {draw.randrange(2, 9)})"
    return draw.choice(forms).format(a, b)
