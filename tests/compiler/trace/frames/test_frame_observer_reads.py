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
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from tests.support.watched_steps import Case, case, parameters, places_read, seen, watched

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
tables: list[dict[str, Any]] = [{"lr": 0.1, "seen": [1]}, {"lr": 0.2, "seen": [2]}]
rows = [[1, 2], [3, 4]]
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


@of("global 'model', attribute 'config' of Model, attribute 'lr' of Config")
def an_attribute_of_an_attribute() -> Any:
    return model.config.lr


@of(
    """global 'Model', attribute '__init__' of class Model, global 'Config', global 'double'
    attribute '__init__' of class Config, attribute '__defaults__' of __init__"""
)
def an_object_of_the_step() -> Any:
    made = Model()
    return made.scale


@of(
    """global 'model', attribute '__enter__' of class Model, attribute '__exit__' of class Model
    attribute 'scale' of Model"""
)
def a_with_statement() -> Any:
    with model as found:
        return found


@of("global 'numbers', contents of a list")
def a_loop_over_a_list() -> Any:
    total = 0.0
    for number in numbers:
        total += number
    return total


@of("global 'tables', elements of a list, item 'lr' of a dict")
def a_loop_over_tables() -> Any:
    total = 0.0
    for table in tables:
        total += table["lr"]
    return total


@of("global 'tables', elements of a list, item 'lr' of a dict")
def a_loop_over_numbered_tables() -> Any:
    total = 0.0
    for i, table in enumerate(tables):
        total += i * table["lr"]
    return total


@of("global 'tables', elements of a list, global 'numbers', contents of a list, item 'lr' of a dict")
def a_loop_over_tables_and_numbers() -> Any:
    total = 0.0
    for table, number in zip(tables, numbers, strict=False):
        total += number * table["lr"]
    return total


@of("global 'settings', elements of a dict, contents of a list")
def a_loop_over_the_entries_of_a_dict() -> Any:
    total = 0
    for name, value in settings.items():
        if name == "names":
            total += len(value)
    return total


@of("global 'rows', contents of a list")
def a_loop_over_parts_of_lists() -> Any:
    total = 0
    for x, y in rows:
        total += x * y
    return total


@of("global 'rows', contents of a list")
def a_loop_over_numbered_parts_of_lists() -> Any:
    total = 0
    for i, (x, y) in enumerate(rows):
        total += i * x * y
    return total


@of("global 'numbers', contents of a list")
def unpacking() -> Any:
    x, *_ = numbers
    return x


@of("global 'pair'")
def unpacking_a_tuple() -> Any:
    x, y = pair
    return x + y


@of("global 'configs', contents of a list, attribute 'lr' of Config, global 'scaled', global 'scale'")
def a_loop_with_enumerate() -> Any:
    total = 0.0
    for i, c in enumerate(configs):
        total += scaled(c.lr) * i
    return total


@of("global 'configs', item 0 of a list, attribute 'lr' of Config")
def the_result_of_a_local_variable() -> Any:
    first = configs[0]
    return first.lr


@of("global 'by_name', contents of a dict, attribute 'lr' of Config")
def an_element_of_a_list_of_the_values() -> Any:
    return list(by_name.values())[0].lr  # noqa: RUF015  this is what is tested


@of("global 'module', attribute 'lr' of module hyper")
def a_module_attribute() -> Any:
    return module.lr  # type: ignore[attr-defined]


@of("global 'model', attribute 'scale' of Model")
def getattr_of_a_constant() -> Any:
    return getattr(model, "scale")  # noqa: B009  this is what is tested


@of("global 'settings', item 'missing' of a dict, global 'scale'")
def an_exception_caught() -> Any:
    try:
        return settings["missing"]
    except KeyError:
        return scale


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


@of("global 'settings'")
def a_container_that_is_only_passed_on() -> Any:
    def ignore(_: Any) -> int:
        return 1

    return ignore(settings) if settings is not None and isinstance(settings, dict) else 0


