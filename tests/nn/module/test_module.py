"""Modules: registration, names, copies, modes, conversion, errors, versions; against PyTorch where it says the same."""

import copy
import inspect
import pickle
from collections import OrderedDict
from typing import Any, get_type_hints

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn
from adjoint.nn.module.from_function import FunctionModule, make_module_class


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = nn.Parameter(ad.ones(1))
        self.register_buffer("count", ad.zeros(1))
        self.register_buffer("cache", ad.zeros(2), persistent=False)
        self.factor = 2.0

    def forward(self, x: Any) -> Any:
        return self.fc(x) * self.scale * self.factor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(), nn.ReLU(), Block())
        self.head = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x))


def test_registration_by_assignment() -> None:
    block = Block()
    assert (list(block._parameters), list(block._modules)) == (["scale"], ["fc"])
    assert list(block._buffers) == ["count", "cache"]
    block.other = nn.Parameter(ad.zeros(2))
    block.tensor = ad.zeros(2)
    block.kept = nn.Buffer(ad.zeros(2))
    block.lost = nn.Buffer(ad.zeros(2), persistent=False)
    assert {"factor", "tensor"} <= set(block.__dict__)
    assert list(block._parameters) == ["scale", "other"]
    assert list(block._buffers) == ["count", "cache", "kept", "lost"]
    assert list(block.state_dict()) == ["scale", "other", "count", "kept", "fc.weight", "fc.bias"]


def test_a_name_belongs_to_one_kind() -> None:
    block = Block()
    block.factor, block.cache, block.fc = nn.Parameter(ad.zeros(1)), nn.Linear(1, 1), nn.Parameter(ad.zeros(1))
    for name, place in (
        ("factor", block.__dict__), ("cache", block._buffers), ("cache", block._non_persistent_buffers_set),
        ("fc", block._modules),
    ):  # fmt: skip
        assert name not in place
    for value in (nn.Buffer(ad.zeros(1)), nn.Linear(1, 1), ad.zeros(1)):
        assert_raises(TypeError, "as parameter 'scale'", setattr, block, "scale", value)


def test_none_keeps_a_place() -> None:
    block = Block()
    block.scale = block.fc = block.count = None
    assert block.scale is None
    assert (list(block._parameters), list(block.state_dict()), [*block.modules()]) == (["scale"], [], [block])
    block.scale = nn.Parameter(ad.ones(1))
    assert [n for n, _ in block.named_parameters()] == ["scale"]


def test_delete() -> None:
    block = Block()
    for name in ("scale", "fc", "cache", "factor"):
        delattr(block, name)
        assert_raises(AttributeError, f"'Block' object has no attribute '{name}'", getattr, block, name)
    assert not block._non_persistent_buffers_set
    assert_raises(AttributeError, "scale", delattr, block, "scale")


