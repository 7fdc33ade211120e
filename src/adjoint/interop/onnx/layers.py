"""Translation of products, convolutions, pooling, attention, interpolation and recurrent layers."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.typing import Operand
from adjoint.interop.onnx.free_numbers import TracedValue, has_free_number, pointwise
from adjoint.interop.onnx.graph_writer import INT64, OnnxWriter
from adjoint.interop.onnx.modes import OnnxExporterError
from adjoint.interop.onnx.reduction import reduce_axes
from adjoint.interop.onnx.translation import BOOL, Calculator, shape_of, translates


@translates("mm", "bmm")
def translate_product(w: OnnxWriter, value: TracedValue) -> str:
    """A product of matrices."""
    return w.node("MatMul", *w.operands(value))


@translates("det")
def translate_determinant(w: OnnxWriter, value: TracedValue) -> str:
    """A determinant."""
    return w.node("Det", w.operand(value, 0))


@translates("convolution")
def translate_convolution(w: OnnxWriter, value: TracedValue) -> str:
    """A convolution, padded alike on both sides."""
    params, weight = value.params, value.inputs[1]
    return w.node(
        "Conv",
        *w.operands(value),
        kernel_shape=list(weight.shape[2:]),
        strides=list(params["stride"]),
        pads=[*params["padding"], *params["padding"]],
        dilations=list(params["dilation"]),
        group=params["groups"],
    )


@translates("convolution_input")
def translate_transposed_convolution(w: OnnxWriter, value: TracedValue) -> str:
    """A transposed convolution: what its output has more than the windows reach is output padding."""
    params, kernel = value.params, value.require_fixed(value.inputs[1].shape[2:])
    stride, padding, dilation = (value.require_fixed(params[key]) for key in ("stride", "padding", "dilation"))
    extra = [
        pointwise(lambda n, m, s=s, p=p, d=d, k=k: n - ((m - 1) * s - 2 * p + d * (k - 1) + 1), n, m)
        for n, m, s, p, d, k in zip(
            value.shape[2:], shape_of(value)[2:], stride, padding, dilation, kernel, strict=True
        )
    ]
    return w.node(
        "ConvTranspose",
        *w.operands(value),
        kernel_shape=list(kernel),
        strides=list(stride),
        pads=[*padding, *padding],
        dilations=list(dilation),
        group=params["groups"],
        output_padding=value.require_fixed(extra),
    )


def pool_settings(value: TracedValue) -> dict[str, Operand]:
    """Return the attributes of a pooling node; margins that differ with the sizes are those of `ceil_mode`."""
    size, stride, padding, extra = (list(value.params[key]) for key in ("size", "stride", "padding", "extra"))
    settings: dict[str, Operand] = {"kernel_shape": size, "strides": stride}
    if has_free_number(extra):
        settings |= {"ceil_mode": 1, "pads": [*padding, *padding]}
    else:
        settings["pads"] = [*padding, *(p + e for p, e in zip(padding, extra, strict=True))]
    return {key: value.require_fixed(setting) for key, setting in settings.items()}


def with_channels(w: OnnxWriter, x: str, value: TracedValue) -> tuple[str, bool]:
    """Return an operand with one dimension of examples and one of channels, and whether its shape was changed."""
    rank = len(value.params["size"])
    if len(value.shape) == rank + 2:
        return x, False
    spatial = list(shape_of(value)[len(value.shape) - rank :])
    return w.node("Reshape", x, w.integers([-1, 1, *spatial], value)), True


def pool(w: OnnxWriter, kind: str, x: str, value: TracedValue, **settings: Operand) -> str:
    """Append a pooling node, between changes of the shape where the operand needs them."""
    x, is_reshaped = with_channels(w, x, value)
    out = w.node(kind, x, **settings, **pool_settings(value))
    return w.node("Reshape", out, w.integers(value.shape, value)) if is_reshaped else out


def reduce_whole(w: OnnxWriter, kind: str, value: TracedValue) -> str | None:
    """Return a reduction in place of one window that covers all elements, of free sizes; else None."""
    rank = len(value.params["size"])
    sizes = tuple(value.params["size"])
    if not has_free_number(sizes) or sizes != tuple(shape_of(value)[-rank:]):
        return None
    axes = tuple(range(len(value.shape) - rank, len(value.shape)))
    return reduce_axes(w, kind, w.operand(value, 0), axes, True, value)


@translates("max_pool")
def translate_max_pool(w: OnnxWriter, value: TracedValue) -> str:
    """Maxima of windows."""
    dilations = list(value.params["dilation"])
    return reduce_whole(w, "ReduceMax", value) or pool(w, "MaxPool", w.operand(value, 0), value, dilations=dilations)


@translates("window_argmax")
def translate_window_argmax(w: OnnxWriter, value: TracedValue) -> str:
    """Positions of maxima: ONNX counts through the whole tensor, here each plane is counted by itself."""
    x, is_reshaped = with_channels(w, w.operand(value, 0), value)
    dilation = list(value.params["dilation"])
    places = w.nodes_outputs(2, "MaxPool", x, dilations=dilation, **pool_settings(value))[1]
    rank = len(value.params["size"])
    plane = pointwise(lambda *n: math.prod(n), *shape_of(value)[-rank:])
    out = w.node("Mod", places, w.number(plane, INT64, value))
    return w.node("Reshape", out, w.integers(value.shape, value)) if is_reshaped else out


@translates("window_sum")
def translate_window_sum(w: OnnxWriter, value: TracedValue) -> str:
    """Sums of windows: their means, times the number of elements."""
    if (whole := reduce_whole(w, "ReduceSum", value)) is not None:
        return whole
    if any(d != 1 for d in value.params["dilation"]):
        raise OnnxExporterError(f"torch.onnx.export: {value.describe()} has dilated windows, which ONNX cannot add up")
    count = float(math.prod(value.require_fixed(value.params["size"])))
    value.require_fixed(value.params["extra"])
    mean = pool(w, "AveragePool", w.operand(value, 0), value, count_include_pad=1)
    return w.node("Mul", mean, w.scalar(count, value.dtype))


@translates("attention")
def translate_attention(w: OnnxWriter, value: TracedValue) -> str:
    """softmax(q kᵀ · scale + mask) v, with the heads behind the rows."""
    q, k, v = (w.operand(value, i) for i in range(3))
    c, rank = Calculator(w, value.dtype), len(value.shape)
    last = [*range(rank - 2), rank - 1, rank - 2]
    scaled = c("Mul", q, w.number(value.params["scale"], value.dtype, value))
    scores = c("MatMul", scaled, w.node("Transpose", k, perm=last))
    mask = value.inputs[3] if len(value.inputs) > 3 else None
    if mask is not None:
        given = w.operand(value, 3)
        scores = c("Where", given, scores, -math.inf) if mask.dtype == BOOL else c("Add", scores, given)
    if value.params["causal"]:
        rows, columns = (
            w.node("Range", *(w.number(n, INT64, value) for n in (0, shape_of(value, i)[-2], 1))) for i in (0, 1)
        )
        is_later = w.node("Greater", columns, w.node("Unsqueeze", rows, w.integers([1], value)))
        scores = c("Where", str(is_later), -math.inf, scores)
    weights = w.node("Softmax", scores, axis=-1)
    if mask is not None:  # a row that sees no key is 0
        best = reduce_axes(w, "ReduceMax", scores, (rank - 1,), True, value)
        weights = c("Where", c("Equal", best, -math.inf), 0.0, weights)
    out = c("MatMul", weights, v)
    return w.node("Transpose", out, perm=[*range(rank - 3), rank - 2, rank - 3, rank - 1])


@translates("resize")
def translate_resize(w: OnnxWriter, value: TracedValue) -> str:
    """An interpolation, by factors where these were given, else to sizes."""
    kind, aligned, scales = (value.params[key] for key in ("mode", "aligned", "scales"))
    settings: dict[str, Operand] = {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}
    if kind.startswith("nearest"):
        settings = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if kind == "nearest-exact":
            settings |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    elif kind == "bicubic":
        settings |= {"mode": "cubic", "cubic_coeff_a": -0.75, "coordinate_transformation_mode": "half_pixel"}
    if aligned:
        settings["coordinate_transformation_mode"] = "align_corners"
    if None not in scales:
        factors = w.constant(np.array([1.0, 1.0, *scales], np.float32))
        return w.node("Resize", w.operand(value, 0), "", factors, **settings)
    return w.node("Resize", w.operand(value, 0), "", "", w.integers(value.shape, value), **settings)


# Where the gates i, o, f, c and z, r, h of ONNX stand among i, f, g, o and r, z, n.
GATE_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
ACTIVATIONS = {"RNN_TANH": ["Tanh"], "RNN_RELU": ["Relu"]}


@translates("recurrence")
def translate_recurrence(w: OnnxWriter, value: TracedValue) -> str:
    """One direction of an LSTM, a GRU or an RNN; its last states are further outputs of the node."""
    kind, steps = value.params["kind"], value.params["steps"]
    names = ("" if x is None else w.operand(value, i) for i, x in enumerate(value.inputs))
    rows, w_ih, w_hh, b_ih, b_hh, *start = names
    hidden, batch = value.inputs[2].shape[1], value.inputs[5].shape[0]
    first = w.integers([0], value)

    def arrange(x: str) -> str:
        gates = GATE_ORDER[kind]
        if len(gates) == 1:
            return x
        order = np.concatenate([np.arange(hidden) + gate * hidden for gate in gates])
        return w.node("Gather", x, w.constant(order), axis=0)

    weights = [w.node("Unsqueeze", arrange(x), first) for x in (w_ih, w_hh)]
    bias = ""
    if b_ih:
        bias = w.node("Unsqueeze", w.node("Concat", arrange(b_ih), arrange(b_hh), axis=0), first)
    timed = w.node("Reshape", rows, w.integers([steps, batch, value.inputs[0].shape[1]], value))
    states = [w.node("Unsqueeze", s, first) for s in start]
    outputs = w.nodes_outputs(
        1 + len(states),
        kind.partition("_")[0],
        timed,
        *weights,
        bias,
        "",
        *states,
        hidden_size=hidden,
        direction="reverse" if value.params["reverse"] else "forward",
        activations=ACTIVATIONS.get(kind),
        linear_before_reset=1 if kind == "GRU" else None,
    )
    w.further_outputs[tuple(map(id, value.traces))] = outputs[1:]
    return w.node("Reshape", outputs[0], w.integers([-1, hidden], value))


@translates("recurrence_state")
def translate_recurrence_state(w: OnnxWriter, value: TracedValue) -> str:
    """A last state."""
    states = w.further_outputs[tuple(map(id, value.inputs[0].traces))]
    return w.node("Squeeze", states[value.params["part"]], w.integers([0], value))
