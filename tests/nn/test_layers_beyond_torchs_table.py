"""Layers that PyTorch's table of modules lacks: unpooling, tables in bags, rare classes, one device of many, dicts."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

torch = pytest.importorskip("torch")


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def both(text: str, *inputs: Any, call: str = "module(*inputs)") -> tuple[Any, Any]:
    """Our module and PyTorch's, which say, give and differentiate the same: a line of Python makes them."""
    made = []
    for library in (torch, ad):
        library.manual_seed(5)
        module = eval(text, {"nn": library.nn})
        tensors = [library.from_numpy(x.copy()) for x in inputs]
        leaves = [x.requires_grad_() for x in tensors if x.is_floating_point()]
        library.manual_seed(6)
        out = eval(call, {"module": module, "inputs": tensors, "F": library.nn.functional})
        results = [*out] if isinstance(out, tuple) else [out]
        wanted = [*leaves, *module.parameters()]
        graded = [(y * y.detach().cos()).sum() for y in results if y.requires_grad]
        gradients = library.autograd.grad(sum(graded), wanted, allow_unused=True) if graded and wanted else ()
        made.append((module, [*results, *gradients]))
    (theirs, expected), (module, found) = made
    assert (repr(module), list(module.state_dict())) == (repr(theirs), list(theirs.state_dict()))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        x, y = (0.0 if t is None else t.detach().numpy() for t in (a, b))
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(copied) == repr(module)
    return module, theirs


IMAGE, INDICES = drawn(2, 4, 6, 6), np.array([[1, 0, 3], [2, 2, 0]])
LINES: list[tuple[str, tuple[Any, ...]]] = [
    ("nn.AlphaDropout(0.3)", (IMAGE,)),
    ("nn.FeatureAlphaDropout(0.3)", (IMAGE,)),
    ("nn.RReLU(0.1, 0.4)", (IMAGE,)),
    ("nn.RReLU().eval()", (IMAGE,)),
    ("nn.ChannelShuffle(2)", (IMAGE,)),
    ("nn.Fold((6, 6), 2, stride=2)", (drawn(2, 12, 9),)),
    ("nn.Unfold((2, 3), 2, 1, 2)", (IMAGE,)),
    ("nn.SyncBatchNorm(4)", (IMAGE,)),
    ("nn.DataParallel(nn.Linear(6, 2))", (IMAGE,)),
    ("nn.TripletMarginWithDistanceLoss(swap=True, margin=0.5)", tuple(drawn(4, 5, seed=i) for i in range(3))),
    ("nn.EmbeddingBag(4, 3)", (INDICES,)),
    ("nn.EmbeddingBag(4, 3, mode='sum', padding_idx=2)", (INDICES,)),
    ("nn.EmbeddingBag(4, 3, max_norm=1.0, mode='max')", (INDICES,)),
    ("nn.EmbeddingBag(4, 3, include_last_offset=True)", (INDICES.ravel(), np.array([0, 2, 2, 6]))),
    ("nn.Embedding(4, 3, -1, 1.0, 1.0, True)", (INDICES,)),
    ("nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2.0)", (drawn(7, 8), np.arange(7))),
    ("nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3], head_bias=True)", (drawn(8), np.array(4))),
    ("nn.Conv2d(4, 3, 3, padding=1, padding_mode='reflect')", (IMAGE,)),
    ("nn.Conv2d(4, 3, (2, 3), padding='same', padding_mode='circular')", (IMAGE,)),
    ("nn.Conv1d(4, 3, 3, padding=2, dilation=2, padding_mode='replicate')", (drawn(2, 4, 6),)),
    ("nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, False, 2)", (IMAGE,)),
    ("nn.ConvTranspose1d(4, 3, 3, stride=1, dilation=3, output_padding=2, padding=1)", (drawn(2, 4, 6),)),
]


@pytest.mark.parametrize(("text", "inputs"), LINES, ids=[text for text, _ in LINES])
def test_ours_is_pytorchs(text: str, inputs: Any) -> None:
    both(text, *inputs)


@pytest.mark.parametrize("settings", ["3, 0.5", "4, 0.5, 0.6, 1.5", "1"])
def test_channels_hold_each_other_back(settings: str) -> None:
    # PyTorch's gradient of this old layer is not that of what it computes
    both(f"nn.CrossMapLRN2d({settings})", IMAGE, call="module(*inputs).detach()")


def test_frequencies_divide_the_gradients_of_bags() -> None:
    # PyTorch's counts of the rows of a bag are those of other rows
    bag = nn.EmbeddingBag(4, 3, mode="sum", scale_grad_by_freq=True)
    table = nn.Embedding(4, 3, scale_grad_by_freq=True, _weight=bag.weight.detach())
    at, factors = ad.from_numpy(INDICES), ad.arange(6.0).reshape(2, 3)
    (bag(at) * factors).sum().backward()
    (table(at).sum(1) * factors).sum().backward()
    assert bag.weight.grad.tolist() == table.weight.grad.tolist()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_puts_back_what_pooling_took(rank: int) -> None:
    x = drawn(2, 3, *[7] * rank)
    call = f"module(*F.max_pool{rank}d(inputs[0], 2, return_indices=True), output_size=inputs[0].shape)"
    both(f"nn.MaxUnpool{rank}d(2)", x, call=call)
    pooled = F.max_pool1d(ad.ones(1, 1, 8), 2, return_indices=True)
    assert_raises(ValueError, "invalid output_size", lambda: nn.MaxUnpool1d(2)(*pooled, output_size=[11]))