def bad(library: Any, case: str) -> str:
    """The error of one misuse."""
    block = library.nn.Linear(2, 2)
    block.register_buffer("count", library.zeros(1))
    block.sub = library.nn.ReLU()

    class Hasty(library.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            exec(case, {"lib": library, "block": self})

    misuse = Hasty if case.startswith("block.hasty") else lambda: exec(case, {"lib": library, "block": block})
    with pytest.raises((AttributeError, TypeError, KeyError, ValueError, RuntimeError, NotImplementedError)) as caught:
        misuse()
    kind = NotImplementedError if isinstance(caught.value, NotImplementedError) else caught.type
    text = (
        str(caught.value)
        .replace("torch.nn.parameter.", "nn.")
        .replace("torch.nn.", "nn.")
        .replace("torch Tensor", "Tensor")
        .replace("torch.Tensor", "Tensor")
    )
    return f"{kind.__name__}: {text}"


@pytest.mark.parametrize("case", [
    "block.weight = 5", "block.sub = 5", "block.count = 'x'", "block.missing", "del block.missing",
    "block.hasty = lib.nn.Parameter(lib.zeros(1))", "block.hasty = lib.nn.ReLU()",
    "block.register_parameter('a.b', None)", "block.register_parameter('', None)", "block.register_parameter(5, None)",
    "block.register_parameter('forward', None)", "block.register_parameter('a', 5)",
    "block.register_parameter('a', lib.nn.Parameter(lib.ones(1)) * 2)",
    "block.register_buffer('a.b', None)", "block.register_buffer('', None)", "block.register_buffer(5, None)",
    "block.register_buffer('sub', None)", "block.register_buffer('a', 5)",
    "block.add_module('a.b', lib.nn.ReLU())", "block.add_module('', lib.nn.ReLU())",
    "block.add_module(5, lib.nn.ReLU())", "block.add_module('weight', lib.nn.ReLU())", "block.add_module('a', 5)",
    "block.train('yes')", "lib.nn.Module()(1)", "block.to(lib.int32)",
    "block.get_submodule('nothing')", "block.get_submodule('weight')", "block.get_parameter('sub.x')",
    "block.get_parameter('count')", "block.get_buffer('weight')", "block.get_submodule('sub.deep')",
])  # fmt: skip
def test_errors_in_torch_words(case: str) -> None:
    ours, theirs = bad(ad, case), bad(torch, case)
    if "lib.nn.Parameter(lib.ones(1)) * 2" in case:  # PyTorch refuses it as no Parameter, so do we
        assert ours.split(":")[0] == theirs.split(":")[0]
    else:
        assert ours.replace("adjoint.", "torch.") == theirs.replace("(nn.Buffer,", "(nn.Buffer,")


def test_non_leaf_parameter_is_refused() -> None:
    block = Block()
    made = nn.Parameter(ad.ones(1))
    made.node = (made * 2).node
    assert_raises(ValueError, "Cannot assign non-leaf Tensor to parameter 'a'", block.register_parameter, "a", made)


def test_names() -> None:
    net = Net()
    assert [n for n, _ in net.named_modules()] == [
        "", "encoder", "encoder.0", "encoder.0.fc", "encoder.1", "encoder.2", "encoder.2.fc", "head",
    ]  # fmt: skip
    assert [n for n, _ in net.named_children()] == ["encoder", "head"]
    assert [n for n, _ in net.named_parameters()] == [
        "encoder.0.scale", "encoder.0.fc.weight", "encoder.0.fc.bias", "encoder.2.scale", "encoder.2.fc.weight",
        "encoder.2.fc.bias", "head.weight", "head.bias",
    ]  # fmt: skip
    assert [n for n, _ in net.named_parameters(recurse=False)] == []
    assert [n for n, _ in net.named_buffers("net")] == [
        "net.encoder.0.count", "net.encoder.0.cache", "net.encoder.2.count", "net.encoder.2.cache",
    ]  # fmt: skip
    assert (len([*net.parameters()]), len([*net.buffers(recurse=False)]), len([*net.children()])) == (8, 0, 2)


def test_shared_parts_are_listed_once() -> None:
    net = Net()
    net.again = net.head
    net.head.bias2 = net.head.bias
    assert [n for n, _ in net.named_children()] == ["encoder", "head"]
    assert sum(m is net.head for m in net.modules()) == 1
    assert sum(m is net.head for _, m in net.named_modules(remove_duplicate=False)) == 2
    assert sum(p is net.head.bias for p in net.parameters()) == 1
    assert sum(p is net.head.bias for _, p in net.named_parameters(remove_duplicate=False)) == 4
    assert {"again.bias", "again.bias2", "head.bias2"} <= set(net.state_dict())


def test_get_by_path() -> None:
    net = Net()
    assert net.get_submodule("") is net
    assert net.get_submodule("encoder.0.fc") is net.encoder[0].fc
    assert net.get_parameter("encoder.0.fc.weight") is net.encoder[0].fc.weight
    assert net.get_buffer("encoder.2.count") is net.encoder[2].count


def test_train_eval_apply() -> None:
    net, seen = Net(), []
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    assert net.apply(seen.append) is net is seen[-1]
    assert seen.index(net.encoder[0].fc) < seen.index(net.encoder[0])


def test_requires_grad_and_zero_grad() -> None:
    net = Net()
    net(ad.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert not net.head.weight.grad.requires_grad
    assert np.array_equal(net.head.weight.grad.numpy(), np.zeros((2, 3)))
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_dtype_conversion_keeps_the_parameters() -> None:
    net = Net()
    net.register_buffer("steps", ad.tensor(0))
    net(ad.ones(2, 3)).sum().backward()
    before = list(net.parameters())
    assert net.double() is net
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    for t in (*net.parameters(), *(p.grad for p in net.parameters()), net.encoder[0].count):
        assert t.dtype is ad.float64
    assert net.steps.dtype is ad.int64
    net.zero_grad()
    net(ad.ones(2, 3, dtype=ad.float64)).sum().backward()
    assert net.head.weight.grad.dtype is ad.float64
    for convert, dtype in (
        (lambda: net.to(ad.float32), ad.float32), (lambda: net.to(ad.zeros(1, dtype=ad.float16)), ad.float16),
        (lambda: net.float().to("cpu").cpu(), ad.float32), (net.half, ad.float16),
        (lambda: net.to(device="cpu", dtype=ad.float64), ad.float64),
    ):  # fmt: skip
        assert convert().head.weight.dtype is dtype
    assert_raises(RuntimeError, "CPU only", net.to, "cuda")


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies(twin: Any) -> None:
    net = Net()
    net.tied = net.head
    net.eval()
    other = twin(net)
    assert other.tied is other.head
    assert other.head is not net.head
    assert not other.training
    x = ad.ones(2, 3)
    assert other(x).tolist() == net(x).tolist()
    assert repr(other) == repr(net)
    with ad.no_grad():
        other.head.bias += 1
    assert other(x).tolist() != net(x).tolist()
    other(x).sum().backward()
    assert other.head.weight.grad is not None
    assert net.head.weight.grad is None
    assert isinstance(other.head.weight, nn.Parameter)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, kind in ((name, getattr(nn, name)) for name in dir(nn))
        if isinstance(kind, type) and FunctionModule in kind.__mro__ and name.endswith(("LU", "Loss"))
    ],
)
def test_modules_made_from_functions_are_classes_like_others(name: str) -> None:
    module = getattr(nn, name)()
    assert pickle.loads(pickle.dumps(module)).__class__ is module.__class__
    assert copy.deepcopy(module).__dict__.keys() == module.__dict__.keys()
    assert module.__class__.__doc__
    with pytest.raises(TypeError):
        getattr(nn, name)(nothing=1)


