"""Every layer against PyTorch's: first values, outputs, gradients, state, repr."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import errors_of
from tests.support.oracle import equal, torch, weights

import adjoint as ad

RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(3, 4, 6, 5)).astype(np.float32)
SEQUENCE = RNG.normal(size=(3, 4, 7)).astype(np.float32)
ROWS = RNG.normal(size=(6, 4)).astype(np.float32)
CLASSES = RNG.integers(0, 4, 6)
ANY = RNG.normal(size=(6, 4)).astype(np.float32)
UNIT = RNG.uniform(0.05, 0.95, (6, 4)).astype(np.float32)
VOLUME = RNG.normal(size=(2, 2, 3, 4, 5)).astype(np.float32)
SIGNS = np.where(RNG.random((6, 4)) < 0.5, 1, -1)

LAYERS: list[tuple[str, tuple[Any, ...]]] = [
    *((layer, (ROWS,)) for layer in (
        "Linear(4, 3)", "Linear(4, 3, bias=False)", "Identity()", "BatchNorm1d(4)",
        "BatchNorm1d(4, affine=False, momentum=0.3)", "BatchNorm1d(4, track_running_stats=False)",
        "BatchNorm1d(4, momentum=None)", "LayerNorm(4, elementwise_affine=False)", "LayerNorm([4], bias=False)",
        "Dropout()", "Unflatten(-1, (-1, 1))", "ReLU()", "LeakyReLU()", "LeakyReLU(0.2)", "ReLU6()", "ELU()",
        "ELU(alpha=0.5)", "SELU()", "GELU()", "GELU(approximate='tanh')", "SiLU()", "Tanh()", "Tanhshrink()",
        "Sigmoid()", "LogSigmoid()", "Hardtanh(-0.5, 0.25)", "Softplus()", "Softplus(2.0, 1.0)", "Softmax(dim=1)",
        "Softmin(dim=1)", "LogSoftmax(dim=0)", "CELU(0.5)", "GLU()", "Hardshrink(0.3)", "Hardsigmoid()",
        "Hardswish()", "Mish()", "PReLU()", "Softshrink(0.2)", "Softsign()", "Threshold(0.1, -1.0)",
        "GroupNorm(1, 4, bias=False)", "RMSNorm(4)",
    )),
    *((layer, (IMAGE,)) for layer in (
        "Linear(5, 2)", "Conv2d(4, 6, 3)", "Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2))",
        "Conv2d(4, 4, 3, padding=1, groups=4, bias=False)", "Conv2d(4, 2, 3, padding='same')", "MaxPool2d(2)",
        "MaxPool2d(3, stride=2, padding=1, ceil_mode=True)", "MaxPool2d((3, 2), dilation=1, return_indices=True)",
        "AvgPool2d(2)", "AvgPool2d(3, 2, 1, ceil_mode=True)", "BatchNorm2d(4, eps=1e-3)",
        "BatchNorm2d(4, bias=False)", "InstanceNorm2d(4)",
        "InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.3)",
        "InstanceNorm2d(4, affine=True, bias=False, eps=1e-3)", "LayerNorm(5)", "LayerNorm((6, 5), eps=1e-3)",
        "Dropout(0.2)", "Flatten()", "Flatten(0, 2)", "Unflatten(1, (2, 2))", "Softmax(-2)", "GLU(1)", "PReLU(4)",
        "Softmax2d()", "Dropout2d()", "Unfold((2, 3), stride=2)", "GroupNorm(2, 4)", "RMSNorm((6, 5), 1e-3, False)",
        "Upsample(3)", "Upsample(scale_factor=2, mode='bilinear')", "UpsamplingNearest2d((3, 4))",
        "UpsamplingBilinear2d(scale_factor=(2, 3))", "AdaptiveAvgPool2d((2, None))", "AdaptiveAvgPool2d(1)",
        "PixelShuffle(2)", "PixelUnshuffle(1)", "ConstantPad2d((1, 2, 3, 4), 1)", "ZeroPad2d((1, 0, -1, 0))",
    )),
    ("Linear(300, 70)", (RNG.normal(size=(2, 300)).astype(np.float32),)),
    ("Linear(4, 1)", (ROWS[0],)),
    *((layer, (SEQUENCE,)) for layer in (
        "Conv1d(4, 6, 3)", "Conv1d(4, 6, 2, stride=2, padding=1, groups=2)",
        "Conv1d(4, 6, 3, padding='same', dilation=2, bias=False)", "MaxPool1d(2)", "BatchNorm1d(4)",
        "InstanceNorm1d(4)", "Dropout1d(0.3)", "GroupNorm(4, 4, affine=False)",
        "Upsample(5, mode='linear', align_corners=True)", "AdaptiveAvgPool1d(3)", "ConstantPad1d(2, 0.5)",
        "ZeroPad1d(1)",
    )),
    ("InstanceNorm1d(3, affine=True, track_running_stats=True)", (ROWS[:3],)),
    *((layer, (CLASSES,)) for layer in ("Embedding(4, 3)", "Embedding(4, 16, padding_idx=2)")),
    ("Embedding(4, 3, padding_idx=-1)", (CLASSES.reshape(2, 3),)),
    *((layer, (ROWS, CLASSES)) for layer in (
        "CrossEntropyLoss()", "CrossEntropyLoss(reduction='sum', ignore_index=1, label_smoothing=0.1)",
        "CrossEntropyLoss(lib.tensor([0.5, 1.0, 2.0, 0.25]))", "NLLLoss()",
        "NLLLoss(lib.tensor([0.5, 1.0, 2.0, 0.25]), reduction='none')",
    )),
    *((layer, (ROWS, ANY)) for layer in (
        "MSELoss()", "MSELoss(reduction='sum')", "L1Loss()", "SmoothL1Loss(beta=0.4)", "HuberLoss('sum', 0.4)",
        "CosineSimilarity()", "PairwiseDistance(keepdim=True)", "KLDivLoss(reduction='sum', log_target=True)",
        "Bilinear(4, 4, 3)", "Bilinear(4, 4, 3, bias=False)",
    )),
    *((layer, (UNIT, UNIT[::-1].copy())) for layer in (
        "BCELoss()", "BCELoss(weight=lib.tensor([0.5, 1.0, 2.0, 0.25]))",
    )),
    *((layer, (ROWS, UNIT)) for layer in (
        "BCEWithLogitsLoss()", "BCEWithLogitsLoss(pos_weight=lib.tensor([0.5, 1.0, 2.0, 0.25]), reduction='none')",
        "KLDivLoss(reduction='batchmean')",
    )),
    *((layer, (VOLUME,)) for layer in (
        "Dropout3d(0.4)", "Conv3d(2, 3, 2, padding=1)", "BatchNorm3d(2)", "InstanceNorm3d(2)", "AdaptiveAvgPool3d(2)",
        "ConstantPad3d(1, 1.0)", "ZeroPad3d(2)",
    )),
    *((layer, (ROWS, SIGNS)) for layer in ("HingeEmbeddingLoss()", "SoftMarginLoss()")),
    ("MarginRankingLoss(0.2)", (ROWS, ANY, SIGNS)),
    ("CosineEmbeddingLoss(0.1)", (ROWS, ANY, SIGNS[:, 0].copy())),
    ("TripletMarginLoss(swap=True)", (ROWS, ANY, ROWS[::-1].copy())),
]  # fmt: skip
NAMES = [layer for layer, _ in LAYERS]


def made(library: Any, layer: str) -> Any:
    library.manual_seed(7)
    return eval(f"lib.nn.{layer}", {"lib": library})


@pytest.mark.parametrize("layer", dict.fromkeys(NAMES))
def test_first_values(layer: str) -> None:
    ours, theirs = made(ad, layer), made(torch, layer)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy(), strict=True)


@pytest.mark.parametrize("layer", dict.fromkeys(NAMES))
def test_repr(layer: str) -> None:
    assert repr(made(ad, layer)) == repr(made(torch, layer))


@pytest.mark.parametrize(("layer", "arrays"), LAYERS, ids=NAMES)
@pytest.mark.parametrize("training", [True, False])
def test_forward_and_backward(layer: str, arrays: Any, training: bool) -> None:
    ours, theirs = (_run(library, made(library, layer).train(training), arrays) for library in (ad, torch))
    equal(ours, theirs, factor=20)


def _run(library: Any, module: Any, arrays: Any) -> list[Any]:
    """Outputs, gradients of inputs and parameters, and buffers, after two steps on different data."""
    results: list[Any] = []
    for step in range(2):
        inputs = [library.tensor(a * (step + 1) if a.min() < 0 else a) for a in arrays]
        inputs = [x.requires_grad_() if x.dtype == library.float32 and i == 0 else x for i, x in enumerate(inputs)]
        out = module(*inputs)
        first = out[0] if isinstance(out, tuple) else out
        if first.requires_grad:
            first.backward(library.tensor(weights(first.shape), dtype=first.dtype))
        results += [out if isinstance(out, tuple) else [out]]
        results += [[x.grad for x in inputs], [p.grad for p in module.parameters()], [*module.buffers()]]
    return results


@pytest.mark.parametrize("layer", [
    "Linear(3, 2)", "Conv2d(2, 4, 3)", "BatchNorm2d(3)", "Embedding(4, 2)", "LayerNorm(3)",
    "Conv1d(2, 2, 1, dtype=lib.float64)", "BCEWithLogitsLoss(lib.ones(2))",
])  # fmt: skip
def test_state_goes_to_torch_and_back(layer: str) -> None:
    ours, theirs = made(ad, layer), made(torch, layer)
    other = made(ad, layer)
    for p in (*ours.parameters(), *ours.buffers()):
        p.data = p.data * 2 + 1
    theirs.load_state_dict({name: torch.from_numpy(t.numpy().copy()) for name, t in ours.state_dict().items()})
    keys = other.load_state_dict({name: ad.from_numpy(t.numpy()) for name, t in theirs.state_dict().items()})
    assert str(keys) == "<All keys matched successfully>"
    given = [module.load_state_dict({"other": 1}, strict=False) for module in (other, theirs)]
    assert str(given[0]) == str(given[1])
    for name, value in ours.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), value.numpy(), strict=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layer", ["Linear(3, 2, dtype={})", "Conv2d(2, 4, 3, dtype={})", "BatchNorm1d(3, dtype={})",
                                   "Embedding(4, 20, dtype={})", "LayerNorm(3, dtype={})"])  # fmt: skip
def test_dtype(layer: str, dtype: str) -> None:
    ours, theirs = (made(library, layer.format(f"lib.{dtype}")) for library in (ad, torch))
    equal([p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()], factor=0)
    equal([*ours.buffers()], [*theirs.buffers()], factor=0)


ERRORS = [
    "Conv2d(3, 4, 2, groups=2)", "Conv2d(4, 3, 2, groups=2)", "Conv2d(4, 4, 2, groups=0)",
    "Conv2d(4, 4, 2, padding='some')",
    "Conv2d(4, 4, 2, stride=2, padding='same')", "Dropout(1.5)", "BatchNorm2d(4)(lib.ones(2, 4))",
    "BatchNorm1d(4)(lib.ones(2, 4, 3, 3))", "BatchNorm1d(4)(lib.ones(1, 4))", "BatchNorm1d(4)(lib.ones(3, 5))",
    "LayerNorm(4)(lib.ones(3, 5))", "Linear(4, 2)(lib.ones(3, 5))", "Conv2d(4, 4, 2)(lib.ones(1, 3, 5, 5))",
    "Embedding(3, 2)(lib.tensor([3]))", "Unflatten(1, 3)", "GELU('fast')(lib.ones(1))",
    "MSELoss(reduction='total')(lib.ones(1), lib.ones(1))",
]  # fmt: skip


SAME_WORDS = {
    "Conv2d(3, 4, 2, groups=2)", "Conv2d(4, 4, 2, groups=0)", "Dropout(1.5)", "BatchNorm2d(4)(lib.ones(2, 4))",
    "BatchNorm1d(4)(lib.ones(2, 4, 3, 3))",
}  # fmt: skip


@pytest.mark.parametrize("code", ERRORS)
def test_errors_are_of_the_same_class_and_some_in_the_same_words(code: str) -> None:
    ours, theirs = errors_of(lambda library: made(library, code), ad, torch)
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs) or code not in SAME_WORDS


def test_unknown_padding_modes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"padding_mode must be one of .*, but got padding_mode='mirror'"):
        ad.nn.Conv2d(1, 1, 3, padding_mode="mirror")
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose2d'):
        ad.nn.ConvTranspose2d(1, 1, 3, padding_mode="reflect")


@pytest.mark.parametrize(("code", "message"), [
    ("Embedding(3, 2, padding_idx=3)", "Padding_idx must be within num_embeddings"),
    ("Embedding(3, 2, padding_idx=-4)", "Padding_idx must be within num_embeddings"),
    ("Embedding(3, 2, _weight=lib.ones(2, 2))", "Shape of weight does not match num_embeddings and embedding_dim"),
    ("Embedding.from_pretrained(lib.ones(3))", "Embeddings parameter is expected to be 2-dimensional"),
])  # fmt: skip
def test_embedding_errors(code: str, message: str) -> None:
    for library in (torch, ad):
        with pytest.raises(AssertionError, match=message):
            made(library, code)


def test_embedding_from_pretrained() -> None:
    table = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    layer = ad.nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert layer(ad.tensor([1])).tolist() == [[3.0, 4.0]]
    assert ad.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=-1).padding_idx == 1


def test_reset_running_stats() -> None:
    layer = ad.nn.BatchNorm1d(4)
    layer(ad.tensor(ROWS))
    layer.reset_running_stats()
    assert (layer.num_batches_tracked.item(), layer.running_mean.tolist()) == (0, [0.0] * 4)
    assert layer.running_var.tolist() == [1.0] * 4


def test_reset_parameters_draws_anew() -> None:
    for layer in ("Linear(3, 2)", "Conv1d(2, 2, 2)", "Embedding(3, 2)", "LayerNorm(3)", "BatchNorm1d(2)"):
        ours, theirs = made(ad, layer), made(torch, layer)
        ours.reset_parameters()
        theirs.reset_parameters()
        equal([p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()], factor=0)


@pytest.mark.claim("4.16")
def test_sample_net() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(3072, 128), ad.nn.ReLU(), ad.nn.Linear(128, 10))
    out = net(ad.randn(32, 3072))
    assert tuple(out.shape) == (32, 10)
    names, leaves = [], []
    node = out.grad_fn
    while node is not None:
        names.append(node.name())
        following = None
        for parent, _ in node.next_functions:
            if parent is not None and parent.name() == "AccumulateGrad":
                leaves.append(parent.variable)
            elif parent is not None:
                following = parent
        node = following
    assert names == ["AddmmBackward0", "ReluBackward0", "AddmmBackward0"]
    assert {id(leaf) for leaf in leaves} == {id(p) for p in net.parameters()}
    assert net[0].weight.is_leaf
    assert net[0].weight.grad_fn is None
