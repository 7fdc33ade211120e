"""What programs do with the stand-ins: scripts, groups of one process, profiles, trees, ops by name, older calls."""

import collections
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import jit
from adjoint.utils import _pytree as pytree
from adjoint.utils import benchmark


def test_jit_keeps_functions_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_noted", set())

    def double(x: Any) -> Any:
        return 2 * x

    with pytest.warns(UserWarning, match="stay plain Python"):
        assert jit.script(double) is double
    assert jit.trace(double, ad.ones(1)) is double
    assert jit.ignore(drop=True)(double) is jit.ignore(double) is jit.unused(double) is jit.export(double) is double
    assert jit.wait(jit.fork(double, 3)) == 6
    assert not jit.is_scripting()
    assert not jit.is_tracing()
    assert jit.annotate(int, 3) == 3
    assert jit.isinstance([1], list[int])
    assert_raises(NotImplementedError, "state_dict", jit.load, "model.pt")
    assert_raises(RuntimeError, "training mode", lambda: jit.freeze(ad.nn.Linear(1, 1)))


def test_what_is_said_of_shapes_changes_nothing() -> None:
    x = ad.ones(2)
    ad._dynamo.mark_static_address(x)
    ad._dynamo.mark_static(x)
    ad._dynamo.mark_dynamic(x, 0, min=1)
    assert ad.legacy_contiguous_format is ad.contiguous_format


Pair = collections.namedtuple("Pair", "left right")


def test_paths_in_trees() -> None:
    theirs = pytest.importorskip("torch.utils._pytree")
    tree = {"a": [1, (2, Pair(3, {"b": 4}))], "c": collections.OrderedDict(d=5), "e": []}
    for ours, same in zip(*(t.tree_flatten_with_path(tree)[0] for t in (pytree, theirs)), strict=True):
        assert ours[1] == same[1] == pytree.key_get(tree, ours[0])
        assert pytree.keystr(ours[0]) == theirs.keystr(same[0])
    shown = [t.tree_map_with_path(lambda kp, x, y, t=t: t.keystr(kp) * (x == y), tree, tree) for t in (pytree, theirs)]
    assert shown[0] == shown[1]
    specs = [t.tree_structure(tree) for t in (pytree, theirs)]
    assert specs[0].num_nodes == specs[1].num_nodes
    assert specs[0].num_children == specs[1].num_children == len(specs[0].children())
    assert specs[0].child(0).num_leaves == specs[1].child(0).num_leaves


def test_whether_a_transform_is_active() -> None:
    seen: list[bool] = []

    def square(x: Any) -> Any:
        seen.append(ad._C._are_functorch_transforms_active())
        return (x * x).sum()

    square(ad.ones(2))
    ad.func.vmap(square)(ad.ones(3, 2))
    ad.func.grad(square)(ad.ones(2))
    ad.func.jvp(square, (ad.ones(2),), (ad.ones(2),))
    square(ad.ones(2, requires_grad=True)).backward()
    assert seen == [False, True, True, True, False]


def test_asserting_of_a_tensor() -> None:
    ad._assert_async(ad.tensor(1))
    assert_raises(RuntimeError, "single nonzero value, but got zero", lambda: ad._assert_async(ad.tensor(0)))
    assert_raises(RuntimeError, r"^said$", lambda: ad._assert_async(ad.tensor([False]), "said"))


def test_a_profile_counts_blocks(tmp_path: Path) -> None:
    seen: list[int] = []
    plan = ad.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)

    def count_blocks(p: Any) -> None:
        seen.append(sum(event.name == "block" for event in p.events()))

    with ad.profiler.profile(schedule=plan, on_trace_ready=count_blocks) as profile:
        for _ in range(6):
            with ad.profiler.record_function("block"):
                ad.ones(2).sum()
            profile.step()
    assert seen == [2]
    seen.clear()
    with ad.profiler.profile(schedule=plan, on_trace_ready=lambda p: seen.append(p.step_num)) as profile:
        for _ in range(6):
            profile.step()
    assert seen == [4]  # the step that begins, as PyTorch has it
    with ad.autograd.profiler.profile() as profile:
        for _ in range(3):
            with ad.profiler.record_function("block"):
                pass
    (event,) = profile.key_averages()
    assert (event.key, event.count) == ("block", 3)
    assert event.cpu_time_total >= 0
    assert "block" in profile.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    assert [e.name for e in profile.function_events] == 3 * ["block"]
    assert profile.total_average().count == 3
    assert profile.self_cpu_time_total == profile.total_average().cpu_time_total
    assert (str(profile), profile.table().count("block")) == (profile.table(), 3)
    with ad.autograd.profiler.profile(False) as asleep, ad.profiler.record_function("block"):
        pass
    assert len(asleep.events()) == 0
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 6  # and three about the process