def test_a_module_made_from_a_function_has_its_docstring_with_the_settings_only_and_an_example_of_the_module() -> None:
    def scaled(input: Any, other: Any, factor: float = 1.0, *, shift: float = 0.0, dtype: Any = None) -> Any:
        """Return input · other · factor + shift.

        Args:
            input, other: tensors.
            factor, dtype: number,
                and type.
            shift: number.

        Raises: nothing.

        Example:
            >>> for x in (1, 2):
            ...     F.scaled(x, F.scaled(3, other=4, shift=5), 6)
            72
        """

    kind = make_module_class(scaled, "Scaled", __name__, operands=2)
    expected = inspect.cleandoc("""
        Module that returns input · other · factor + shift.

        A call takes `input` and `other`. The module keeps its own arguments as attributes.

        Args:
            factor: number,
                and type.
            shift: number.

        Raises: nothing.

        Example:
            >>> for x in (1, 2):
            ...     nn.Scaled(6)(x, nn.Scaled(shift=5)(3, other=4))
            72
    """)
    assert kind.__doc__ == kind(2.0).__doc__ == inspect.getdoc(kind) == expected


def test_settings_of_modules_made_from_functions_may_be_changed() -> None:
    module = nn.LeakyReLU(0.5)
    module.negative_slope = 0.25
    assert module(ad.tensor([-4.0])).tolist() == [-1.0]
    loss = nn.BCEWithLogitsLoss(pos_weight=ad.ones(2))
    assert list(loss.state_dict()) == ["pos_weight"]


def test_repr_against_torch() -> None:
    def model(nn: Any) -> Any:
        inner = nn.Sequential(OrderedDict([("first", nn.Linear(2, 2)), ("act", nn.ReLU(inplace=True))]))
        return nn.Sequential(inner, nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Tanh()]),
        nn.ModuleDict({"a": nn.Dropout()}),
                             nn.ModuleList(), nn.Sequential())  # fmt: skip

    assert repr(model(nn)) == repr(model(torch.nn))
    assert repr(nn.Module()) == "Module()"


def test_repr_of_own_extra_lines() -> None:
    class Two(nn.Module):
        def extra_repr(self) -> str:
            return "one\ntwo"

    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.two = Two()

        def extra_repr(self) -> str:
            return "single"

    assert repr(Two()) == "Two(\n  one\n  two\n)"
    assert repr(Kept()) == "Kept(\n  single\n  (two): Two(\n    one\n    two\n  )\n)"


def test_dir() -> None:
    names = dir(nn.Sequential(nn.Linear(1, 1)))
    assert "forward" in names
    assert "0" not in names
    assert {"fc", "scale", "count", "factor"} <= set(dir(Block()))


