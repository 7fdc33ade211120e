"""MultiheadAttention and the Transformer against PyTorch's: first values, outputs, gradients, masks, errors."""

import warnings
from typing import Any

import numpy as np
import pytest
from tests.nn.layers.test_recurrent import leaf, made, pulled
from tests.support.oracle import equal, torch

import adjoint as ad
from adjoint import nn

L, S, N, E, HEADS = 4, 5, 3, 8, 2
INF = float("inf")
ATTENTION = [
    "MultiheadAttention(8, 2)", "MultiheadAttention(8, 2, bias=False)", "MultiheadAttention(8, 4, batch_first=True)",
    "MultiheadAttention(8, 2, dropout=0.4)", "MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)",
    "MultiheadAttention(8, 2, 0.3, True, True, False, batch_first=True)",
    "MultiheadAttention(8, 2, kdim=6, vdim=3)", "MultiheadAttention(8, 2, vdim=6, add_zero_attn=True, bias=False)",
]  # fmt: skip
LAYERS = [
    "TransformerEncoderLayer(8, 2, 12, 0.0)", "TransformerEncoderLayer(8, 2, 12, activation='gelu', norm_first=True)",
    "TransformerEncoderLayer(8, 2, 12, 0.2, lib.nn.functional.silu, batch_first=True, bias=False)",
    "TransformerDecoderLayer(8, 2, 12, 0.0)", "TransformerDecoderLayer(8, 2, 12, norm_first=True, batch_first=True)",
    "TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 12, 0.1), 2)",
    "TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2, lib.nn.LayerNorm(8), False)",
    "TransformerDecoder(lib.nn.TransformerDecoderLayer(8, 2, 12), 2, lib.nn.LayerNorm(8))",
    "Transformer(8, 2, 2, 1, 12)", "Transformer(8, 2, 1, 2, 12, 0.0, 'gelu', batch_first=True, norm_first=True)",
    "Transformer(8, 2, 1, 1, 12, 0.0, bias=False, layer_norm_eps=1e-3)",
]  # fmt: skip


def built(library: Any, text: str, dtype: str = "float64") -> Any:
    """The module; PyTorch warns where it can not use its nested tensors."""
    with warnings.catch_warnings():
        if library is torch:
            warnings.simplefilter("ignore")
        return made(library, text, dtype)


@pytest.mark.parametrize("text", ATTENTION + LAYERS)
def test_first_values_state_and_repr(text: str) -> None:
    ours, theirs = built(ad, text, "float32"), built(torch, text, "float32")
    assert repr(ours) == repr(theirs)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy(), strict=True)


def masks(library: Any, kind: str, rows: int, columns: int) -> dict[str, Any]:
    """Masks of a kind, each query left some key."""
    truths = np.random.default_rng(1).random((N, columns)) < 0.4
    truths[:, 0] = False
    square = np.random.default_rng(2).random((rows, columns)) < 0.4
    square[:, 0] = False
    cube = np.random.default_rng(3).normal(size=(N * HEADS, rows, columns))
    made = {
        "none": {}, "padding": {"key_padding_mask": truths}, "truths": {"attn_mask": square},
        "numbers": {"attn_mask": np.where(square, -INF, 0.5)},
        "both": {"key_padding_mask": truths, "attn_mask": square},
        "cube": {"attn_mask": cube, "key_padding_mask": np.where(truths, -INF, 0.0)},
        "causal": {"attn_mask": np.triu(np.full((rows, columns), -INF), 1), "is_causal": True},
        "causal padding": {"attn_mask": ~np.tri(rows, columns, dtype=bool), "key_padding_mask": truths,
                           "is_causal": True},
    }[kind]  # fmt: skip
    return {name: value if value is True else library.tensor(value) for name, value in made.items()}


