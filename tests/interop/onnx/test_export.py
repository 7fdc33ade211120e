"""`adjoint.onnx.export`: models, free axes, names, files, modes, and what is refused."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.core.runtime.pytree import flatten
from adjoint.interop.onnx import OnnxExporterError, OnnxExporterWarning, TrainingMode

onnx = pytest.importorskip("onnx", reason="the package onnx writes the files")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")
TOLERANCE = 1e-5


def assert_exports(model: Any, args: tuple[Any, ...], *others: tuple[Any, ...], **settings: Any) -> Any:
    """Export with `args`, and compare with the model there and at other arguments; return the program."""
    program = ad.onnx.export(model, args, **settings)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for given in (args, *others):
        with ad.no_grad():
            expected, _ = flatten(model(*given))
        for ours, theirs in zip(expected, program(*given), strict=True):
            assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
            np.testing.assert_allclose(theirs.numpy(), ours.numpy(), TOLERANCE, TOLERANCE)
    return program


@pytest.fixture(autouse=True)
def seed() -> None:
    ad.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 2 * channels, 3, stride, 1, bias=False), nn.BatchNorm2d(2 * channels), nn.ReLU(True)
        )
        self.skip = nn.Conv2d(channels, 2 * channels, 1, stride)

    def forward(self, x):
        out = self.body(x)
        out += self.skip(x)
        return F.relu(out)


def test_residual_network_of_any_size() -> None:
    head = nn.Conv2d(3, 4, 7, 2, 3), nn.MaxPool2d(3, 2, 1)
    model = nn.Sequential(
        *head, Residual(4, 1), Residual(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )
    others = (ad.randn(3, 3, 48, 80),), (ad.randn(2, 3, 61, 37),)
    axes = {"input": {0: "batch", 2: "height", 3: "width"}}
    program = assert_exports(model.eval(), (ad.randn(1, 3, 32, 32),), *others, dynamic_axes=axes)
    (given,) = program.model_proto.graph.input
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["batch", 3, "height", "width"]
    (out,) = program.model_proto.graph.output
    assert [d.dim_param or d.dim_value for d in out.type.tensor_type.shape.dim] == ["batch", 5]
    weights = {x.name for x in program.model_proto.graph.initializer}
    assert {name for name, x in model.named_parameters()} <= weights


class Attention(nn.Module):
    """Causal attention of a language model, by a function or by hand."""

    def __init__(self, is_by_hand: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(12, 8)
        self.qkv, self.norm, self.is_by_hand = nn.Linear(8, 24), nn.LayerNorm(8), is_by_hand
        self.register_buffer("seen", ad.tril(ad.ones(12, 12)).view(1, 1, 12, 12))

    def forward(self, tokens):
        batch, length = tokens.shape
        assert length <= 12
        x = self.norm(self.tokens(tokens) + self.places(ad.arange(length)))
        q, k, v = (p.view(batch, length, 2, 4).transpose(1, 2) for p in self.qkv(x).split(8, dim=2))
        if self.is_by_hand:
            weights = (q @ k.transpose(-2, -1)) / 4**0.5
            weights = weights.masked_fill(self.seen[:, :, :length, :length] == 0, float("-inf"))
            out = weights.softmax(-1) @ v + ad.triu(ad.ones(length, length), 1)[:, :1]
        else:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(batch, length, 8)[:, [-1]] @ self.tokens.weight.T


@pytest.mark.parametrize("is_by_hand", [False, True])
def test_language_model_of_any_length_up_to_its_limit(is_by_hand: bool) -> None:
    others = (ad.randint(0, 11, (3, 7)),), (ad.randint(0, 11, (1, 1)),)
    axes = {"tokens": {0: "batch", 1: "length"}}
    assert_exports(Attention(is_by_hand).eval(), (ad.randint(0, 11, (2, 12)),), *others, dynamic_axes=axes)


def test_transformer_encoder_with_a_class_token() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, 2).eval()
    token = nn.Parameter(ad.randn(1, 1, 8))

    def classify(x):
        return encoder(ad.cat([token.expand(x.shape[0], -1, -1), x], 1))[:, 0]

    assert_exports(classify, (ad.randn(2, 5, 8),), (ad.randn(3, 9, 8),), dynamic_shapes=({0: "n", 1: "t"},))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("settings", [{}, {"batch_first": True, "bidirectional": True, "num_layers": 2, "bias": False}])
def test_recurrent_layers_are_nodes_of_their_own(kind: Any, settings: dict[str, Any]) -> None:
    model = kind(3, 5, **settings).eval()
    program = assert_exports(model, (ad.randn(4, 6, 3),), (ad.randn(2, 9, 3),), dynamic_axes={"input": [0, 1]})
    nodes = [node.op_type for node in program.model_proto.graph.node]
    assert nodes.count(kind.__name__) == 4 ** bool(settings)


def test_recurrent_layer_with_a_first_state() -> None:
    state = ad.randn(1, 4, 5), ad.randn(1, 4, 5)
    program = ad.onnx.export(nn.LSTM(3, 5).eval(), (ad.randn(6, 4, 3), state), output_names=["y"])
    names = [x.name for x in program.model_proto.graph.input], [x.name for x in program.model_proto.graph.output]
    assert names == (["input", "hx_0", "hx_1"], ["y", "output_1", "output_2"])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU())
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(12, 1, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        a = self.down(x)
        b = F.avg_pool2d(a, 2)
        c = F.interpolate(b, size=a.shape[2:], mode="bilinear")
        d = self.up(b)
        rest = [a.shape[2] - d.shape[2], a.shape[3] - d.shape[3]]
        return self.out(ad.cat([a, c, F.pad(d, [0, rest[1], 0, rest[0]])], 1))


def test_u_net_of_odd_sizes() -> None:
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    others = (ad.randn(2, 2, 16, 20),), (ad.randn(1, 2, 11, 17),)
    assert_exports(UNet().eval(), (ad.randn(1, 2, 8, 12),), *others, dynamic_axes=axes)


def test_autoencoder_draws_in_training_mode() -> None:
    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.decode = nn.Linear(4, 2), nn.Linear(2, 4)

        def forward(self, x):
            mean = self.mean(x)
            noise = ad.randn_like(mean) if self.training else 0.0
            return self.decode(F.dropout(mean + noise, 0.5, self.training))

    model = VAE()
    assert_exports(model.eval(), (ad.randn(3, 4),), (ad.randn(7, 4),), dynamic_axes={"x": [0]})
    assert ad.onnx.export(model.train(), (ad.randn(3, 4),), io.BytesIO(), dynamo=False) is None
    assert model.training
    with pytest.warns(UserWarning, match="training mode"):
        program = ad.onnx.export(model, (ad.randn(3, 4),), dynamic_axes={"x": [0]})
    assert "RandomNormalLike" in [node.op_type for node in program.model_proto.graph.node]
    assert program(ad.randn(6, 4))[0].shape == (6, 4)


def test_mobile_network_in_every_opset() -> None:
    depthwise = nn.Conv2d(6, 6, 3, 2, 1, groups=6)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 1), nn.ReLU6(), depthwise, nn.Hardswish(), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    for opset in (13, 17, 18, 20, 23):
        program = assert_exports(model.eval(), (ad.randn(2, 3, 8, 8),), opset_version=opset)
        assert program.model_proto.opset_import[0].version == opset
    with pytest.warns(OnnxExporterWarning, match="written with 13"):
        ad.onnx.export(model, (ad.randn(2, 3, 8, 8),), opset_version=11)
    with pytest.raises(ValueError, match="opset_version 999 is unknown"):
        ad.onnx.export(model, (ad.randn(2, 3, 8, 8),), opset_version=999)


MODULES = [
    nn.ELU(), nn.SELU(), nn.CELU(), nn.GELU(), nn.GELU("tanh"), nn.Mish(), nn.Hardsigmoid(), nn.Hardtanh(),
    nn.LeakyReLU(), nn.PReLU(), nn.LogSigmoid(), nn.Softplus(), nn.Softsign(), nn.Tanhshrink(), nn.Hardshrink(),
    nn.Softshrink(), nn.Threshold(0.1, 2.0), nn.GLU(1), nn.Softmin(1), nn.LogSoftmax(1), nn.InstanceNorm2d(4),
    nn.LocalResponseNorm(3), nn.RMSNorm(6), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, return_indices=True),
    nn.MaxPool2d(2, ceil_mode=True), nn.LPPool2d(2, 2), nn.ZeroPad2d(1), nn.ReplicationPad2d(2), nn.CircularPad2d(1),
    nn.Upsample(scale_factor=2), nn.Upsample(size=(7, 5), mode="bicubic"), nn.PixelShuffle(2), nn.ChannelShuffle(2),
    nn.Unfold(2), nn.Conv2d(4, 4, 3, dilation=2, padding="same"),
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=repr)
def test_modules_of_any_batch_and_height(module: nn.Module) -> None:
    axes = {"input": {0: "n", 2: "h"}} if not isinstance(module, nn.MaxPool2d) else {"input": {0: "n"}}
    other = ad.randn(3, 4, 10 if 2 in axes["input"] else 8, 6)
    assert_exports(module.eval(), (ad.randn(2, 4, 8, 6),), (other,), dynamic_axes=axes, input_names=["input"])


def write_in_place(x):
    y = x.clone()
    y[:, 0] = 5.0
    y[1:, 1::2] += 1
    y[y > 2] = 0
    return y


FUNCTIONS = {
    "indexing": lambda x: (x[1:, ::2], x[:, -1], x[..., None], x[[0, 1]], x[ad.tensor([0, 1]), ad.tensor([2, 3])]),
    "order": lambda x: (*x.topk(3), *x.sort(descending=True), x.argmax(-1), *x.max(1), *x.median(1)),
    "running": lambda x: (x.cumsum(1), x.cumprod(1), *x.cummax(1)),
    "reductions": lambda x: (x.logsumexp(1), x.var(1), x.std(), x.norm(dim=1), x.mean(), x.prod(1), (x > 0).any(1)),
    "einsum": lambda x: ad.einsum("bi,bj->ij", x, x),
    "casts": lambda x: (x.long().float() + (x > 0).int(), x // 0.3, x % 0.3, x.round()),
    "scatters": lambda x: ad.zeros_like(x).scatter_add(1, x.argsort(1), x).scatter(1, x.argmax(1, keepdim=True), 1.0),
    "joins": lambda x: (ad.stack([x, x * 2], 1), x.repeat(2, 3), x.roll(1, 0), x.flip(1), x.chunk(3, 1)[0]),
    "sizes": lambda x: (x / len(x[0]) ** 0.5 * np.sqrt(len(x)), x[:, : x.shape[1] // 2], ad.full((x.shape[0],), 3.0)),
    "ranges": lambda x: (ad.linspace(0, 1, x.shape[1]) + x, ad.ones(x.shape[1], x.shape[1]).triu(1), (x @ x.T).trace()),
    "writes": write_in_place,
    "losses": lambda x: (
        F.cross_entropy(x, x.argmax(1), label_smoothing=0.1), F.mse_loss(x, x * 2), F.huber_loss(x, x * 3),
        F.binary_cross_entropy(x.sigmoid(), (x > 0).float()), F.binary_cross_entropy_with_logits(x, (x > 0).float()),
        F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"), F.triplet_margin_loss(x, x * 2, x - 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_any_size(name: str) -> None:
    axes = {"x": {0: "rows", 1: "columns"}}
    assert_exports(FUNCTIONS[name], (ad.randn(4, 6),), (ad.randn(5, 9),), dynamic_axes=axes)


def test_axes_that_only_fit_together() -> None:
    others = (ad.randn(2, 4), ad.randn(2, 4))
    assert_exports(lambda x, y: x * y + 1, (ad.randn(3, 4), ad.randn(3, 4)), others, dynamic_axes={"x": [0], "y": [0]})


def test_dynamic_shapes_in_all_forms() -> None:
    batch = ad.export.Dim("batch", min=1)
    for shapes in ({"x": {0: batch}, "y": {0: batch}}, ({0: "batch"}, ("batch", None)), [{0: batch}, {0: "batch"}]):
        program = ad.onnx.export(lambda x, y: x + y, (ad.ones(2, 3), ad.ones(2, 3)), dynamic_shapes=shapes)
        assert program(ad.ones(5, 3), ad.ones(5, 3))[0].shape == (5, 3)
    program = ad.onnx.export(lambda x: x * 2, (ad.ones(2, 3),), dynamic_shapes=({0: ad.export.Dim.AUTO},))
    assert program(ad.ones(5, 3))[0].shape == (5, 3)


def test_files(tmp_path: Path) -> None:
    model, x = nn.Linear(20, 10).eval(), ad.randn(2, 20)
    ad.onnx.export(model, x, tmp_path / "two.onnx", input_names=["x"])
    assert {path.name for path in tmp_path.iterdir()} == {"two.onnx", "two.onnx.data"}
    ad.onnx.export(model, (x,), tmp_path / "one.onnx", external_data=False)
    file = io.BytesIO()
    ad.onnx.export(model, (x,), file, dynamo=False)
    for proto in (
        onnx.load(tmp_path / "two.onnx"),
        onnx.load(tmp_path / "one.onnx"),
        onnx.load_from_string(file.getvalue()),
    ):
        program = ad.onnx.ONNXProgram(proto)
        np.testing.assert_allclose(program(x)[0].numpy(), model(x).detach().numpy(), TOLERANCE, TOLERANCE)
        np.testing.assert_allclose(program.call_reference(x)[0].numpy(), program(x)[0].numpy(), TOLERANCE, TOLERANCE)
    program.save(tmp_path / "bare.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    bare = onnx.load(tmp_path / "bare.onnx").graph
    assert [i.name for i in bare.input] == ["input", "weight", "bias"]
    assert not bare.initializer
    program.apply_weights({"bias": ad.zeros(10)})
    np.testing.assert_allclose(program(x)[0].numpy(), (x @ model.weight.T).detach().numpy(), TOLERANCE, TOLERANCE)


def test_names_go_to_inputs_then_parameters() -> None:
    program = ad.onnx.export(nn.Linear(3, 2).eval(), (ad.ones(1, 3),), input_names=["data", "W"], verify=True)
    assert [x.name for x in program.model_proto.graph.initializer] == ["W", "bias"]
    with pytest.raises(RuntimeError, match="exceeded number of outputs"):
        ad.onnx.export(nn.ReLU().eval(), (ad.ones(1),), output_names=["a", "b"])


def test_mode_of_the_export() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
    model[1].eval()
    seen = []
    model[1].register_forward_hook(lambda *_: seen.append((model.training, ad.onnx.is_in_onnx_export())))
    for training in TrainingMode:
        ad.onnx.export(model, (ad.ones(1, 2),), io.BytesIO(), dynamo=False, training=training)
    assert seen == [(False, True), (True, True), (True, True)]
    assert (model.training, model[1].training, ad.onnx.is_in_onnx_export()) == (True, False, False)


def test_translations_for_the_torchscript_exporter_change_nothing() -> None:
    ad.onnx.register_custom_op_symbolic("torchvision::nms", lambda g, *_: pytest.fail("it was called"), 11)
    program = ad.onnx.export(nn.ReLU().eval(), (ad.ones(2),))
    ad.onnx.unregister_custom_op_symbolic("torchvision::nms", 11)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Relu"]


def test_keyword_arguments_and_fixed_values() -> None:
    def scale(x, factor, bias=None):
        return x * factor + bias

    program = ad.onnx.export(scale, (ad.ones(2), 3.0), kwargs={"bias": ad.ones(2)})
    assert [x.name for x in program.model_proto.graph.input] == ["x", "bias"]
    assert program(ad.ones(2), bias=ad.ones(2))[0].tolist() == [4.0, 4.0]
    assert ad.onnx.export(scale, (ad.ones(2), 3.0, {"bias": ad.ones(2)}))(ad.ones(2), ad.ones(2))[0].tolist() == [
        4.0,
        4.0,
    ]


@pytest.mark.parametrize(
    ("function", "axes", "message"),
    [
        (lambda x: x * x.sum().item(), {}, r"item\(\) reads the value of a tensor of shape \[\] at .*test_export.py"),
        (lambda x: x if x.sum() > 0 else -x, {}, "reads the value"),
        (lambda x: ad.linalg.inv(x), {}, "inv at .*test_export.py.* cannot be exported: ONNX has no operator"),
        (lambda x: x + ad.ones(3, 3), {"x": [0]}, "takes no other sizes of the free axes 'x_dynamic_axes_0' of size 3"),
        (
            lambda x: x.relu() if len(x) == 3 else x.exp(),
            {"x": [0]},
            "computes something else, from .* at .*test_export",
        ),
        (lambda x: (x, 3), {}, "returns 3, of type int"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_its_line(function: Any, axes: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxExporterError, match=message):
        ad.onnx.export(function, (ad.ones(3, 3),), dynamic_axes=axes)


def test_wrong_settings() -> None:
    x = ad.ones(2, 3)
    with pytest.raises(ValueError, match="no axis 5"):
        ad.onnx.export(nn.ReLU(), (x,), dynamic_axes={"input": [5]}, training=TrainingMode.EVAL, dynamo=False)
    with pytest.raises(ValueError, match="through parameter dynamic_axes"):
        ad.onnx.export(nn.ReLU(), (x,), dynamic_shapes={"input": {0: "n"}}, dynamo=False)
    with pytest.raises(ValueError, match="none of the arguments"):
        ad.onnx.export(nn.ReLU().eval(), (x,), dynamic_shapes={"y": {0: "n"}})
    with pytest.raises(ValueError, match="the sizes 2 and 3"):
        ad.onnx.export(nn.ReLU().eval(), (x,), dynamic_axes={"input": {0: "n", 1: "n"}})
    with pytest.warns(UserWarning, match="Provided key y"):
        ad.onnx.export(nn.ReLU().eval(), (x,), dynamic_axes={"y": [0]})
    with pytest.raises(TypeError, match="do not fit the model"):
        ad.onnx.export(nn.Linear(3, 2).eval(), (x, x))
