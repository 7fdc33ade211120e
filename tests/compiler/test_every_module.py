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
MODULES: list[tuple[str, tuple[Any, ...]]] = [
    ("Identity()", (ROWS,)),
    ("Linear(4, 3)", (ROWS,)),
    ("Linear(5, 2, bias=False)", (IMAGE,)),
    ("Linear(4, 1)", ((4,),)),
    ("Linear(4, 3)", ((0, 4),)),
    ("Conv1d(4, 6, 3)", (SEQUENCE,)),
    ("Conv1d(4, 6, 2, stride=2, padding=1, groups=2)", (SEQUENCE,)),
    ("Conv1d(4, 2, 3, padding='same', dilation=2, bias=False)", (SEQUENCE,)),
    ("Conv2d(4, 6, 3)", (IMAGE,)),
    ("Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2))", (IMAGE,)),
    ("Conv2d(4, 4, 3, padding=1, groups=4, bias=False)", (IMAGE,)),
    ("MaxPool1d(2)", (SEQUENCE,)),
    ("MaxPool1d(3, 1, 1)", (SEQUENCE,)),
    ("MaxPool2d(2)", (IMAGE,)),
    ("MaxPool2d(3, stride=2, padding=1, ceil_mode=True)", (IMAGE,)),
    ("MaxPool2d((3, 2), return_indices=True)", (IMAGE,)),
    ("AvgPool1d(2)", (SEQUENCE,)),
    ("AvgPool1d(3, 2, 1)", (SEQUENCE,)),
    ("AvgPool2d(2)", (IMAGE,)),
    ("AvgPool2d(3, 2, 1, ceil_mode=True)", (IMAGE,)),
    ("BatchNorm1d(4)", (ROWS,)),
    ("BatchNorm1d(4)", (SEQUENCE,)),
    ("BatchNorm1d(4, affine=False, momentum=0.3)", (ROWS,)),
    ("BatchNorm1d(4, track_running_stats=False)", (ROWS,)),
    ("BatchNorm1d(4, momentum=None)", (ROWS,)),
    ("BatchNorm2d(4, eps=1e-3)", (IMAGE,)),
    ("BatchNorm2d(4, bias=False)", (IMAGE,)),
    ("LayerNorm(5)", (IMAGE,)),
    ("LayerNorm((6, 5), eps=1e-3)", (IMAGE,)),
    ("LayerNorm(4, elementwise_affine=False)", (ROWS,)),
    ("LayerNorm([4], bias=False)", (ROWS,)),
    ("Dropout()", (IMAGE,)),
    ("Dropout(0.2, inplace=True)", (ROWS,)),
    ("Dropout(0.0)", (ROWS,)),
    ("Dropout(1.0)", (ROWS,)),
    ("Embedding(4, 3)", (Classes(4, (6,)),)),
    ("Embedding(4, 16, padding_idx=2)", (Classes(4, (2, 3)),)),
    ("InstanceNorm1d(4)", (SEQUENCE,)),
    ("InstanceNorm2d(4, affine=True, track_running_stats=True)", (IMAGE,)),
    ("Softmin(dim=1)", (ROWS,)),
    ("Flatten()", (IMAGE,)),
    ("Flatten(0, 2)", (IMAGE,)),
    ("Unflatten(1, (2, 2))", (IMAGE,)),
    ("ReLU()", (ROWS,)),
    ("ReLU(inplace=True)", (ROWS,)),
    ("LeakyReLU(0.2)", (ROWS,)),
    ("LeakyReLU(0.2, inplace=True)", (ROWS,)),
    ("ReLU6()", (ROWS,)),
    ("ELU(alpha=0.5)", (ROWS,)),
    ("SELU()", (ROWS,)),
    ("GELU()", (ROWS,)),
    ("GELU(approximate='tanh')", (ROWS,)),
    ("SiLU()", (ROWS,)),
    ("Tanh()", (ROWS,)),
    ("Tanhshrink()", (ROWS,)),
    ("Sigmoid()", (ROWS,)),
    ("LogSigmoid()", (ROWS,)),
    ("Hardtanh(-0.5, 0.25)", (ROWS,)),
    ("Softplus()", (ROWS,)),
    ("Softplus(2.0, 1.0)", (ROWS,)),
    ("Softmax(dim=1)", (ROWS,)),
    ("Softmax(-2)", (IMAGE,)),
    ("LogSoftmax(dim=0)", (ROWS,)),
    ("CrossEntropyLoss()", (ROWS, Classes(4, (6,)))),
    ("CrossEntropyLoss()", (ROWS, Unit(ROWS))),
    ("CrossEntropyLoss(reduction='sum', ignore_index=1, label_smoothing=0.1)", (ROWS, Classes(4, (6,)))),
    (f"CrossEntropyLoss({WEIGHTS})", (IMAGE, Classes(4, (3, 6, 5)))),
    ("NLLLoss()", (ROWS, Classes(4, (6,)))),
    (f"NLLLoss({WEIGHTS}, reduction='none')", (ROWS, Classes(4, (6,)))),
    ("MSELoss()", (ROWS, ROWS)),
    ("MSELoss(reduction='none')", (ROWS, ROWS)),
    ("L1Loss(reduction='sum')", (ROWS, ROWS)),
    ("SmoothL1Loss(beta=0.4)", (ROWS, ROWS)),
    ("HuberLoss('sum', 0.4)", (ROWS, ROWS)),
    ("BCELoss()", (Unit(ROWS), Unit(ROWS))),
    (f"BCELoss(weight={WEIGHTS})", (Unit(ROWS), Unit(ROWS))),
    ("BCEWithLogitsLoss()", (ROWS, Unit(ROWS))),
    (f"BCEWithLogitsLoss(pos_weight={WEIGHTS}, reduction='none')", (ROWS, Unit(ROWS))),
    ("Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))", (ROWS,)),
    ("CELU(0.5)", (ROWS,)),
    ("GLU()", (ROWS,)),
    ("GLU(1)", (IMAGE,)),
    ("Hardshrink(0.3)", (ROWS,)),
    ("Hardsigmoid()", (ROWS,)),
    ("Hardswish()", (ROWS,)),
    ("Mish()", (ROWS,)),
    ("PReLU()", (ROWS,)),
    ("PReLU(4)", (IMAGE,)),
    ("Softshrink(0.2)", (ROWS,)),
    ("Softsign()", (ROWS,)),
    ("Threshold(0.1, -1.0)", (ROWS,)),
    ("Softmax2d()", (IMAGE,)),
    ("Dropout1d(0.3)", (SEQUENCE,)),
    ("Dropout2d()", (IMAGE,)),
    ("Dropout3d(0.4)", (VOLUME,)),
    ("Conv3d(2, 3, 2, padding=1)", (VOLUME,)),
    ("BatchNorm3d(2)", (VOLUME,)),
    ("Unfold((2, 3), stride=2)", (IMAGE,)),
    ("InstanceNorm3d(2)", (VOLUME,)),
    ("GroupNorm(2, 4)", (IMAGE,)),
    ("GroupNorm(4, 4, affine=False)", (SEQUENCE,)),
    ("GroupNorm(1, 4, bias=False)", (ROWS,)),
    ("RMSNorm(4)", (ROWS,)),
    ("RMSNorm((6, 5), 1e-3, False)", (IMAGE,)),
    ("Upsample(9)", (IMAGE,)),
    ("Upsample(scale_factor=2, mode='bilinear')", (IMAGE,)),
    ("Upsample(5, mode='linear', align_corners=True)", (SEQUENCE,)),
    ("UpsamplingNearest2d((3, 4))", (IMAGE,)),
    ("UpsamplingBilinear2d(scale_factor=(2, 3))", (IMAGE,)),
    ("AdaptiveAvgPool1d(3)", (SEQUENCE,)),
    ("AdaptiveAvgPool2d((2, None))", (IMAGE,)),
    ("AdaptiveAvgPool2d(1)", (IMAGE,)),
    ("AdaptiveAvgPool3d(2)", (VOLUME,)),
    ("PixelShuffle(2)", (IMAGE,)),
    ("PixelUnshuffle(1)", (IMAGE,)),
    ("ConstantPad1d(2, 0.5)", (SEQUENCE,)),
    ("ConstantPad2d((1, 2, 3, 4), 1)", (IMAGE,)),
    ("ConstantPad3d(1, 1.0)", (VOLUME,)),
    ("ZeroPad1d(1)", (SEQUENCE,)),
    ("ZeroPad2d((1, 0, -1, 0))", (IMAGE,)),
    ("ZeroPad3d(2)", (VOLUME,)),
    ("CosineSimilarity()", (ROWS, ROWS)),
    ("PairwiseDistance(keepdim=True)", (ROWS, ROWS)),
    ("KLDivLoss(reduction='batchmean')", (ROWS, Unit(ROWS))),
    ("KLDivLoss(reduction='sum', log_target=True)", (ROWS, ROWS)),
    ("HingeEmbeddingLoss()", (ROWS, Signs(ROWS))),
    ("SoftMarginLoss()", (ROWS, Signs(ROWS))),
    ("MarginRankingLoss(0.2)", (ROWS, ROWS, Signs(ROWS))),
    ("CosineEmbeddingLoss(0.1)", (ROWS, ROWS, Signs((6,)))),
    ("TripletMarginLoss(swap=True)", (ROWS, ROWS, ROWS)),
    ("Bilinear(4, 4, 3)", (ROWS, ROWS)),
    ("Bilinear(4, 4, 3, bias=False)", (ROWS, ROWS)),
    ("RNNCell(4, 3)", (ROWS,)),
    ("RNNCell(4, 3, nonlinearity='relu')", (ROWS, (6, 3))),
    ("LSTMCell(4, 3, bias=False)", (ROWS,)),
    ("GRUCell(4, 3)", (ROWS, (6, 3))),
    ("RNN(4, 3)", (TIMES,)),
    ("RNN(4, 3, 2, 'relu', bidirectional=True, dropout=0.4)", (TIMES, (4, 3, 3))),
    ("LSTM(4, 3)", (TIMES,)),
    ("LSTM(4, 3, 2, batch_first=True, bidirectional=True, dropout=0.4)", (TIMES,)),
    ("LSTM(4, 5, proj_size=2, bias=False)", (TIMES,)),
    ("LSTM(4, 3)", (ROWS,)),
    ("GRU(4, 3)", (TIMES, (1, 3, 3))),
    ("GRU(4, 3, 2, bidirectional=True)", (TIMES,)),
    ("MultiheadAttention(4, 2)", (TIMES, TIMES, TIMES)),
    ("MultiheadAttention(4, 2, 0.4, batch_first=True)", (TIMES, TIMES, TIMES)),
    ("MultiheadAttention(4, 2, bias=False, add_bias_kv=True, add_zero_attn=True)", (ROWS, ROWS, ROWS)),
    ("MultiheadAttention(4, 2, kdim=3, vdim=2)", (TIMES, (2, 3, 3), (2, 3, 2))),
    ("TransformerEncoderLayer(4, 2, 5)", (TIMES,)),
    ("TransformerEncoderLayer(4, 2, 5, 0.3, 'gelu', batch_first=True, norm_first=True)", (TIMES,)),
    ("TransformerDecoderLayer(4, 2, 5, 0.0, bias=False)", (TIMES, (2, 3, 4))),
    ("TransformerDecoderLayer(4, 2, 5, batch_first=True, norm_first=True)", (TIMES, TIMES)),
    ("TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5), 2)", (TIMES,)),
    ("TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, 0.0), 2, nn.LayerNorm(4))", (TIMES, TIMES)),
    ("Transformer(4, 2, 1, 1, 5, 0.0)", (TIMES, (2, 3, 4))),
    ("AdaptiveMaxPool1d(3)", (SEQUENCE,)),
    ("AdaptiveMaxPool2d((4, None), return_indices=True)", (IMAGE,)),
    ("AdaptiveMaxPool3d(2)", (VOLUME,)),
    ("AlphaDropout(0.3)", (ROWS,)),
    ("AvgPool2d(3, 2, 1, count_include_pad=False)", (IMAGE,)),
    ("AvgPool3d(2, 2, 1, divisor_override=3)", (VOLUME,)),
    ("CTCLoss()", ((5, 2, 4), Classes(3, (2, 2)), Lengths((5, 4)), Lengths((2, 1)))),
    ("ChannelShuffle(2)", (IMAGE,)),
    ("CircularPad1d((1, 2))", (SEQUENCE,)),
    ("CircularPad2d(2)", (IMAGE,)),
    ("CircularPad3d(1)", (VOLUME,)),
    ("Conv1d(4, 3, 3, padding=1, padding_mode='circular')", (SEQUENCE,)),
    ("ConvTranspose1d(4, 6, 3, stride=2, output_padding=1)", (SEQUENCE,)),
    ("ConvTranspose2d(4, 6, 3, 2, 1, groups=2, dilation=2)", (IMAGE,)),
    ("ConvTranspose3d(2, 3, 2, bias=False)", (VOLUME,)),
    ("CrossMapLRN2d(4)", (IMAGE,)),
    ("DataParallel(nn.Linear(4, 3))", (ROWS,)),
    ("Embedding(4, 3, max_norm=1.0, scale_grad_by_freq=True)", (Classes(4, (6,)),)),
    ("EmbeddingBag(4, 3, mode='sum', padding_idx=1)", (Classes(4, (2, 3)),)),
    ("EmbeddingBag(4, 3, mode='max')", (Classes(4, (2, 3)),)),
    ("FeatureAlphaDropout(0.3)", (IMAGE,)),
    ("Fold((6, 5), (2, 2))", ((2, 4, 20),)),
    ("FractionalMaxPool2d(2, (3, 3))", (IMAGE,)),
    ("FractionalMaxPool3d(2, 2)", (VOLUME,)),
    ("GaussianNLLLoss(full=True)", (ROWS, ROWS, Unit(ROWS))),
    ("LPPool1d(2, 3)", (SEQUENCE,)),
    ("LPPool2d(3, 2, ceil_mode=True)", (IMAGE,)),
    ("LPPool3d(2, 2)", (VOLUME,)),
    ("LinearCrossEntropyLoss(4, 3)", (ROWS, Classes(3, (6,)))),
    ("LocalResponseNorm(3, 0.5)", (IMAGE,)),
    ("MaxPool3d(2, 1, 1)", (VOLUME,)),
    ("MaxUnpool1d(2)", (SEQUENCE, Places((3, 4, 7), 2))),
    ("MaxUnpool2d(1)", (IMAGE, Places(IMAGE, 1))),
    ("MaxUnpool3d(1)", (VOLUME, Places(VOLUME, 1))),
    ("MultiLabelMarginLoss()", (ROWS, Classes(4, ROWS))),
    ("MultiLabelSoftMarginLoss()", (ROWS, Classes(2, ROWS))),
    ("MultiMarginLoss(2, 0.5)", (ROWS, Classes(4, (6,)))),
    ("PoissonNLLLoss(full=True)", (ROWS, Unit(ROWS))),
    ("RReLU()", (ROWS,)),
    ("ReflectionPad1d(2)", (SEQUENCE,)),
    ("ReflectionPad2d((1, 2, -1, 3))", (IMAGE,)),
    ("ReflectionPad3d(1)", (VOLUME,)),
    ("ReplicationPad1d((3, 0))", (SEQUENCE,)),
    ("ReplicationPad2d(1)", (IMAGE,)),
    ("ReplicationPad3d(2)", (VOLUME,)),
    ("SyncBatchNorm(4)", (IMAGE,)),
    ("TripletMarginWithDistanceLoss(margin=0.5)", (ROWS, ROWS, ROWS)),
]
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
IDS = [f"{i}: {text}" for i, (text, _) in enumerate(MODULES)]
FLOATS = {"float32": ad.float32, "float64": ad.float64}
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


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("text", "inputs"), MODULES, ids=IDS)
def test_forward(text: str, inputs: Any, training: bool, floating: Any) -> None:
    def make(dtype: Any) -> Any:
        model = made(text, inputs, dtype, training)
        return model, (model,)

    with ad.no_grad():
        agree(make, inputs, floating)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("text", "inputs"), MODULES, ids=IDS)