MASKS = ["none", "padding", "truths", "numbers", "both", "cube", "causal", "causal padding"]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("text", ATTENTION)
def test_attention_to_others(text: str, kind: str, need_weights: bool) -> None:
    if kind == "cube" and "8, 4" in text:
        text = text.replace("8, 4", "8, 2")
    results = []
    for library in (ad, torch):
        module = built(library, text)
        sizes = ((L, N, E), (S, N, module.kdim), (S, N, module.vdim))
        given = [leaf(library, *(shape[:2][::-1] if module.batch_first else shape[:2]), shape[2]) for shape in sizes]
        given[2] = given[1] if module._qkv_same_embed_dim and "add" in text else given[2]
        library.manual_seed(1)
        out = module(*given, need_weights=need_weights, **masks(library, kind, L, S))
        assert (out[1] is None) is not need_weights
        results.append(pulled(library, out, given, module))
    equal(*results)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("text", [text for text in ATTENTION if "dim" not in text])
def test_attention_to_itself(text: str, kind: str, need_weights: bool, training: bool) -> None:
    text = text.replace("8, 4", "8, 2")
    results = []
    for library in (ad, torch):
        module = built(library, text).train(training)
        x = leaf(library, *((N, L) if module.batch_first else (L, N)), E)
        library.manual_seed(1)
        chosen = masks(library, kind, L, L)
        out = module(x, x, x, need_weights=need_weights, average_attn_weights=False, **chosen)
        results.append(pulled(library, out, [x], module))
    equal(*results)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("text", ATTENTION[:5])
def test_a_lone_sequence(text: str, need_weights: bool) -> None:
    results = []
    for library in (ad, torch):
        module = built(library, text)
        x, y = leaf(library, L, E), leaf(library, S, E)
        masked = {
            "key_padding_mask": library.tensor([False, True, False, False, True]),
            "attn_mask": library.tensor(np.zeros((module.num_heads, L, S), bool)),
        }
        library.manual_seed(1)
        out = [*module(x, y, y, need_weights=need_weights, **masked), *module(x, x, x, need_weights=need_weights)]
        results.append(pulled(library, out, [x, y], module))
    equal(*results)


def test_a_query_without_keys() -> None:
    results = []
    for library in (ad, torch):
        module = built(library, "MultiheadAttention(8, 2)")
        x = leaf(library, L, N, E)
        nothing = library.ones(N, L) > 0
        results += [module(x, x, x, nothing, need_weights)[0] for need_weights in (True, False)]
    assert np.isnan(results[0].detach().numpy()).all()
    equal(results[:2], results[2:])


@pytest.mark.parametrize("static", ["k", "v", "kv"])
def test_static_keys_and_values(static: str) -> None:
    results = []
    for library in (ad, torch):
        m = built(library, "MultiheadAttention(8, 2)")
        x, k, v = leaf(library, L, N, E), leaf(library, N * HEADS, L, 4), leaf(library, N * HEADS, L, 4)
        out = library.nn.functional.multi_head_attention_forward(
            x, x, x, E, HEADS, m.in_proj_weight, m.in_proj_bias, None, None, True, 0.0, m.out_proj.weight,
            m.out_proj.bias, static_k=k if "k" in static else None, static_v=v if "v" in static else None,
        )  # fmt: skip
        results.append(pulled(library, out, [x, k, v], m))
    equal(*results)


def called(library: Any, text: str, kind: str) -> list[Any]:
    """A layer of the Transformer, or all of it, applied with masks of a kind: what came out, and all gradients."""
    module = built(library, text)
    first = "batch_first=True" in text
    x = leaf(library, *((N, L) if first else (L, N)), E)
    y = leaf(library, *((N, S) if first else (S, N)), E)
    own, other = masks(library, kind, L, L), masks(library, kind, S, S)
    library.manual_seed(1)
    if "Encoder" in text:
        names = {"key_padding_mask": "src_key_padding_mask", "is_causal": "is_causal"}
        mask = "mask" if text.startswith("TransformerEncoder(") else "src_mask"
        out = module(x, **{names.get(name, mask): value for name, value in own.items()})
        leaves = [x]
    else:
        across = masks(library, kind, L, S)
        across.pop("is_causal", None)
        given = {f"tgt_{name.removeprefix('attn_')}": value for name, value in own.items()}
        given |= {f"memory_{name.removeprefix('attn_')}": value for name, value in across.items()}
        if text.startswith("Transformer("):
            given |= {f"src_{name.removeprefix('attn_')}": value for name, value in other.items()}
            out, leaves = module(y, x, **given), [x, y]
        else:
            out, leaves = module(x, y, **given), [x, y]
    return pulled(library, out, leaves, module)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("text", LAYERS)