@of("global 'Counter', global 'ChainMap', global 'OrderedDict'")
def nothing_from_outside() -> Any:
    data = {"a": [1, 2]}
    data["a"].append(3)
    made = Counter(data["a"])
    return len(made), ChainMap(data)["a"], OrderedDict(data)


# The steps that are one expression, with what they read.
EXPRESSIONS: dict[str, tuple[Callable[[], Any], *tuple[str, ...]]] = {
    "a global": (lambda: scale * 2, "global 'scale'"),
    "a global of a helper": (lambda: scaled(1.0), "global 'scaled', global 'scale'"),
    "a closure variable": (lambda: closure(1.0), "global 'closure', closure variable 'n'"),
    "one of two closures": (lambda: closures[1](1.0), "global 'closures', item 1 of a list, closure variable 'n'"),
    "a loop over functions": (
        lambda: [f(1.0) for f in closures],
        "global 'closures', contents of a list, closure variable 'n'",
    ),
    "an attribute": (lambda: model.scale, "global 'model', attribute 'scale' of Model"),
    "a class attribute through an object": (lambda: model.rate, "global 'model', attribute 'rate' of Model"),
    "a class attribute": (lambda: Model.rate, "global 'Model', attribute 'rate' of class Model"),
    "an inherited class attribute": (lambda: Model.factor, "global 'Model', attribute 'factor' of class Model"),
    "a method that calls a method": (
        lambda: model.forward(1.0),
        """global 'model', method 'forward' of Model, method 'helper' of Model
        attribute 'rate' of Model, attribute 'scale' of Model""",
    ),
    "a function in an attribute": (lambda: model.act(1.0), "global 'model', attribute 'act' of Model"),
    "a static method": (lambda: model.fixed(1.0), "global 'model', attribute 'fixed' of Model, global 'scale'"),
    "a class method": (lambda: model.made(), "global 'model', method 'made' of Model, attribute 'rate' of class Model"),
    "a property": (lambda: model.size, "global 'model', attribute 'size' of class Model, attribute 'scale' of Model"),
    "a method of super": (
        lambda: model.area(),
        "global 'model', method 'area' of Model, attribute 'area' above class Model, attribute 'factor' of Model",
    ),
    "a subscript of an object": (
        lambda: model[0],
        "global 'model', attribute '__getitem__' of class Model, attribute 'items' of Model, item 0 of a list",
    ),
    "a call of an object": (
        lambda: model(1.0),
        "global 'model', attribute '__call__' of class Model, attribute 'scale' of Model",
    ),
    "an operator of an object": (
        lambda: model + 1,
        "global 'model', attribute '__add__' of class Model, attribute 'scale' of Model",
    ),
    "a loop over an object": (
        lambda: sum(model),
        "global 'model', attribute '__iter__' of class Model, attribute 'items' of Model, contents of a list",
    ),
    "a dataclass": (
        lambda: config.lr * config.depth,
        "global 'config', attribute 'lr' of Config, attribute 'depth' of Config",
    ),
    "named tuples": (lambda: point.x + size.h + point[1], "global 'point', global 'size'"),
    "an enum": (lambda: Color.RED.value, "global 'Color', attribute 'RED' of class Color"),
    "a slot": (lambda: slotted.lr, "global 'slotted', attribute 'lr' of Slotted"),
    "a namespace": (lambda: namespace.lr, "global 'namespace', attribute 'lr' of SimpleNamespace"),
    "a dynamic attribute": (
        lambda: dynamic.anything,
        "global 'dynamic', attribute '__getattr__' of class Dynamic, global 'scale'",
    ),
    "an item": (lambda: settings["lr"], "global 'settings', item 'lr' of a dict"),
    "an item of an item": (
        lambda: settings["deep"]["decay"],
        "global 'settings', item 'deep' of a dict, item 'decay' of a dict",
    ),
    "an item under a computed key": (
        lambda: settings[lr_key],
        "global 'settings', global 'lr_key', item 'lr' of a dict",
    ),
    "dict get": (lambda: settings.get("lr"), "global 'settings', item 'lr' of a dict"),
    "dict get of what is not there": (
        lambda: settings.get("momentum", 0.9),
        "global 'settings', item 'momentum' of a dict",
    ),
    "a key in a dict": (lambda: "momentum" in settings, "global 'settings', item 'momentum' of a dict"),
    "the items of a dict": (lambda: [key for key, _ in settings.items()], "global 'settings', contents of a dict"),
    "keyword arguments from a dict": (lambda: len(dict(**settings)), "global 'settings', contents of a dict"),
    "a function in a dict": (lambda: functions["double"](1.0), "global 'functions', item 'double' of a dict"),
    "an object in a dict": (lambda: by_name["a"].lr, "global 'by_name', item 'a' of a dict, attribute 'lr' of Config"),
    "the length of a list": (lambda: len(numbers), "global 'numbers', contents of a list"),
    "the last of a list": (lambda: numbers[-1], "global 'numbers', item -1 of a list"),
    "a slice of a list": (lambda: numbers[1:], "global 'numbers', contents of a list"),
    "a list comprehension": (lambda: [2 * x for x in numbers], "global 'numbers', contents of a list"),
    "a generator expression": (
        lambda: sum(scale * x for x in numbers),
        "global 'numbers', global 'scale', contents of a list",
    ),
    "star arguments": (lambda: max(*numbers), "global 'numbers', contents of a list"),
    "the truth of a list": (lambda: 1 if numbers else 2, "global 'numbers', contents of a list"),
    "the truth of an empty list": (lambda: (nothing or pair)[0], "global 'nothing', contents of a list, global 'pair'"),
    "an item of a proxy": (lambda: proxy["lr"], "global 'proxy', item 'lr' of a mappingproxy"),
    "a view of a dict": (lambda: len(view), "global 'view', contents of a dict"),
    "an item of a user dict": (lambda: user_dict["lr"], "global 'user_dict', item 'lr' of a UserDict"),
    "all of a user dict": (lambda: list(user_dict), "global 'user_dict', contents of a dict"),
    "an attribute of this thread": (lambda: local.lr, "global 'local', attribute 'lr' of _local"),
    "a descriptor": (
        lambda: described.size,
        """global 'described', definition of 'size' in class Described, global 'scale'
        attribute '__get__' of class Descriptor, attribute '__defaults__' of __get__""",
    ),
    "a member of a set": (lambda: "a" in kinds, "global 'kinds', contents of a set"),
    "an item of a deque": (lambda: queue[0], "global 'queue', item 0 of a deque"),
    "a loop over objects": (
        lambda: sum([c.lr for c in configs]),
        "global 'configs', contents of a list, attribute 'lr' of Config",
    ),
    "a lambda given to a builtin": (
        lambda: sorted(configs, key=lambda c: c.lr),
        "global 'configs', contents of a list, attribute 'lr' of Config",
    ),
    "an attribute of a result": (
        lambda: get_config().lr,
        "global 'get_config', global 'config', attribute 'lr' of Config",
    ),
    "an element that only a builtin has": (
        lambda: next(iter(configs)).lr,
        "global 'configs', contents of a list, attribute 'lr' of Config",
    ),
    "an element of a slice": (
        lambda: configs[:1][0].lr,
        "global 'configs', contents of a list, attribute 'lr' of Config",
    ),
    "a method called by a builtin": (
        lambda: operator.methodcaller("run", 1.0)(Renamed()),
        """global 'operator', attribute 'methodcaller' of module operator, global 'Renamed'
        attribute 'run' of class Renamed, global 'scale'""",
    ),
    "a copy of an object": (
        lambda: dataclasses.replace(config).lr,
        """global 'dataclasses', attribute 'replace' of module dataclasses, global 'config', contents of a dict
        attribute '__init__' of class Config, attribute '__defaults__' of __init__""",
    ),
    "what only contains": (lambda: len(globals_of_it), "global 'globals_of_it', contents of a dict"),
    "a global by its name": (lambda: globals().get("not_defined", 1), "item 'not_defined' of a dict"),
    "an array": (lambda: weights * 2, "global 'weights', contents of a ndarray"),
    "an element of an array": (lambda: weights[0], "global 'weights', contents of a ndarray"),
    "the shape of an array": (lambda: weights.shape[0], "global 'weights', attribute 'shape' of ndarray"),
    "what the libraries have": (
        lambda: math.sqrt(math.pi) + np.pi,
        """global 'math', global 'np', attribute 'sqrt' of module math, attribute 'pi' of module math
        attribute 'pi' of module numpy""",
    ),
    "the command line": (lambda: len(sys.argv), "global 'sys', attribute 'argv' of module sys, contents of a list"),
    "the environment": (
        lambda: (os.environ.get("ADJOINT_TEST_OF_READS"), os.getenv("ADJOINT_TEST_OF_READS")),
        """global 'os', item 'ADJOINT_TEST_OF_READS' of a _Environ, attribute 'environ' of module os
        method 'get' of _Environ, attribute 'getenv' of module os""",
    ),
    "default arguments": (
        lambda: with_default(1.0),
        """global 'with_default', attribute '__defaults__' of with_default, attribute '__kwdefaults__' of with_default
        contents of a dict""",
    ),
    "a partial function": (
        lambda: partial(1.0),
        """global 'partial', contents of a dict, attribute '__defaults__' of with_default
        attribute '__kwdefaults__' of with_default""",
    ),
    "a decorated function": (lambda: decorated(1.0), "global 'decorated', closure variable 'function', global 'scale'"),
    "recursion": (lambda: halves(8), "global 'halves', global 'depth'"),
    "a generator function": (lambda: list(pieces()), "global 'pieces', global 'scale'"),
    "getattr of a computed name": (
        lambda: getattr(model, name_of_it),
        "global 'model', global 'name_of_it', attribute 'scale' of Model",
    ),
    "getattr of what is not there": (
        lambda: getattr(model, "absent", 1.0),
        "global 'model', attribute 'absent' of Model",
    ),
    "getattr of what fails": (
        lambda: getattr(failing, "value", config).lr,
        "global 'failing', attribute 'value' of class Failing, global 'config', attribute 'lr' of Config",
    ),
    "hasattr of what is not there": (lambda: hasattr(model, "absent"), "global 'model', attribute 'absent' of Model"),
    "an attrgetter": (
        lambda: getter(model),
        "global 'model', global 'getter', attribute 'config' of Model, attribute 'lr' of Config",
    ),
    "an item of vars": (
        lambda: vars(config)["lr"],
        "global 'config', attribute '__dict__' of Config, item 'lr' of a dict",
    ),
    "all of vars": (
        lambda: list(vars(config).values()),
        "global 'config', attribute '__dict__' of Config, contents of a dict",
    ),
    "an f string": (lambda: f"{scale:.2f} {scale!r}", "global 'scale'"),
    "a walrus": (lambda: y if (y := scale) > 1 else 0, "global 'scale'"),
    "a conditional argument": (
        lambda: scaled(config.lr if depth else 1.0),
        "global 'scaled', global 'scale', global 'config', attribute 'lr' of Config, global 'depth'",
    ),
    "a map": (
        lambda: list(map(scaled, numbers)),
        "global 'numbers', contents of a list, global 'scaled', global 'scale'",
    ),
}


@pytest.mark.parametrize("of", parameters(EXPRESSIONS, CASES))
def test_reads(of: Case) -> None:
    reads, writes = seen(of.step)
    assert reads == of.reads
    assert writes == set()


def test_there_are_many() -> None:
    assert len(CASES) + len(EXPRESSIONS) >= 60


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
    assert {place.what for place in places_read(witness)} == {"attribute 'lr' of Config"}
    assert witness.is_argument(given["lr"])
    assert witness.is_preexisting(inside)
    assert not witness.is_preexisting(Config())
