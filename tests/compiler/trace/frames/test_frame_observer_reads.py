"""What steps read: each step is listed with all the places that its outcome depends on."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import os
import sys
import threading
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from tests.support.watched_steps import Case, case, seen, watched

scale = 2.0
name_of_it = "scale"
weights = np.array([1.0, 2.0])
numbers = [1.0, 2.0, 3.0]
pair = (1, 2)
settings: dict[str, Any] = {"lr": 0.1, "deep": {"decay": 0.5}, "names": ["a", "b"]}
layers = settings["layers"] = []
kinds = {"a", "b"}
queue = deque([1, 2])
defaults: defaultdict[str, int] = defaultdict(int, a=1)
nothing: list[int] = []
lr_key = "lr"


class Color(Enum):
    RED = 1


@dataclass
class Config:
    lr: float = 0.1
    depth: int = 2


class Point(NamedTuple):
    x: int
    y: int


Size = namedtuple("Size", "h w")


class Slotted:
    __slots__ = ("lr",)

    def __init__(self) -> None:
        self.lr = 0.1


class Parent:
    factor: ClassVar[float] = 3.0

    def area(self) -> float:
        return self.factor


class Model(Parent):
    rate = 0.5

    def __init__(self) -> None:
        self.scale = 2.0
        self.config = Config()
        self.act = double
        self.items = [1, 2]

    def forward(self, x: float) -> float:
        return self.helper(x) * self.scale

    def helper(self, x: float) -> float:
        return x + self.rate

    def area(self) -> float:
        return super().area() + 1

    @staticmethod
    def fixed(x: float) -> float:
        return x * scale

    @classmethod
    def made(cls) -> float:
        return cls.rate

    @property
    def size(self) -> float:
        return self.scale + 1

    @functools.cached_property
    def cached(self) -> float:
        return self.scale + 2

    def __getitem__(self, i: int) -> int:
        return self.items[i]

    def __call__(self, x: float) -> float:
        return x * self.scale

    def __enter__(self) -> float:
        return self.scale

    def __exit__(self, *_: object) -> None:
        pass

    def __add__(self, other: float) -> float:
        return self.scale + other

    def __iter__(self) -> Any:
        return iter(self.items)


class Descriptor:
    def __get__(self, instance: Any, owner: Any = None) -> float:
        return scale


class Described:
    size = Descriptor()


class Dynamic:
    def __getattr__(self, name: str) -> float:
        if name.startswith("__"):
            raise AttributeError(name)
        return scale


def double(x: float) -> float:
    return 2 * x


def scaled(x: float) -> float:
    return x * scale


def with_default(x: float, factor: float = 3.0, *, bias: float = 1.0) -> float:
    return x * factor + bias


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@logged
def decorated(x: float) -> float:
    return x * scale


def make(n: float) -> Any:
    def inner(x: float) -> float:
        return x * n

    return inner


def halves(n: int) -> int:
    return 0 if n < 1 else halves(n // 2) + depth


def get_config() -> Config:
    return config


def pieces() -> Any:
    for i in range(2):
        yield i * scale


class Failing:
    @property
    def value(self) -> Any:
        raise AttributeError


failing = Failing()


class Renamed:
    run = lambda self, x: x * scale  # noqa: E731


globals_of_it = {"a": 1}
config = Config()
model = Model()
point = Point(1, 2)
size = Size(3, 4)
slotted = Slotted()
dynamic = Dynamic()
closure = make(5.0)
closures = [make(1.0), make(2.0)]
partial = functools.partial(with_default, factor=7.0)
configs = [Config(), Config(0.2)]
by_name = {"a": Config()}
namespace = types.SimpleNamespace(lr=0.3)
proxy = types.MappingProxyType({"lr": 0.1})
view = settings.items()
user_dict = UserDict(lr=0.1)
local = threading.local()
local.lr = 0.1
described = Described()
module = types.ModuleType("hyper")
module.lr = 0.1  # type: ignore[attr-defined]
depth = 1
getter = operator.attrgetter("config.lr")
functions = {"double": double}

CASES: list[Case] = []
of = functools.partial(case, CASES)


@of("global 'scale'")
def a_global() -> Any:
    return scale * 2


@of("global 'scaled', global 'scale'")
def a_global_of_a_helper() -> Any:
    return scaled(1.0)


@of("global 'closure', closure variable 'n'")
def a_closure_variable() -> Any:
    return closure(1.0)


@of("global 'closures', item 1 of a list, closure variable 'n'")
def one_of_two_closures() -> Any:
    return closures[1](1.0)


@of("global 'closures', contents of a list, closure variable 'n'")
def a_loop_over_functions() -> Any:
    return [f(1.0) for f in closures]


@of("global 'model', attribute 'scale' of Model")
def an_attribute() -> Any:
    return model.scale


@of("global 'model', attribute 'config' of Model, attribute 'lr' of Config")
def an_attribute_of_an_attribute() -> Any:
    return model.config.lr


@of("global 'model', attribute 'rate' of Model")
def a_class_attribute_through_an_object() -> Any:
    return model.rate


@of("global 'Model', attribute 'rate' of class Model")
def a_class_attribute() -> Any:
    return Model.rate


@of("global 'Model', attribute 'factor' of class Model")
def an_inherited_class_attribute() -> Any:
    return Model.factor


@of(
    """global 'model', method 'forward' of Model, method 'helper' of Model, attribute 'rate' of Model
    attribute 'scale' of Model"""
)
def a_method_that_calls_a_method() -> Any:
    return model.forward(1.0)


@of("global 'model', attribute 'act' of Model")
def a_function_in_an_attribute() -> Any:
    return model.act(1.0)


@of("global 'model', attribute 'fixed' of Model, global 'scale'")
def a_static_method() -> Any:
    return model.fixed(1.0)


@of("global 'model', method 'made' of Model, attribute 'rate' of class Model")
def a_class_method() -> Any:
    return model.made()


@of("global 'model', attribute 'size' of class Model, attribute 'scale' of Model")
def a_property() -> Any:
    return model.size


@of(
    """global 'Model', attribute '__init__' of class Model, global 'Config', global 'double'
    attribute '__init__' of class Config, attribute '__defaults__' of __init__"""
)
def an_object_of_the_step() -> Any:
    made = Model()
    return made.scale


@of("global 'model', method 'area' of Model, attribute 'area' of class Parent, attribute 'factor' of Model")
def a_method_of_super() -> Any:
    return model.area()


@of("global 'model', attribute '__getitem__' of class Model, attribute 'items' of Model, item 0 of a list")
def a_subscript_of_an_object() -> Any:
    return model[0]


@of("global 'model', attribute '__call__' of class Model, attribute 'scale' of Model")
def a_call_of_an_object() -> Any:
    return model(1.0)


@of(
    """global 'model', attribute '__enter__' of class Model, attribute '__exit__' of class Model
    attribute 'scale' of Model"""
)
def a_with_statement() -> Any:
    with model as found:
        return found


@of("global 'model', attribute '__add__' of class Model, attribute 'scale' of Model")
def an_operator_of_an_object() -> Any:
    return model + 1


@of("global 'model', attribute '__iter__' of class Model, attribute 'items' of Model, contents of a list")
def a_loop_over_an_object() -> Any:
    return sum(model)


@of("global 'config', attribute 'lr' of Config, attribute 'depth' of Config")
def a_dataclass() -> Any:
    return config.lr * config.depth


@of("global 'point', global 'size'")
def named_tuples() -> Any:
    return point.x + size.h + point[1]


@of("global 'Color', attribute 'RED' of class Color")
def an_enum() -> Any:
    return Color.RED.value


@of("global 'slotted', attribute 'lr' of Slotted")
def a_slot() -> Any:
    return slotted.lr


@of("global 'namespace', attribute 'lr' of SimpleNamespace")
def a_namespace() -> Any:
    return namespace.lr


@of("global 'dynamic', attribute '__getattr__' of class Dynamic, global 'scale'")
def a_dynamic_attribute() -> Any:
    return dynamic.anything


@of("global 'settings', item 'lr' of a dict")
def an_item() -> Any:
    return settings["lr"]


@of("global 'settings', item 'deep' of a dict, item 'decay' of a dict")
def an_item_of_an_item() -> Any:
    return settings["deep"]["decay"]


@of("global 'settings', global 'lr_key', item 'lr' of a dict")
def an_item_under_a_computed_key() -> Any:
    return settings[lr_key]


@of("global 'settings', item 'lr' of a dict")
def dict_get() -> Any:
    return settings.get("lr")


@of("global 'settings', item 'momentum' of a dict")
def dict_get_of_what_is_not_there() -> Any:
    return settings.get("momentum", 0.9)


@of("global 'settings', item 'momentum' of a dict")
def a_key_in_a_dict() -> Any:
    return "momentum" in settings


@of("global 'settings', contents of a dict")
def the_items_of_a_dict() -> Any:
    return [key for key, _ in settings.items()]


@of("global 'settings', contents of a dict")
def keyword_arguments_from_a_dict() -> Any:
    return len(dict(**settings))


@of("global 'functions', item 'double' of a dict")
def a_function_in_a_dict() -> Any:
    return functions["double"](1.0)


@of("global 'by_name', item 'a' of a dict, attribute 'lr' of Config")
def an_object_in_a_dict() -> Any:
    return by_name["a"].lr


@of("global 'numbers', contents of a list")
def the_length_of_a_list() -> Any:
    return len(numbers)


@of("global 'numbers', item -1 of a list")
def the_last_of_a_list() -> Any:
    return numbers[-1]


@of("global 'numbers', contents of a list")
def a_slice_of_a_list() -> Any:
    return numbers[1:]


@of("global 'numbers', contents of a list")
def a_loop_over_a_list() -> Any:
    total = 0.0
    for number in numbers:
        total += number
    return total


@of("global 'numbers', contents of a list")
def a_list_comprehension() -> Any:
    return [2 * x for x in numbers]


@of("global 'numbers', global 'scale', contents of a list")
def a_generator_expression() -> Any:
    return sum(scale * x for x in numbers)


@of("global 'numbers', contents of a list")
def star_arguments() -> Any:
    return max(*numbers)


@of("global 'numbers', contents of a list")
def the_truth_of_a_list() -> Any:
    return 1 if numbers else 2


@of("global 'nothing', contents of a list, global 'pair'")
def the_truth_of_an_empty_list() -> Any:
    return (nothing or pair)[0]


@of("global 'numbers', contents of a list")
def unpacking() -> Any:
    x, *_ = numbers
    return x


@of("global 'pair'")
def unpacking_a_tuple() -> Any:
    x, y = pair
    return x + y


@of("global 'proxy', item 'lr' of a mappingproxy")
def an_item_of_a_proxy() -> Any:
    return proxy["lr"]


@of("global 'view', contents of a dict")
def a_view_of_a_dict() -> Any:
    return len(view)


@of("global 'user_dict', item 'lr' of a UserDict")
def an_item_of_a_user_dict() -> Any:
    return user_dict["lr"]


@of("global 'user_dict', contents of a dict")
def all_of_a_user_dict() -> Any:
    return list(user_dict)


@of("global 'local', attribute 'lr' of _local")
def an_attribute_of_this_thread() -> Any:
    return local.lr


@of(
    """global 'described', definition of 'size' in class Described, global 'scale'
    attribute '__get__' of class Descriptor, attribute '__defaults__' of __get__"""
)
def a_descriptor() -> Any:
    return described.size


@of("global 'kinds', contents of a set")
def a_member_of_a_set() -> Any:
    return "a" in kinds


@of("global 'queue', item 0 of a deque")
def an_item_of_a_deque() -> Any:
    return queue[0]


@of("global 'configs', contents of a list, attribute 'lr' of Config")
def a_loop_over_objects() -> Any:
    return sum([c.lr for c in configs])


@of("global 'configs', contents of a list, attribute 'lr' of Config, global 'scaled', global 'scale'")
def a_loop_with_enumerate() -> Any:
    total = 0.0
    for i, c in enumerate(configs):
        total += scaled(c.lr) * i
    return total


@of("global 'configs', contents of a list, attribute 'lr' of Config")
def a_lambda_given_to_a_builtin() -> Any:
    return sorted(configs, key=lambda c: c.lr)


@of("global 'configs', item 0 of a list, attribute 'lr' of Config")
def the_result_of_a_local_variable() -> Any:
    first = configs[0]
    return first.lr


@of("global 'get_config', global 'config', attribute 'lr' of Config")
def an_attribute_of_a_result() -> Any:
    return get_config().lr


@of("global 'configs', contents of a list, attribute 'lr' of Config")
def an_element_that_only_a_builtin_has() -> Any:
    return next(iter(configs)).lr


@of("global 'by_name', contents of a dict, attribute 'lr' of Config")
def an_element_of_a_list_of_the_values() -> Any:
    return list(by_name.values())[0].lr  # noqa: RUF015  this is what is tested


@of("global 'configs', contents of a list, attribute 'lr' of Config")
def an_element_of_a_slice() -> Any:
    return configs[:1][0].lr


@of("global 'operator', global 'Renamed', attribute 'run' of class Renamed, global 'scale'")
def a_method_called_by_a_builtin() -> Any:
    return operator.methodcaller("run", 1.0)(Renamed())


@of("global 'dataclasses', global 'config', contents of a dict")
def a_copy_of_an_object() -> Any:
    return dataclasses.replace(config).lr


CASES[-1] = CASES[-1]._replace(
    reads=CASES[-1].reads | {"attribute '__init__' of class Config", "attribute '__defaults__' of __init__"}
)


@of("global 'globals_of_it', contents of a dict")
def what_only_contains() -> Any:
    return len(globals_of_it)


@of("item 'not_defined' of a dict")
def a_global_by_its_name() -> Any:
    return globals().get("not_defined", 1)


@of("global 'weights', contents of a ndarray")
def an_array() -> Any:
    return weights * 2


@of("global 'weights', contents of a ndarray")
def an_element_of_an_array() -> Any:
    return weights[0]


@of("global 'weights', attribute 'shape' of ndarray")
def the_shape_of_an_array() -> Any:
    return weights.shape[0]


@of("global 'module', attribute 'lr' of module hyper")
def a_module_attribute() -> Any:
    return module.lr  # type: ignore[attr-defined]


@of("global 'math', global 'np'")
def what_the_libraries_have() -> Any:
    return math.sqrt(math.pi) + np.pi


@of("global 'sys', attribute 'argv' of module sys, contents of a list")
def the_command_line() -> Any:
    return len(sys.argv)


@of("global 'os', item 'ADJOINT_TEST_OF_READS' of a _Environ")
def the_environment() -> Any:
    return os.environ.get("ADJOINT_TEST_OF_READS"), os.getenv("ADJOINT_TEST_OF_READS")


@of(
    """global 'with_default', attribute '__defaults__' of with_default
    attribute '__kwdefaults__' of with_default, contents of a dict"""
)
def default_arguments() -> Any:
    return with_default(1.0)


@of(
    """global 'partial', contents of a dict
    attribute '__defaults__' of with_default, attribute '__kwdefaults__' of with_default"""
)
def a_partial_function() -> Any:
    return partial(1.0)


@of("global 'decorated', closure variable 'function', global 'scale'")
def a_decorated_function() -> Any:
    return decorated(1.0)


@of("global 'halves', global 'depth'")
def recursion() -> Any:
    return halves(8)


@of("global 'pieces', global 'scale'")
def a_generator_function() -> Any:
    return list(pieces())


@of("global 'model', attribute 'scale' of Model")
def getattr_of_a_constant() -> Any:
    return getattr(model, "scale")  # noqa: B009  this is what is tested


@of("global 'model', global 'name_of_it', attribute 'scale' of Model")
def getattr_of_a_computed_name() -> Any:
    return getattr(model, name_of_it)


@of("global 'model', attribute 'absent' of Model")
def getattr_of_what_is_not_there() -> Any:
    return getattr(model, "absent", 1.0)


@of("global 'failing', attribute 'value' of class Failing, global 'config', attribute 'lr' of Config")
def getattr_of_what_fails() -> Any:
    return getattr(failing, "value", config).lr


@of("global 'model', attribute 'absent' of Model")
def hasattr_of_what_is_not_there() -> Any:
    return hasattr(model, "absent")


@of("global 'model', global 'getter', attribute 'config' of Model, attribute 'lr' of Config")
def an_attrgetter() -> Any:
    return getter(model)


@of("global 'config', attribute '__dict__' of Config, item 'lr' of a dict")
def an_item_of_vars() -> Any:
    return vars(config)["lr"]


@of("global 'config', attribute '__dict__' of Config, contents of a dict")
def all_of_vars() -> Any:
    return list(vars(config).values())


@of("global 'scale'")
def an_f_string() -> Any:
    return f"{scale:.2f} {scale!r}"


@of("global 'scale'")
def a_walrus() -> Any:
    return y if (y := scale) > 1 else 0


@of("global 'settings', item 'missing' of a dict, global 'scale'")
def an_exception_caught() -> Any:
    try:
        return settings["missing"]
    except KeyError:
        return scale


@of("global 'scaled', global 'scale', global 'config', attribute 'lr' of Config, global 'depth'")
def a_conditional_argument() -> Any:
    return scaled(config.lr if depth else 1.0)


@of("global 'config', attribute 'lr' of Config, attribute 'depth' of Config, global 'Config'")
def a_match_statement() -> Any:
    match config:
        case Config(lr=lr, depth=2):
            return lr
        case _:
            return None


@of("global 'settings', contents of a dict")
def a_match_of_a_dict() -> Any:
    match settings:
        case {"lr": lr}:
            return lr


@of("global 'scale'")
def a_function_inside() -> Any:
    def inner() -> float:
        return x * scale

    x = 2
    return inner()


@of("global 'scale', global '__name__'")
def a_class_inside() -> Any:
    class Inside:
        value = scale

    return Inside.value + Inside().value


@of("global 'numbers', contents of a list, global 'scaled', global 'scale'")
def a_map() -> Any:
    return list(map(scaled, numbers))


@of("global 'settings'")
def a_container_that_is_only_passed_on() -> Any:
    def ignore(_: Any) -> int:
        return 1

    return ignore(settings) if settings is not None and isinstance(settings, dict) else 0


@of()
def nothing_from_outside() -> Any:
    data = {"a": [1, 2]}
    data["a"].append(3)
    made = Counter(data["a"])
    return len(made), ChainMap(data)["a"], OrderedDict(data)


CASES[-1] = CASES[-1]._replace(reads={"global 'Counter'", "global 'ChainMap'", "global 'OrderedDict'"})


@pytest.mark.parametrize("of", [pytest.param(case, id=case.step.__name__) for case in CASES])
def test_reads(of: Case) -> None:
    reads, writes = seen(of.step)
    assert reads == of.reads
    assert writes == set()


def test_there_are_many() -> None:
    assert len(CASES) >= 60


def test_reads_come_in_order_with_value_and_line() -> None:
    reads = watched(an_attribute_of_an_attribute).reads
    assert [read.place.what for read in reads][-1] == "attribute 'lr' of Config"
    assert reads[-1].value == 0.1
    assert reads[-1].site.file == __file__
    assert reads[-1].site.function == "an_attribute_of_an_attribute"
    assert reads[-1].site.line == an_attribute_of_an_attribute.__code__.co_firstlineno + 2


def test_arguments_are_not_read_but_known() -> None:
    given, inside = {"lr": [1.0]}, Config()

    def step(batch: Any, settings: Config) -> Any:
        return batch["lr"][0] * settings.lr

    witness = watched(step, given, inside)
    assert {read.place.what for read in witness.reads} == {"attribute 'lr' of Config"}
    assert witness.is_argument(given["lr"])
    assert witness.is_preexisting(inside)
    assert not witness.is_preexisting(Config())
