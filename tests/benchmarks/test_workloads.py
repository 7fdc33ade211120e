"""Each workload, at a size that takes no time, computes the same eagerly, compiled, in PyTorch and in JAX."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.variants import EAGER, OURS, VARIANTS, difference, numbers
from benchmarks.workloads import TINY, WORKLOADS, cnn, gpt, mlp, resnet
from benchmarks.workloads.workload import NotYet, Workload, loaded

import adjoint as ad
from adjoint.compiler.passes.cost_model import flops

STEPS = 3
needs_llvmlite = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")


def results(workload: Workload, variant: str) -> list[list[float]]:
    """Of a few calls, each on another batch where there are several."""
    start, way = workload.start(), VARIANTS[variant]
    step = way.make(workload, start)
    assert step is not None
    batches = [start.batches[k % len(start.batches)] for k in range(STEPS)]
    return [numbers(step(*map(way.array, batch))) for batch in batches]


def ways() -> Iterator[Any]:
    """Each workload with each way that it has, but for those that call a C++ compiler."""
    for name, workload in TINY.items():
        for way, variant in VARIANTS.items():
            if way == EAGER or way.startswith("torch.compile") or ("fused" in way and workload.fused is None):
                continue
            marks = [needs_llvmlite] * (way == OURS) + [pytest.mark.nightly] * (variant.package == "jax")
            yield pytest.param(name, way, marks=marks, id=f"{name}, {way}")


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch.func calls it
@pytest.mark.parametrize(("name", "variant"), list(ways()))
def test_every_way_computes_what_eager_computes(name: str, variant: str) -> None:
    pytest.importorskip(VARIANTS[variant].package)
    found, expected = results(TINY[name], variant), results(TINY[name], EAGER)
    assert difference(found, expected) < 1e-5
    assert all(map(any, expected)), "zeros would show little"


@pytest.mark.parametrize("name", [name for name, workload in TINY.items() if workload.fused is not None])
def test_training_changes_the_loss(name: str) -> None:
    workload = TINY[name]
    start = workload.start()
    step = workload.step(ad, start)
    batch = tuple(map(ad.tensor, start.batches[0]))
    losses = [step(*batch).item() for _ in range(20)]
    assert losses[-1] < 0.999 * losses[0]


def test_the_tiny_ones_are_all_of_them() -> None:
    assert {name.split("-")[0] for name in WORKLOADS} == {name.split("-")[0] for name in TINY}


@needs_llvmlite
@pytest.mark.parametrize("workload", [mlp.TINY, cnn.TINY, resnet.TINY], ids=lambda workload: workload.name)
def test_formula_counts_what_the_products_of_the_graph_cost(workload: Workload) -> None:
    start = workload.start()
    step = ad.compile(workload.step(ad, start))
    step(*map(ad.tensor, start.batches[0]))
    products = [v for v in step.graph.equations if v.op.family in ("contraction", "convolution")]
    update = workload.work().flops - sum(flops(v) or 0 for v in products)
    weights = sum(w.size for w in start.weights.values())
    assert update in (4 * weights, 6 * weights)  # two flops for the weight and for each moment


def test_gpt_384_has_the_flops_of_its_parameters() -> None:
    """6 flops for each weight of a product and each token (Kaplan et al. 2020, section 2.1), and attention."""
    size = gpt.GPT(layers=6, heads=6, width=384, block=256, symbols=65, batch=4)
    weights = sum(w.size for name, w in gpt.weights(size).items() if w.ndim == 2 and "symbols" not in name)
    weights -= size.block * size.width  # the places are looked up, not multiplied
    attention = 3 * 4 * size.layers * size.width * (size.block + 1) / 2
    assert 3 * gpt.forward_flops(size) == pytest.approx(size.batch * size.block * (6 * weights + attention))


def test_what_a_library_lacks_is_told() -> None:
    with pytest.raises(NotYet, match="nothing_like_it"):
        gpt.needed(ad.nn.functional, "nothing_like_it")


def test_weights_must_be_those_of_the_model() -> None:
    with pytest.raises(ValueError, match=r"there are weights for \['0.weight'\]"):
        loaded(ad, ad.nn.Linear(2, 2), {"0.weight": None})