Pair = collections.namedtuple("Pair", "a b")
TREES: list[Any] = [
    1, None, [1, 2], (1, [2, {"a": 3}]), {"b": 1, "a": (2,)}, Pair(1, [2]), collections.OrderedDict(x=1, y=[2]),
    collections.deque([1, 2], maxlen=3), collections.defaultdict(list, {"a": 1}), [], {},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_trees_are_those_of_pytorch(tree: Any) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.utils._pytree
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == theirs.tree_flatten(tree)[0]
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert type(pytree.tree_unflatten(leaves, spec)) is type(tree)
    assert pytree.tree_map(str, tree) == theirs.tree_map(str, tree)
    assert pytree.tree_map(lambda x, y: (x, y), tree, tree) == theirs.tree_map(lambda x, y: (x, y), tree, tree)
    assert spec.num_leaves == len(leaves)
    assert isinstance(spec, pytree.LeafSpec) is isinstance(theirs.tree_flatten(tree)[1], theirs.LeafSpec)


def test_trees_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="1 leaves for a spec of 2"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    assert_raises(ValueError, "type mismatch", pytree.tree_map, max, [1], (2,))
    assert pytree.tree_map_only(int, lambda x: -x, [1, "a", (2,)]) == [-1, "a", (-2,)]


def test_an_op_by_name_has_the_gradient_that_it_was_given() -> None:
    @ad.library.custom_op("standins::cube", mutates_args=())
    def cube(x: ad.Tensor, times: int = 1) -> ad.Tensor:
        return ad.tensor(x.detach().numpy() ** 3) * times

    x = ad.tensor([2.0], requires_grad=True)
    assert not cube(x).requires_grad

    def backward(ctx: Any, g: Any) -> Any:
        (kept,) = ctx.saved_tensors
        return 3 * kept**2 * ctx.times * g, None

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.times = inputs[1]

    with ad.no_grad():
        assert ad.library.ops.standins.cube(x.detach(), times=2).item() == 16
    cube.register_fake(lambda x, times=1: x)
    ad.library.register_autograd("standins::cube", backward, setup_context=keep)
    y = ad.tensor([2.0], requires_grad=True)
    cube(y, 2).backward()
    assert y.grad.item() == 24


def test_two_dispatchers_disagree_and_the_first_answer_counts() -> None:
    class Answers:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__, [*types], args

    class Declines(Answers):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    @ad.overrides.wrap_torch_function(lambda a, b: (a, b))
    def add(a: Any, b: Any) -> Any:
        return a + b

    first, second = Answers(), Declines()
    assert add(1, 2) == 3
    assert not ad.overrides.has_torch_function((ad.ones(1), 1))
    assert add(first, second) == ("add", [Declines, Answers], (first, second))
    assert_raises(TypeError, "no implementation found for", add, second, 1)


OLDER = [
    "x.add(0.5, y)", "x.clone().add_(0.5, y)", "t.sub(x, 2, y)", "x.clone().sub_(2, y)", "x.addcmul(0.5, y, y)",
    "x.clone().addcmul_(0.5, y, y)", "x.clone().addcdiv_(-0.5, x, y)", "t.addcdiv(x, 2, x, y)",
]  # fmt: skip


@pytest.mark.parametrize("expression", OLDER)
def test_factors_of_old_come_ahead_of_the_operands(expression: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.warns(UserWarning, match="deprecated"):
        ours = eval(expression, {"t": ad, "x": ad.tensor([1.0, 2.0]), "y": ad.tensor([3.0, 4.0])})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = eval(expression, {"t": torch, "x": torch.tensor([1.0, 2.0]), "y": torch.tensor([3.0, 4.0])})
    assert ours.tolist() == theirs.tolist()


def test_parts_of_a_size_are_sizes() -> None:
    shape, tail = ad.ones(2, 3, 4).shape, (1,)
    assert shape[1:].numel() == 12
    for part in (shape[:-1], shape + tail, tail + shape, shape * 2, 2 * shape):
        assert type(part) is ad.Size
    assert type(shape[0]) is int


def test_types_without_tensors_can_be_named() -> None:
    assert ad.float8_e4m3fn is ad.float8_e4m3fn
    assert len({ad.float8_e4m3fn, ad.float8_e5m2, ad.float32}) == 3
    assert ad.float8_e4m3fn.is_floating_point
    assert ad.float8_e4m3fn.itemsize == 1
    assert_raises(TypeError, "no tensor can hold elements", ad.zeros, 2, dtype=ad.float8_e4m3fn)
    assert ad.sparse_coo != ad.strided


def test_default_type_by_a_constructor() -> None:
    try:
        with pytest.warns(UserWarning, match="deprecated"):
            ad.set_default_tensor_type(ad.DoubleTensor)
        assert ad.tensor(1.0).dtype is ad.float64
        with pytest.warns(UserWarning, match="deprecated"):
            ad.set_default_tensor_type("torch.FloatTensor")
        assert ad.tensor(1.0).dtype is ad.float32
        for wrong in (ad.LongTensor, 3):
            with pytest.warns(UserWarning, match="deprecated"), pytest.raises(TypeError, match="floating-point"):
                ad.set_default_tensor_type(wrong)
    finally:
        ad.set_default_dtype(ad.float32)


def test_a_timer_measures() -> None:
    measured = benchmark.Timer("x + 1", globals={"x": ad.ones(2)}).timeit(10)
    assert measured.number_per_run == 10
    assert 0 < measured.median == measured.mean
    assert "median" in repr(measured)


def test_hub_reads_what_has_been_downloaded(tmp_path: Path) -> None:
    before = ad.hub.get_dir()
    ad.hub.set_dir(tmp_path)
    try:
        with pytest.raises(NotImplementedError, match="nothing is downloaded"):
            ad.hub.load_state_dict_from_url("https://example.org/net-0123.pth")
        (tmp_path / "checkpoints").mkdir()
        ad.save({"w": ad.ones(2)}, tmp_path / "checkpoints" / "net-0123.pth")
        assert ad.hub.load_state_dict_from_url("https://example.org/net-0123.pth")["w"].tolist() == [1, 1]
    finally:
        ad.hub.set_dir(before)
    assert_raises(NotImplementedError, "nothing is downloaded", ad.hub.load, "owner/repository", "net")


def test_an_optimizer_that_only_borrows_the_class_steps() -> None:
    class Outer(ad.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            self.inner = inner
            self.param_groups = inner.param_groups

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    w = ad.ones(2, requires_grad=True)
    w.sum().backward()
    Outer(ad.optim.SGD([w], lr=0.5)).step()
    assert w.tolist() == [0.5, 0.5]


PLAIN = [
    "t.detach(x).requires_grad", "t.embedding(w, i).tolist()", "t.embedding(w, i, 1).tolist()",
    "t.group_norm(w.reshape(2, 2, 1), 1, eps=0.5).tolist()", "t.rms_norm(w, (2,), eps=0.5).tolist()",
    "t.sym_max(1, 2.5)", "t.sym_min(1, 2.5)", "type(t.sym_min(1, 2.5))", "t.sym_int(-2.5)", "t.sym_float(2)",
    "t.sym_not(True)", "t.sym_ite(True, 1, 2)", "t.sym_sum([1, 2])", "x[t.newaxis].shape[0]", "t.sym_sqrt(4)",
]  # fmt: skip


@pytest.mark.parametrize("expression", PLAIN)
def test_functions_of_the_top_level_are_those_of_pytorch(expression: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (
        eval(expression, {
            "t": library, "x": library.ones(2, requires_grad=True), "w": library.tensor([[0.5, 1.0], [2.0, 4.0]]),
            "i": library.tensor([1, 0]),
        })
        for library in (ad, torch)
    )  # fmt: skip
    assert type(ours) is type(theirs)
    if isinstance(ours, list):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    else:
        assert ours == theirs


def test_rows_of_an_embedding_get_a_gradient_but_for_the_padding() -> None:
    w = ad.ones(3, 2, requires_grad=True)
    ad.embedding(w, ad.tensor([0, 0, 2]), 2).sum().backward()
    assert w.grad.tolist() == [[2, 2], [0, 0], [0, 0]]


def test_the_only_variant_of_an_op_is_its_default() -> None:
    @ad.library.custom_op("standins::twice", mutates_args=())
    def twice(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    assert ad.library.ops.standins.twice.default(ad.ones(2)).tolist() == [2, 2]
    assert ad.library.ops.standins.twice.overloads() == ["default"]
    assert twice.default is twice