def test_properties_work() -> None:
    class Guarded(nn.Module):
        @property
        def size(self) -> int:
            return self._size

        @size.setter
        def size(self, value: int) -> None:
            self._size = value * 2

    module = Guarded()
    module.size = 3
    assert module.size == 6


def test_version_counts_what_changes_a_call() -> None:
    block = Block()

    def changes(action: Any) -> int:
        before = block._version
        action()
        return int(block._version - before)

    for expected, actions in (
        (0, (lambda: setattr(block, "scale", block.scale), lambda: setattr(block, "fc", block.fc))),
        (0, (lambda: setattr(block, "count", block.count), lambda: setattr(block, "factor", block.factor))),
        (1, (lambda: setattr(block, "factor", 3.0), lambda: setattr(block, "scale", nn.Parameter(ad.ones(1))))),
        (1, (lambda: setattr(block, "fc", nn.Linear(3, 3)), lambda: setattr(block, "count", ad.ones(1)))),
        (1, (lambda: setattr(block, "forward", lambda x: x), lambda: delattr(block, "forward"), block.eval)),
        (1, (lambda: block.register_buffer("new", None), lambda: delattr(block, "new"))),
        (0, (block.eval, lambda: block.count.add_(1), lambda: block(ad.ones(1, 3)).sum().backward())),
        (0, (block.zero_grad, block.float)),
    ):
        assert [changes(action) for action in actions] == [expected] * len(actions)


def test_attributes_before_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.size = 3
            super().__init__()
            self.weight = nn.Parameter(ad.zeros(self.size))

    assert tuple(Early().weight.shape) == (3,)
    assert Early()._version > 0


def test_replaced_forward_is_called() -> None:
    block = Block()
    block.forward = lambda x: "mine"
    assert block(1) == "mine"


def test_parameter_and_buffer() -> None:
    data = ad.zeros(2)
    parameter = nn.Parameter(data)
    assert (parameter.requires_grad, parameter.is_leaf, type(parameter * 2)) == (True, True, ad.Tensor)
    assert parameter.data_ptr() == nn.Buffer(data).data_ptr() == data.data_ptr()
    assert repr(parameter) == "Parameter containing:\ntensor([0., 0.], requires_grad=True)"
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter(np.ones(2, np.float32)).tolist() == [1.0, 1.0]
    for kind, value in ((nn.Parameter, 1.0), (nn.Buffer, [1.0])):
        with pytest.raises(TypeError, match=f"{kind.__name__}.*must be Tensor, not {type(value).__name__}"):
            kind(value)
    with ad.no_grad():
        parameter.add_(1)
    assert (data.tolist(), data._version) == ([1.0, 1.0], 1)


def test_set_submodule() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    net.set_submodule("1.0", nn.GELU())
    net.set_submodule("1.more", nn.Tanh())
    assert [type(m).__name__ for m in net[1]] == ["GELU", "Tanh"]
    for error, message, call in (
        (ValueError, "Cannot set the submodule without a target name!", lambda: net.set_submodule("", nn.ReLU())),
        (ValueError, r"`module` is not an nn\.Module, found <class 'int'>", lambda: net.set_submodule("1.0", 3)),
        (AttributeError, "has no attribute `x`", lambda: net.set_submodule("1.x", nn.ReLU(), strict=True)),
        (AttributeError, r"`weight` is not an nn\.Module", lambda: net.set_submodule("0.weight", nn.ReLU())),
    ):
        assert_raises(error, message, call)


def test_other_types_layouts_and_memory() -> None:
    net = nn.Conv2d(3, 4, 2)
    assert net.to(memory_format=ad.channels_last).weight.stride() == (12, 1, 6, 3)
    assert net.type(ad.float64).weight.dtype is ad.float64
    assert net.to_empty(device="cpu").weight.shape == (4, 3, 2, 2)
    assert net.share_memory() is net
    assert_raises(RuntimeError, "adjoint computes on the CPU only", net.cuda)
    assert_raises(TypeError, "invalid combination of arguments", net.to, "cpu", True)
    assert_raises(RuntimeError, "does not accept copy", net.to, "cpu", copy=True)
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        net.to(ad.complex64)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        net.to(ad.float32)
    assert net.weight.dtype is ad.float32