def test_a_transposed_convolution_of_a_wanted_size() -> None:
    both("nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)", IMAGE, call="module(inputs[0], output_size=(12, 11))")
    with pytest.raises(ValueError, match="requested an output size of"):
        nn.ConvTranspose2d(4, 3, 3, stride=2)(ad.ones(1, 4, 2, 2), output_size=[9, 9])


def test_rare_classes() -> None:
    x = drawn(5, 8)
    module, theirs = both("nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2)", x, call="module.log_prob(inputs[0])")
    assert module.predict(ad.from_numpy(x)).tolist() == theirs.predict(torch.from_numpy(x)).tolist()
    with pytest.raises(ValueError, match="cutoffs should be a sequence of unique, positive integers"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 10, [6, 3])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 9\]"):
        module(ad.from_numpy(x), ad.tensor([0, 1, 2, 3, 10]))


def test_batch_normalisations_become_synchronised_ones() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4, affine=False)))
    x = ad.randn(5, 3)
    model(x)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    weight = model[1].weight
    made: Any = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(m).__name__ for m in made.modules() if "Norm" in type(m).__name__] == ["SyncBatchNorm"] * 2
    assert made[1].weight is weight
    assert list(made.state_dict()) == list(state)
    assert all((value == state[key]).all() for key, value in made.state_dict().items())


def test_a_dict_of_parameters() -> None:
    held: dict[Any, Any] = {}
    for library in (torch, ad):
        made: Any = library.nn.ParameterDict({"b": library.ones(2), "a": library.nn.Parameter(library.zeros(2, 3))})
        made.update([("c", 5)])
        made["d"] = library.ones(1)
        popped = made.popitem()
        both_ways = made | library.nn.ParameterDict({"e": library.ones(1)})
        held[library.__name__] = (
            list(made), list(made.keys()), len(made), "a" in made, popped[0], list(made.state_dict()), made.get("z", 7),
            repr(made).replace("adjoint.", "torch.").replace("torch.FloatTensor", "torch.float32"), list(both_ways),
            list(reversed(made)), [n for n, _ in made.named_parameters()], made.setdefault("f", 1), made.pop("c"),
        )  # fmt: skip
        with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
            library.nn.ParameterDict()[1] = library.ones(1)
        assert_raises(ValueError, "2 is required", made.update, [("a", 1, 2)])
        made.clear()
        assert not len(made)
        assert not list(made.parameters())
    assert held["adjoint"] == held["torch"]


def test_old_names_warn() -> None:
    with pytest.warns(FutureWarning, match="nn.Container is deprecated"):
        made = nn.Container(a=nn.Linear(1, 1))
    assert [name for name, _ in made.named_children()] == ["a"]
    with pytest.warns(FutureWarning, match="NLLLoss2d has been deprecated"):
        assert nn.NLLLoss2d()(ad.zeros(1, 2, 1, 1), ad.zeros(1, 1, 1, dtype=ad.int64)).item() == 0
    for name in ("upsample", "upsample_nearest"):
        with pytest.warns(UserWarning, match=f"`nn.functional.{name}` is deprecated"):
            assert getattr(F, name)(ad.ones(1, 1, 2, 2), 4).shape == (1, 1, 4, 4)


def test_the_maximum_of_a_bag_has_no_sparse_gradient() -> None:
    layer = nn.EmbeddingBag(3, 2, sparse=True, mode="max")
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        layer(ad.tensor([[0, 1]]))


def test_weighted_losses() -> None:
    x, y, w = drawn(3, 4), drawn(3, 4, seed=1), np.abs(drawn(3, 4, seed=2))
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        for reduction in ("mean", "sum", "none"):
            given = [
                getattr(library.nn.functional, name)(
                    *map(library.from_numpy, (x, y)), reduction=reduction, weight=library.from_numpy(w)
                )
                for library in (torch, ad)
            ]
            np.testing.assert_allclose(given[1].numpy(), given[0].numpy(), rtol=1e-5)


def test_losses_of_others_ask_for_their_reduction() -> None:
    import adjoint.nn._reduction as ours

    theirs = torch.nn._reduction
    assert [ours.get_enum(name) == theirs.get_enum(name) for name in ("none", "mean", "sum")] == [True] * 3
    flags = (None, True, False)
    for pair in [(a, b) for a in flags for b in flags]:
        assert ours.legacy_get_string(*pair, emit_warning=False) == theirs.legacy_get_string(*pair, emit_warning=False)
        assert ours.legacy_get_enum(*pair, emit_warning=False) == theirs.legacy_get_enum(*pair, emit_warning=False)
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        ours.legacy_get_string(False, None)
    with pytest.warns(UserWarning, match="elementwise_mean"):
        assert ours.get_enum("elementwise_mean") == 1
    assert_raises(ValueError, "is not a valid value for reduction", ours.get_enum, "middle")
    assert F._Reduction.get_enum("sum") == 2


def test_modules_of_one_device_are_applied_in_turn() -> None:
    from adjoint.nn.parallel import parallel_apply, replicate

    layer = nn.Linear(2, 3)
    copies = replicate(layer, [0, 1])
    assert copies == [layer, layer]
    outputs = parallel_apply(copies, [ad.ones(4, 2), (ad.zeros(4, 2),)])
    assert ad.equal(outputs[1], layer(ad.zeros(4, 2)))
    named = parallel_apply([layer], [()], [{"input": ad.ones(2)}])
    assert ad.equal(named[0], layer(ad.ones(2)))
    assert_raises(AssertionError, "is not equal to the number of inputs", lambda: parallel_apply(copies, [ad.ones(2)]))