def test_layers_of_the_transformer(text: str, kind: str) -> None:
    equal(called(ad, text, kind), called(torch, text, kind), factor=10)


@pytest.mark.parametrize("text", LAYERS)
def test_in_evaluation(text: str) -> None:
    results = []
    for library in (ad, torch):
        module = built(library, text).eval()
        first = "batch_first=True" in text
        x = leaf(library, *((N, L) if first else (L, N)), E)
        with library.no_grad():
            results.append(module(x) if "Encoder" in text else module(x, x))
    equal(*results, factor=10)


def test_causal_masks() -> None:
    for dtype in ("float32", "float64"):
        ours, theirs = (
            lib.nn.Transformer.generate_square_subsequent_mask(3, dtype=getattr(lib, dtype)) for lib in (ad, torch)
        )
        equal(ours, theirs)


def test_a_causal_mask_is_found_without_the_hint() -> None:
    x = leaf(ad, L, N, E)
    module = built(ad, "TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 12, 0.0), 2)")
    mask = nn.Transformer.generate_square_subsequent_mask(L).double()
    np.testing.assert_allclose(
        module(x, mask).detach().numpy(), module(x, mask, is_causal=True).detach().numpy(), rtol=1e-12
    )


A, T = "MultiheadAttention(8, 2)", "Transformer(8, 2, 1, 1, 12)"
X, Y = "lib.ones(4, 3, 8)", "lib.ones(4, 8)"
ERRORS = [
    "MultiheadAttention(0, 2)", "MultiheadAttention(8, 0)", "MultiheadAttention(8, 3)",
    f"{A}(*[lib.ones(8)] * 3)", f"{A}({X}, {Y}, {X})", f"{A}({Y}, {Y}, {X})",
    f"{A}({X}, {X}, {X}, key_padding_mask=lib.ones(4))", f"{A}({Y}, {Y}, {Y}, key_padding_mask=lib.ones(1, 4))",
    f"{A}({X}, {X}, {X}, attn_mask=lib.ones(4))", f"{A}({Y}, {Y}, {Y}, attn_mask=lib.ones(4))",
    f"{A}({Y}, {Y}, {Y}, attn_mask=lib.ones(3, 4, 4))", f"{A}({X}, {X}, {X}, is_causal=True)",
    f"{A}(*[lib.ones(4, 3, 6)] * 3)", f"{A}({X}, lib.ones(5, 3, 8), {X})",
    f"{A}({X}, {X}, {X}, key_padding_mask=lib.ones(3, 4).long())",
    f"{A}({X}, {X}, {X}, key_padding_mask=lib.ones(3, 5))", f"{A}({X}, {X}, {X}, key_padding_mask=lib.ones(2, 4))",
    "MultiheadAttention(8, 2, kdim=6)(lib.ones(4, 3, 8), lib.ones(5, 3, 6), lib.ones(4, 3, 8))",
    "MultiheadAttention(8, 2, kdim=6)(lib.ones(4, 3, 8), lib.ones(5, 3, 5), lib.ones(5, 3, 8))",
    "TransformerEncoderLayer(8, 2, 12, activation='exp')", "TransformerDecoderLayer(8, 2, 12, activation='exp')",
    f"{T}({X}, lib.ones(4, 2, 8))", f"{T}({X}, lib.ones(4, 3, 6))",
]  # fmt: skip