def test_the_next_class_among_the_bases_is_initialised_if_it_is_asked_for() -> None:
    class Mixin:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.mixed = True

    class Net(nn.Module, Mixin):
        pass

    assert not hasattr(Net(), "mixed")
    Net.call_super_init = True
    assert Net().mixed
    assert_raises(TypeError, "unexpected keyword argument 'a'", nn.Module, a=1)


def test_a_parameter_is_made_by_new() -> None:
    class Scaled(nn.Parameter):
        scale: float

        def __new__(cls, data: Any, scale: float) -> Any:
            made = super().__new__(cls, data)
            made.scale = scale
            return made

    made = Scaled(ad.ones(2), 3.0)
    assert (made.scale, made.requires_grad, made.tolist()) == (3.0, True, [1, 1])


def test_a_buffer_does_not_take_the_place_of_an_attribute() -> None:
    net: Any = nn.Module()
    net.size = 5
    assert_raises(KeyError, "attribute 'size' already exists", setattr, net, "size", nn.Buffer(ad.ones(1)))


def test_prefixes_of_state_dicts_are_taken_off() -> None:
    state: Any = nn.Sequential(nn.Linear(2, 2)).state_dict(prefix="module.")
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert (list(state), list(state._metadata)) == (["0.weight", "0.bias"], ["", "0"])


def test_state_dicts_from_before_batches_were_counted_load() -> None:
    norm = nn.BatchNorm1d(3)
    state: Any = norm.state_dict()
    assert state._metadata[""]["version"] == 2
    del state["num_batches_tracked"]
    assert_raises(RuntimeError, "num_batches_tracked", norm.load_state_dict, state)
    state._metadata[""]["version"] = 1
    norm.load_state_dict(state)
    assert norm.num_batches_tracked.item() == 0


class Kept(nn.Linear):
    """Stays in evaluation mode, and has a tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.extra = ad.ones(2)

    def train(self, mode: bool = True) -> Any:
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.extra = fn(self.extra)
        return self


def test_parts_set_their_mode_themselves() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Sequential(Kept()))
    net.train()
    assert [m.training for m in net.modules()] == [True, True, True, False]
    norm = nn.BatchNorm1d(2)
    frozen = type("Frozen", (nn.BatchNorm1d,), {"train": lambda self, mode=True: nn.Module.train(self, False)})(2)
    net = nn.Sequential(norm, frozen).train()
    net(ad.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert norm.running_mean.tolist() != [0, 0]
    assert frozen.running_mean.tolist() == [0, 0]


@pytest.mark.parametrize(("convert", "dtype"), [
    (lambda m: m.double(), ad.float64), (lambda m: m.half(), ad.float16), (lambda m: m.to(ad.float64), ad.float64),
    (lambda m: m.type(ad.float64), ad.float64), (lambda m: m.to_empty(device="cpu"), ad.float32),
])  # fmt: skip
def test_parts_convert_what_else_they_hold(convert: Any, dtype: Any) -> None:
    net = convert(nn.Sequential(nn.Sequential(Kept())))
    assert net[0][0].extra.dtype is net[0][0].weight.dtype is dtype


def test_losses_take_their_operands_by_name() -> None:
    x, y, sign = ad.ones(2, 3), ad.zeros(2, 3), ad.ones(2)
    cosine = nn.CosineEmbeddingLoss()
    assert cosine(x, input2=y, target=sign).item() == cosine(x, y, sign).item()
    assert nn.ReLU()(input=-x).sum().item() == 0
    assert_raises(TypeError, "unexpected keyword argument 'margin'", cosine, x, y, sign, margin=1.0)


def test_recurrent_modules_name_their_weights() -> None:
    ours, theirs = nn.GRU(2, 3, 2, bidirectional=True), torch.nn.GRU(2, 3, 2, bidirectional=True)
    assert ours._flat_weights_names == theirs._flat_weights_names


def test_an_assigned_module_may_hide_a_name_of_the_class() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parameters = nn.ParameterList([nn.Parameter(ad.ones(2))])

    class Searching(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            super().__init__()
            self.part = part

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.part, name)

    assert list(Whole()._modules) == ["parameters"]
    assert Searching(nn.Linear(2, 3)).in_features == 2
    assert_raises(KeyError, "already exists", lambda: nn.Module().add_module("parameters", nn.Linear(1, 1)))


def test_annotations_of_a_module_hold_types_that_any_namespace_can_evaluate() -> None:
    hints = get_type_hints(nn.CrossEntropyLoss(), globalns={}, localns={})
    assert hints["_parameters"] == dict[str, nn.Parameter | None]