def test_whole_training_step(text: str, inputs: Any, optimizer: str, floating: Any) -> None:
    def make(dtype: Any) -> Any:
        model = made(text, inputs, dtype, True)
        updates = OPTIMIZERS[optimizer](model.parameters())
        return training_step(model, updates), (model, updates)

    agree(make, inputs, floating)


def agree(make: Callable[[Any], Any], inputs: Any, floating: Any) -> None:
    """Run what `make` makes of a dtype, eagerly and compiled, and compare all that there is to see after each call."""
    eager, ours, other = make(floating), make(floating), make(floating)
    compiled = ad.compile(ours[0])
    precise = make(ad.float64)
    for call in range(CALLS):
        expected, got, exact, nudged = (
            run(function, state, tensors, call)
            for function, state, tensors in (
                (*eager, given(inputs, floating, call)),
                (compiled, ours[1], given(inputs, floating, call)),
                (*precise, given(inputs, ad.float64, call)),
                (*other, [neighbour(x) for x in given(inputs, floating, call)]),
            )
        )
        same_facts(got, expected, *((exact, nudged) if floating is ad.float32 else ()))
    assert compiled.compilations == 1


def neighbour(tensor: Any) -> Any:
    """The tensor, each float replaced by the next larger one."""
    if not isinstance(tensor, ad.Tensor) or not tensor.is_floating_point():
        return tensor
    moved = np.nextafter(tensor.detach().numpy(), np.inf, dtype=tensor.detach().numpy().dtype)
    return ad.from_numpy(moved).requires_grad_(tensor.requires_grad)


def run(function: Any, state: Any, tensors: list[Any], seed: int) -> list[tuple[str, Any]]:
    """The facts after one call."""
    ad.manual_seed(seed)
    return facts(function(*tensors), tensors, *state)


EDGES = [np.nan, np.inf, -np.inf, -0.0, 1e-40, -3e38, 90.0]


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("text", "inputs"), MODULES, ids=IDS)
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
    named = {text.partition("(")[0] for text, _ in MODULES}
    assert classes == named | set(BESIDES)