def raised(library: Any, text: str) -> tuple[type[Exception], str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(f"lib.nn.{text}", {"lib": library})
        except (ValueError, RuntimeError, AssertionError) as error:
            return type(error), str(error).replace("torch.Size([", "(").replace("])", ")")
    raise AssertionError(f"{library.__name__} raises nothing")


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_pytorchs(text: str) -> None:
    assert raised(ad, text) == raised(torch, text)


@pytest.mark.parametrize("text", [
    f"{A}({X}, {X}, {X}, attn_mask=lib.ones(4, 5))", f"{A}({X}, {X}, {X}, attn_mask=lib.ones(3, 4, 4))",
])  # fmt: skip
def test_errors_of_the_same_class(text: str) -> None:
    ours, theirs = raised(ad, text), raised(torch, text)
    assert ours[0] is theirs[0]
    assert ours[1].partition("attn_mask")[0] == theirs[1].partition("attn_mask")[0]


@pytest.mark.parametrize(("given", "message"), [
    ({"bias_k": ad.ones(1, 1, 8)}, "bias_k is set but bias_v is None"),
    ({"bias_v": ad.ones(1, 1, 8)}, "bias_v is set but bias_k is None"),
    ({"bias_k": ad.ones(1, 1, 8), "bias_v": ad.ones(1, 1, 8), "static_k": ad.ones(6, 4, 4)}, "added to static key"),
    ({"bias_k": ad.ones(1, 1, 8), "bias_v": ad.ones(1, 1, 8), "static_v": ad.ones(6, 4, 4)}, "added to static value"),
    ({"in_proj_weight": None}, "use_separate_proj_weight is False but in_proj_weight is None"),
    ({"use_separate_proj_weight": True}, "use_separate_proj_weight is True but q_proj_weight is None"),
    ({"num_heads": 3}, "embed_dim 8 not divisible by num_heads 3"),
    ({"static_k": ad.ones(5, 4, 4)}, r"expecting static_k.size\(0\) of 6, but got 5"),
    ({"static_v": ad.ones(6, 4, 3)}, r"expecting static_v.size\(2\) of 4, but got 3"),
])  # fmt: skip
def test_errors_of_the_function(given: dict[str, Any], message: str) -> None:
    x = ad.ones(4, 3, 8)
    arguments = {
        "query": x, "key": x, "value": x, "embed_dim_to_check": 8, "num_heads": 2, "in_proj_weight": ad.ones(24, 8),
        "in_proj_bias": None, "bias_k": None, "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0,
        "out_proj_weight": ad.ones(8, 8), "out_proj_bias": None,
    }  # fmt: skip
    with pytest.raises(AssertionError, match=message):
        nn.functional.multi_head_attention_forward(**(arguments | given))


def test_masks_of_two_types_are_warned_of() -> None:
    for library in (ad, torch):
        module = library.nn.MultiheadAttention(8, 2)
        x = library.ones(4, 3, 8)
        with pytest.warns(UserWarning, match="Support for mismatched key_padding_mask and attn_mask is deprecated"):
            module(x, x, x, key_padding_mask=library.ones(3, 4) > 2, attn_mask=library.zeros(4, 4))


def test_layers_are_told_that_a_mask_is_causal() -> None:
    told: list[Any] = []
    x, mask = ad.ones(2, 3, 4), nn.Transformer.generate_square_subsequent_mask(3)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), 1)
    for stack, name in ((encoder, "is_causal"), (decoder, "tgt_is_causal")):
        stack.layers[0].register_forward_pre_hook(
            lambda _, args, named, name=name: told.append(named[name]), with_kwargs=True
        )
        for given, hint in ((mask, None), (mask.bool(), None), (mask, False), (ad.zeros(3, 3), None), (None, None)):
            if stack is encoder:
                stack(x, given, is_causal=hint)
            else:
                stack(x, x, given, tgt_is_causal=hint)
    assert told == [True, True, False, False, False] * 2


def test_a_causal_mask_of_another_length_is_refused() -> None:
    mask, x = nn.Transformer.generate_square_subsequent_mask(6), ad.ones(2, 4, 8)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8, batch_first=True), 1)
    for call in (lambda: encoder(x, mask), lambda: decoder(x, x, tgt_mask=mask)):
        with pytest.raises(RuntimeError, match=r"\[6, 6\]\), but should be \(4, 4\)"):
            call()
