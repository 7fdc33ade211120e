"""Every module, compiled: forward and whole training steps give what they give eagerly, to all that they touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.steps import facts, same_facts

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")


class Classes(NamedTuple):
    """Stands for an input of class indices."""

    below: int
    shape: tuple[int, ...]


class Unit(NamedTuple):
    """Stands for an input of numbers in (0, 1)."""

    shape: tuple[int, ...]


class Signs(NamedTuple):
    """Stands for an input of 1 and -1."""

    shape: tuple[int, ...]


class Places(NamedTuple):
    """Stands for the places of elements in a tensor of this shape, the last size `spread` times as large."""

    shape: tuple[int, ...]
    spread: int


class Lengths(NamedTuple):
    """Stands for an input of these integers."""

    values: tuple[int, ...]


LAZY = ("Conv", "ConvTranspose", "InstanceNorm")
ROWS, SEQUENCE, TIMES, IMAGE, VOLUME = (6, 4), (3, 4, 7), (5, 3, 4), (3, 4, 6, 5), (2, 2, 3, 4, 5)
WEIGHTS = "ad.tensor([0.5, 1.0, 2.0, 0.25], dtype=floating)"
# The modules that take inputs of these kinds.
MODULES: list[tuple[tuple[Any, ...], list[str]]] = [
    ((ROWS,), [
        "Identity()", "Linear(4, 3)", "BatchNorm1d(4)", "BatchNorm1d(4, affine=False, momentum=0.3)",
        "BatchNorm1d(4, track_running_stats=False)", "BatchNorm1d(4, momentum=None)",
        "LayerNorm(4, elementwise_affine=False)", "LayerNorm([4], bias=False)", "Dropout(0.2, inplace=True)",
        "Dropout(0.0)", "Dropout(1.0)", "Softmin(dim=1)", "ReLU()", "ReLU(inplace=True)", "LeakyReLU(0.2)",
        "LeakyReLU(0.2, inplace=True)", "ReLU6()", "ELU(alpha=0.5)", "SELU()", "GELU()", "GELU(approximate='tanh')",
        "SiLU()", "Tanh()", "Tanhshrink()", "Sigmoid()", "LogSigmoid()", "Hardtanh(-0.5, 0.25)", "Softplus()",
        "Softplus(2.0, 1.0)", "Softmax(dim=1)", "LogSoftmax(dim=0)",
        "Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))", "CELU(0.5)", "GLU()", "Hardshrink(0.3)",
        "Hardsigmoid()", "Hardswish()", "Mish()", "PReLU()", "Softshrink(0.2)", "Softsign()", "Threshold(0.1, -1.0)",
        "GroupNorm(1, 4, bias=False)", "RMSNorm(4)", "RNNCell(4, 3)", "LSTMCell(4, 3, bias=False)", "LSTM(4, 3)",
        "AlphaDropout(0.3)", "DataParallel(nn.Linear(4, 3))", "RReLU()",
    ]),
    ((IMAGE,), [
        "Linear(5, 2, bias=False)", "Conv2d(4, 6, 3)", "Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2))",
        "Conv2d(4, 4, 3, padding=1, groups=4, bias=False)", "MaxPool2d(2)",
        "MaxPool2d(3, stride=2, padding=1, ceil_mode=True)", "MaxPool2d((3, 2), return_indices=True)", "AvgPool2d(2)",
        "AvgPool2d(3, 2, 1, ceil_mode=True)", "BatchNorm2d(4, eps=1e-3)", "BatchNorm2d(4, bias=False)",
        "LayerNorm(5)", "LayerNorm((6, 5), eps=1e-3)", "Dropout()",
        "InstanceNorm2d(4, affine=True, track_running_stats=True)", "Flatten()", "Flatten(0, 2)",
        "Unflatten(1, (2, 2))", "Softmax(-2)", "GLU(1)", "PReLU(4)", "Softmax2d()", "Dropout2d()",
        "Unfold((2, 3), stride=2)", "GroupNorm(2, 4)", "RMSNorm((6, 5), 1e-3, False)", "Upsample(9)",
        "Upsample(scale_factor=2, mode='bilinear')", "UpsamplingNearest2d((3, 4))",
        "UpsamplingBilinear2d(scale_factor=(2, 3))", "AdaptiveAvgPool2d((2, None))", "AdaptiveAvgPool2d(1)",
        "PixelShuffle(2)", "PixelUnshuffle(1)", "ConstantPad2d((1, 2, 3, 4), 1)", "ZeroPad2d((1, 0, -1, 0))",
        "AdaptiveMaxPool2d((4, None), return_indices=True)", "AvgPool2d(3, 2, 1, count_include_pad=False)",
        "ChannelShuffle(2)", "CircularPad2d(2)", "ConvTranspose2d(4, 6, 3, 2, 1, groups=2, dilation=2)",
        "CrossMapLRN2d(4)", "FeatureAlphaDropout(0.3)", "FractionalMaxPool2d(2, (3, 3))",
        "LPPool2d(3, 2, ceil_mode=True)", "LocalResponseNorm(3, 0.5)", "ReflectionPad2d((1, 2, -1, 3))",
        "ReplicationPad2d(1)", "SyncBatchNorm(4)",
    ]),
    (((4,),), ["Linear(4, 1)"]),
    (((0, 4),), ["Linear(4, 3)"]),
    ((SEQUENCE,), [
        "Conv1d(4, 6, 3)", "Conv1d(4, 6, 2, stride=2, padding=1, groups=2)",
        "Conv1d(4, 2, 3, padding='same', dilation=2, bias=False)", "MaxPool1d(2)", "MaxPool1d(3, 1, 1)",
        "AvgPool1d(2)", "AvgPool1d(3, 2, 1)", "BatchNorm1d(4)", "InstanceNorm1d(4)", "Dropout1d(0.3)",
        "GroupNorm(4, 4, affine=False)", "Upsample(5, mode='linear', align_corners=True)", "AdaptiveAvgPool1d(3)",
        "ConstantPad1d(2, 0.5)", "ZeroPad1d(1)", "AdaptiveMaxPool1d(3)", "CircularPad1d((1, 2))",
        "Conv1d(4, 3, 3, padding=1, padding_mode='circular')", "ConvTranspose1d(4, 6, 3, stride=2, output_padding=1)",
        "LPPool1d(2, 3)", "ReflectionPad1d(2)", "ReplicationPad1d((3, 0))",
    ]),
    ((Classes(4, (6,)),), ["Embedding(4, 3)", "Embedding(4, 3, max_norm=1.0, scale_grad_by_freq=True)"]),
    ((Classes(4, (2, 3)),), [
        "Embedding(4, 16, padding_idx=2)", "EmbeddingBag(4, 3, mode='sum', padding_idx=1)",
        "EmbeddingBag(4, 3, mode='max')",
    ]),
    ((ROWS, Classes(4, (6,))), [
        "CrossEntropyLoss()", "CrossEntropyLoss(reduction='sum', ignore_index=1, label_smoothing=0.1)", "NLLLoss()",
        f"NLLLoss({WEIGHTS}, reduction='none')", "MultiMarginLoss(2, 0.5)",
    ]),
    ((ROWS, Unit(ROWS)), [
        "CrossEntropyLoss()", "BCEWithLogitsLoss()", f"BCEWithLogitsLoss(pos_weight={WEIGHTS}, reduction='none')",
        "KLDivLoss(reduction='batchmean')", "PoissonNLLLoss(full=True)",
    ]),
    ((IMAGE, Classes(4, (3, 6, 5))), [f"CrossEntropyLoss({WEIGHTS})"]),
    ((ROWS, ROWS), [
        "MSELoss()", "MSELoss(reduction='none')", "L1Loss(reduction='sum')", "SmoothL1Loss(beta=0.4)",
        "HuberLoss('sum', 0.4)", "CosineSimilarity()", "PairwiseDistance(keepdim=True)",
        "KLDivLoss(reduction='sum', log_target=True)", "Bilinear(4, 4, 3)", "Bilinear(4, 4, 3, bias=False)",
    ]),
    ((Unit(ROWS), Unit(ROWS)), ["BCELoss()", f"BCELoss(weight={WEIGHTS})"]),
    ((VOLUME,), [
        "Dropout3d(0.4)", "Conv3d(2, 3, 2, padding=1)", "BatchNorm3d(2)", "InstanceNorm3d(2)", "AdaptiveAvgPool3d(2)",
        "ConstantPad3d(1, 1.0)", "ZeroPad3d(2)", "AdaptiveMaxPool3d(2)", "AvgPool3d(2, 2, 1, divisor_override=3)",
        "CircularPad3d(1)", "ConvTranspose3d(2, 3, 2, bias=False)", "FractionalMaxPool3d(2, 2)", "LPPool3d(2, 2)",
        "MaxPool3d(2, 1, 1)", "ReflectionPad3d(1)", "ReplicationPad3d(2)",
    ]),
    ((ROWS, Signs(ROWS)), ["HingeEmbeddingLoss()", "SoftMarginLoss()"]),
    ((ROWS, ROWS, Signs(ROWS)), ["MarginRankingLoss(0.2)"]),
    ((ROWS, ROWS, Signs((6,))), ["CosineEmbeddingLoss(0.1)"]),
    ((ROWS, ROWS, ROWS), [
        "TripletMarginLoss(swap=True)", "MultiheadAttention(4, 2, bias=False, add_bias_kv=True, add_zero_attn=True)",
        "TripletMarginWithDistanceLoss(margin=0.5)",
    ]),
    ((ROWS, (6, 3)), ["RNNCell(4, 3, nonlinearity='relu')", "GRUCell(4, 3)"]),
    ((TIMES,), [
        "RNN(4, 3)", "LSTM(4, 3)", "LSTM(4, 3, 2, batch_first=True, bidirectional=True, dropout=0.4)",
        "LSTM(4, 5, proj_size=2, bias=False)", "GRU(4, 3, 2, bidirectional=True)", "TransformerEncoderLayer(4, 2, 5)",
        "TransformerEncoderLayer(4, 2, 5, 0.3, 'gelu', batch_first=True, norm_first=True)",
        "TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5), 2)",
    ]),
    ((TIMES, (4, 3, 3)), ["RNN(4, 3, 2, 'relu', bidirectional=True, dropout=0.4)"]),
    ((TIMES, (1, 3, 3)), ["GRU(4, 3)"]),
    ((TIMES, TIMES, TIMES), ["MultiheadAttention(4, 2)", "MultiheadAttention(4, 2, 0.4, batch_first=True)"]),
    ((TIMES, (2, 3, 3), (2, 3, 2)), ["MultiheadAttention(4, 2, kdim=3, vdim=2)"]),
    ((TIMES, (2, 3, 4)), ["TransformerDecoderLayer(4, 2, 5, 0.0, bias=False)", "Transformer(4, 2, 1, 1, 5, 0.0)"]),
    ((TIMES, TIMES), [
        "TransformerDecoderLayer(4, 2, 5, batch_first=True, norm_first=True)",
        "TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, 0.0), 2, nn.LayerNorm(4))",
    ]),
    (((5, 2, 4), Classes(3, (2, 2)), Lengths((5, 4)), Lengths((2, 1))), ["CTCLoss()"]),
    (((2, 4, 20),), ["Fold((6, 5), (2, 2))"]),
    ((ROWS, ROWS, Unit(ROWS)), ["GaussianNLLLoss(full=True)"]),
    ((ROWS, Classes(3, (6,))), ["LinearCrossEntropyLoss(4, 3)"]),
    ((SEQUENCE, Places((3, 4, 7), 2)), ["MaxUnpool1d(2)"]),
    ((IMAGE, Places(IMAGE, 1)), ["MaxUnpool2d(1)"]),
    ((VOLUME, Places(VOLUME, 1)), ["MaxUnpool3d(1)"]),
    ((ROWS, Classes(4, ROWS)), ["MultiLabelMarginLoss()"]),
    ((ROWS, Classes(2, ROWS)), ["MultiLabelSoftMarginLoss()"]),
]  # fmt: skip
BESIDES = {  # classes which no line above can make by itself
    "Module": "every line is one",
    "ModuleList": "test_containers_of_modules",
    "ModuleDict": "test_containers_of_modules",
    "ParameterList": "test_containers_of_modules",
    "AdaptiveLogSoftmaxWithLoss": "which clusters it computes depends on the targets: nn/containers/test_containers.py",
    "Container": "warns, and has no forward",
    "LazyBatchNorm1d": "is a BatchNorm1d after its first call, and so the others; nn/layers/test_lazy.py",
    **{f"LazyBatchNorm{rank}d": "see LazyBatchNorm1d" for rank in (2, 3)},
    **{f"Lazy{kind}{rank}d": "see LazyBatchNorm1d" for kind in LAZY for rank in (1, 2, 3)},
    "LazyLinear": "see LazyBatchNorm1d",
    "NLLLoss2d": "is NLLLoss, and warns",
    "ParameterDict": "test_containers_of_modules",
    "RNNBase": "RNN, LSTM and GRU are one",
    "RNNCellBase": "RNNCell, LSTMCell and GRUCell are one",
}
CASES = [(text, inputs) for inputs, texts in MODULES for text in texts]
IDS = [f"{i}: {text}" for i, (text, _) in enumerate(CASES)]
FLOATS = {"float32": ad.float32, "float64": ad.float64}


def some_by_day(*chosen: tuple[str, str], others: list[str]) -> list[Any]:
    """Each float type with each of the others: the chosen pairs always, the rest nightly."""
    pairs = [(floating, other) for floating in FLOATS for other in others]
    marks = {pair: () if pair in chosen else (pytest.mark.nightly,) for pair in pairs}
    return [pytest.param(FLOATS[f], other, marks=marks[f, other], id=f"{f}-{other}") for f, other in pairs]


CALLS = 3


class Around(nn.Module):
    """y = module(sin(gain · x), …): something to train for every module, and no norm can undo it."""

    def __init__(self, module: Any, scales: bool) -> None:
        super().__init__()
        self.module = module
        self.gain = nn.Parameter(ad.tensor(1.25)) if scales else None

    def forward(self, x: Any, *others: Any) -> Any:
        return self.module(x if self.gain is None else (x * self.gain).sin(), *others)


def made(text: str, inputs: tuple[Any, ...], floating: Any, training: bool) -> Any:
    """The module of a line of the table, the same each time."""
    ad.manual_seed(7)
    module = eval(f"nn.{text}", {"nn": nn, "ad": ad, "floating": floating})
    model = Around(module, scales=not isinstance(inputs[0], Classes))
    return model.to(floating).train(training)


def given(inputs: tuple[Any, ...], floating: Any, call: int) -> list[Any]:
    """Tensors for one call."""
    numbers = np.random.default_rng(call)
    tensors = []
    for what in inputs:
        if isinstance(what, Classes):
            tensors.append(ad.from_numpy(numbers.integers(0, what.below, what.shape)))
        elif isinstance(what, Lengths):
            tensors.append(ad.tensor(what.values))
        elif isinstance(what, Places):
            lead, count = what.shape[:2], int(np.prod(what.shape[2:]))
            rows = [numbers.permutation(count * what.spread)[:count] for _ in range(int(np.prod(lead)))]
            tensors.append(ad.from_numpy(np.stack(rows).reshape(what.shape)))
        elif isinstance(what, Signs):
            tensors.append(ad.from_numpy(numbers.choice([-1, 1], what.shape)))
        elif isinstance(what, Unit):
            tensors.append(ad.from_numpy(numbers.uniform(0.05, 0.95, what.shape).astype(np.float32)).to(floating))
        else:
            tensors.append(ad.from_numpy(numbers.normal(size=what).astype(np.float32)).to(floating))
    return tensors


def training_step(model: Any, optimizer: Any) -> Callable[..., Any]:
    """zero_grad, forward, a loss, backward, step."""

    def step(*tensors: Any) -> Any:
        optimizer.zero_grad()
        out = model(*tensors)
        loss = weighted(out)
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        return loss, out

    return step


def weighted(out: Any) -> Any:
    """A loss in which every element has a weight of its own."""
    first = out[0] if isinstance(out, tuple) else out
    return (first * ad.arange(first.numel(), dtype=first.dtype).cos().reshape(first.shape)).sum()


@pytest.fixture(params=FLOATS)
def floating(request: pytest.FixtureRequest) -> Any:
    return FLOATS[request.param]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: optim.SGD(parameters, lr=2e-3, momentum=0.9),
    "adam": lambda parameters: optim.Adam(parameters, lr=1e-2, eps=1e-3),  # a gradient of rounding alone moves little
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("floating", "mode"), some_by_day(("float32", "train"), ("float64", "eval"), others=["train", "eval"])
)
@pytest.mark.parametrize(("text", "inputs"), CASES, ids=IDS)
def test_forward(text: str, inputs: Any, mode: str, floating: Any) -> None:
    def make(dtype: Any) -> Any:
        model = made(text, inputs, dtype, mode == "train")
        return model, (model,)

    with ad.no_grad():
        agree(make, inputs, floating)


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("floating", "optimizer"), some_by_day(("float32", "adam"), ("float64", "sgd"), others=[*OPTIMIZERS])
)
@pytest.mark.parametrize(("text", "inputs"), CASES, ids=IDS)
def test_whole_training_step(text: str, inputs: Any, optimizer: str, floating: Any) -> None:
    def make(dtype: Any) -> Any:
        model = made(text, inputs, dtype, True)
        updates = OPTIMIZERS[optimizer](model.parameters())
        return training_step(model, updates), (model, updates)

    agree(make, inputs, floating, sums=True)


def agree(make: Callable[[Any], Any], inputs: Any, floating: Any, sums: bool = False) -> None:
    """Run what `make` makes of a dtype, eagerly and compiled, and compare all that there is to see after each call."""
    eager, ours = make(floating), make(floating)
    compiled = ad.compile(ours[0])
    precise = make(ad.float64)
    others = [make(floating) for _ in range(NEIGHBOURS)]
    for call in range(CALLS):
        tensors = given(inputs, floating, call)
        expected = run(*eager, tensors, call)
        got = run(compiled, ours[1], given(inputs, floating, call), call)
        if floating is ad.float64:
            same_facts(got, expected, sums=sums)
            continue
        exact = run(*precise, given(inputs, ad.float64, call), call)
        numbers = np.random.default_rng(call)
        nudged = [run(*other, [neighbour(x, numbers) for x in tensors], call) for other in others]
        same_facts(got, expected, exact, *nudged, sums=sums)
    assert compiled.compilations == 1


NEIGHBOURS = 3  # one or two may hide by chance how far rounding moves a sum whose terms cancel


def neighbour(tensor: Any, numbers: Any) -> Any:
    """The tensor, each float replaced by the next one, up or down."""
    if not isinstance(tensor, ad.Tensor) or not tensor.is_floating_point():
        return tensor
    values = tensor.detach().numpy()
    limits = np.where(numbers.integers(0, 2, values.shape), np.inf, -np.inf).astype(values.dtype)
    return ad.from_numpy(np.nextafter(values, limits)).requires_grad_(tensor.requires_grad)


def run(function: Any, state: Any, tensors: list[Any], seed: int) -> list[tuple[str, Any]]:
    """The facts after one call."""
    ad.manual_seed(seed)
    return facts(function(*tensors), tensors, *state)


EDGES = [np.nan, np.inf, 1e-40, *(pytest.param(x, marks=pytest.mark.nightly) for x in (-np.inf, -0.0, -3e38, 90.0))]


@pytest.mark.sweep(9)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("text", "inputs"), CASES, ids=IDS)
def test_an_edge_among_the_inputs(text: str, inputs: Any, edge: float) -> None:
    """NaN and infinities come out, and gradients of them, where they do eagerly."""
    shapes = [what for what in inputs if not isinstance(what, (Classes, Lengths, Places))]
    if not shapes or text.startswith("BCELoss"):
        return  # indices, or probabilities, which are checked

    def step(model: Any) -> Callable[..., Any]:
        def run(x: Any, *others: Any) -> Any:
            x = x.detach().requires_grad_()
            out = model(x, *others)
            return out, ad.autograd.grad(weighted(out), x)

        return run

    def seen(compiles: Callable[..., Any], dtype: Any) -> Any:
        ad.manual_seed(0)
        x, *others = given(inputs, ad.float32, 0)
        x.view(-1)[x.numel() // 2 :][:1] = edge
        tensors = [x.to(dtype), *(t.to(dtype) if t.is_floating_point() else t for t in others)]
        model = made(text, inputs, dtype, True)
        with np.errstate(all="ignore"):
            return facts(compiles(step(model))(*tensors), others, model)

    same_facts(seen(ad.compile, ad.float32), seen(lambda f: f, ad.float32), seen(lambda f: f, ad.float64))


class Mixture(nn.Module):
    """Every kind of container."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4))})
        self.scales = nn.ParameterList([ad.full((4,), 0.5), ad.ones(())])
        self.offset = nn.Buffer(ad.ones(4))
        self.gains = nn.ParameterDict({"a": ad.full((4,), 1.5)})

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        named = [part(x) * scale for part, scale in zip(self.named.values(), self.scales, strict=True)]
        return sum(named) * self.gains["a"] + self.offset


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_containers_of_modules(optimizer: str, floating: Any) -> None:
    def make(dtype: Any) -> Any:
        ad.manual_seed(0)
        model = Mixture().to(dtype)
        updates = OPTIMIZERS[optimizer](model.parameters())
        return training_step(model, updates), (model, updates)

    agree(make, (ROWS,), floating)


def test_the_table_names_every_module() -> None:
    classes = {n for n in dir(nn) if isinstance(c := getattr(nn, n), type) and issubclass(c, nn.Module)}
    named = {text.partition("(")[0] for text, _ in CASES}
    assert classes == named | set(BESIDES)
