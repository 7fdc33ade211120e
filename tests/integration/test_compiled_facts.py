"""What a compiled step reads is guarded, whichever door it came through: every place × every read × every change of it.

A place gives the ways to read a value there and the ways to change it. A case runs plain and compiled: before the
change, after it, and when all is as before.
"""

# ruff: noqa: B009, C416, C417, PLC3002, RUF012, RUF015, SIM401, SIM223  what people write is what is read here
import dataclasses
import enum
import functools
import operator
import sys
import threading
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Reads = dict[str, Callable[[], Any]]
Writes = dict[str, Callable[[Any], None]]
Place = Callable[[Any], tuple[Reads, Writes]]


def twice(x: Any) -> Any:
    return x * 2


def thrice(x: Any) -> Any:
    return x * 3


class Pair:
    def __init__(self, factor: float) -> None:
        self.factor = factor


# Kinds of values: two of them, and what a step does with one.
VALUES: dict[str, tuple[Callable[[], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {
    "float": (lambda: (2.0, 5.0), lambda v, x: x * v),
    "int": (lambda: (2, 3), lambda v, x: x * v),
    "int that is a size": (lambda: (2, 3), lambda v, x: x * len(range(v))),
    "type": (lambda: (2, 2.0), lambda v, x: x * v + isinstance(v, int)),
    "text": (lambda: ("a", "bc"), lambda v, x: x * {"a": 2, "bc": 5}[v]),
    "flag": (lambda: (True, False), lambda v, x: x * 2 if v else x * 3),
    "None": (lambda: (None, 1.5), lambda v, x: x if v is None else x * v),
    "tensor": (lambda: (ad.tensor(2.0), ad.tensor(5.0)), lambda v, x: x * v),
    "shape": (lambda: (ad.ones(2), ad.ones(3)), lambda v, x: x * v.numel()),
    "function": (lambda: (twice, thrice), lambda v, x: v(x)),
    "op": (lambda: (ad.exp, ad.sin), lambda v, x: v(x)),
    "list": (lambda: ([1.0, 2.0], [4.0]), lambda v, x: x * sum(v)),
    "tuple": (lambda: ((1.0, 2.0), (4.0,)), lambda v, x: x * v[0]),
    "dict": (lambda: ({"a": 1.0}, {"a": 3.0}), lambda v, x: x * v["a"]),
    "object": (lambda: (Pair(2.0), Pair(5.0)), lambda v, x: x * v.factor),
    "array": (lambda: (np.ones(2), np.full(2, 3.0)), lambda v, x: x * float(v.sum())),
}


def run_case(place: Place, read: str, write: str, kind: str, wrap: Callable[[Any], Any]) -> list[Any]:
    values, use = VALUES[kind]
    first, second = values()
    reads, writes = place(first)
    get = reads[read]
    step = wrap(lambda x: use(get(), x))
    seen: list[Any] = []
    for value in (..., ..., second, ..., first, second, ...):
        if value is not ...:
            writes[write](value)
        try:
            seen.append(round(step(ad.ones(1)).item(), 4))
        except Exception as error:  # noqa: BLE001  whatever the step raises is what is compared
            seen.append((type(error).__name__, str(error)[:60]))
    return seen


SCALE: Any = None
MODULE = sys.modules[__name__]


def of_global(value: Any) -> tuple[Reads, Writes]:
    global SCALE  # noqa: PLW0603
    SCALE = value

    def assign(v: Any) -> None:
        global SCALE  # noqa: PLW0603
        SCALE = v

    reads: Reads = {
        "name": lambda: SCALE, "globals()": lambda: globals()["SCALE"], "module": lambda: MODULE.SCALE,
        "get": lambda: globals().get("SCALE"), "vars": lambda: vars(MODULE)["SCALE"],
        "sys.modules": lambda: sys.modules[__name__].SCALE, "getattr": lambda: getattr(MODULE, "SCALE"),
        "attrgetter": lambda: operator.attrgetter("SCALE")(MODULE), "__dict__": lambda: MODULE.__dict__["SCALE"],
        "in a comprehension": lambda: [SCALE for _ in range(1)][0], "in a lambda": lambda: (lambda: SCALE)(),
        "in a generator": lambda: next(SCALE for _ in range(1)), "as a default": lambda: (lambda v=SCALE: v)(),
    }  # fmt: skip
    writes: Writes = {
        "name": assign, "globals()": lambda v: globals().__setitem__("SCALE", v),
        "setattr": lambda v: setattr(MODULE, "SCALE", v), "update": lambda v: vars(MODULE).update(SCALE=v),
    }  # fmt: skip
    return reads, writes


def of_cell(value: Any) -> tuple[Reads, Writes]:
    held = value

    def read() -> Any:
        return held

    def assign(v: Any) -> None:
        nonlocal held
        held = v

    class Reader:
        def read(self) -> Any:
            return held

        @property
        def value(self) -> Any:
            return held

    (cell,) = read.__closure__ or ()
    reader = Reader()
    reads: Reads = {
        "name": lambda: held, "function": read, "nested": lambda: (lambda: held)(), "method": lambda: reader.read(),
        "property": lambda: reader.value, "partial": functools.partial(read), "comprehension": lambda: [held][0],
        "cell_contents": lambda: cell.cell_contents, "generator": lambda: next(held for _ in range(1)),
        "map": lambda: next(map(lambda _: held, (1,))),
        "__closure__": lambda: read.__closure__[0].cell_contents,  # type: ignore[index]
    }  # fmt: skip
    return reads, {"nonlocal": assign, "cell_contents": lambda v: setattr(cell, "cell_contents", v)}


class Base:
    a: Any
    table: Any


def of_attribute(value: Any) -> tuple[Reads, Writes]:
    class Holder(Base):
        def read(self) -> Any:
            return self.a

        @property
        def value(self) -> Any:
            return self.a

        def __getitem__(self, key: str) -> Any:
            return getattr(self, key)

        def __call__(self) -> Any:
            return self.a

        def __iter__(self) -> Iterator[Any]:
            yield self.a

        def __enter__(self) -> Any:
            return self.a

        def __exit__(self, *args: object) -> None:
            pass

        def __contains__(self, key: object) -> bool:
            return True

    o = Holder()
    o.a = value

    def matched() -> Any:
        match o:
            case Holder(a=found):
                return found

    def managed() -> Any:
        with o as found:
            return found

    def unpacked() -> Any:
        (found,) = o
        return found

    reads: Reads = {
        "o.a": lambda: o.a, "getattr": lambda: getattr(o, "a"), "vars": lambda: vars(o)["a"],
        "default": lambda: getattr(o, "a", None), "__dict__": lambda: o.__dict__["a"], "get": lambda: vars(o).get("a"),
        "attrgetter": lambda: operator.attrgetter("a")(o), "method": lambda: o.read(), "property": lambda: o.value,
        "bound method": o.read, "unbound": lambda: Holder.read(o), "item": lambda: o["a"], "call": lambda: o(),
        "unpack": unpacked, "with": managed, "match": matched, "for": lambda: [v for v in o][0],
        "next": lambda: next(iter(o)),
        "__getattribute__": lambda: object.__getattribute__(o, "a"), "map": lambda: next(map(lambda h: h.a, (o,))),
        "values": lambda: list(vars(o).values())[0], "items": lambda: dict(vars(o).items())["a"],
        "**": lambda: (lambda a: a)(**vars(o)), "copy": lambda: dict(vars(o))["a"], "iter": lambda: list(iter(o))[0],
        "hasattr": lambda: o.a if hasattr(o, "a") else None,
    }  # fmt: skip
    writes: Writes = {
        "o.a": lambda v: setattr(o, "a", v), "vars": lambda v: vars(o).__setitem__("a", v),
        "update": lambda v: o.__dict__.update(a=v), "object": lambda v: object.__setattr__(o, "a", v),
        "__dict__": lambda v: setattr(o, "__dict__", {"a": v}),
    }  # fmt: skip
    return reads, writes


def of_class(value: Any) -> tuple[Reads, Writes]:
    class Root:
        a: Any = value

        def read(self) -> Any:
            return self.a

        @classmethod
        def read_class(cls) -> Any:
            return cls.a

    class Middle(Root):
        pass

    class Leaf(Middle):
        def read_super(self) -> Any:
            return super().a

    class Other:
        a: Any = None

        def read(self) -> Any:
            return self.a

        @classmethod
        def read_class(cls) -> Any:
            return cls.a

        def read_super(self) -> Any:
            return self.a

    o = Leaf()

    def set_other(v: Any) -> None:
        Other.a = v
        o.__class__ = Other  # type: ignore[assignment]

    def set_bases(v: Any) -> None:
        Middle.__bases__ = (type("New", (Root,), {"a": v}),)

    own: Any = o
    reads: Reads = {
        "o.a": lambda: own.a, "type(o).a": lambda: type(own).a, "method": lambda: own.read(),
        "classmethod": lambda: own.read_class(), "__class__": lambda: own.__class__.a,
        "getattr": lambda: getattr(own, "a", 0),
    }  # fmt: skip
    of_kind: Reads = {
        "Root.a": lambda: Root.a, "vars": lambda: vars(Root)["a"], "__dict__": lambda: Root.__dict__["a"],
    }  # fmt: skip
    of_leaf: Reads = {"Leaf.a": lambda: Leaf.a, "super": lambda: own.read_super()}
    writes: Writes = {"Root.a": lambda v: setattr(Root, "a", v), "type": lambda v: type.__setattr__(Root, "a", v)}
    below: Writes = {
        "Middle.a": lambda v: setattr(Middle, "a", v), "__bases__": set_bases,
    }  # fmt: skip
    deeper: Writes = {
        "Leaf.a": lambda v: setattr(Leaf, "a", v), "o.a": lambda v: setattr(o, "a", v), "__class__": set_other,
    }  # fmt: skip
    return {**reads, **of_kind, **of_leaf}, {**writes, **below, **deeper}


def of_item(make: Callable[[Any], Any], reads_of: Callable[[Any], Reads], writes_of: Callable[[Any], Writes]) -> Place:
    def place(value: Any) -> tuple[Reads, Writes]:
        held = make(value)
        return reads_of(held), writes_of(held)

    return place


def of_mapping(make: Callable[[Any], Any]) -> Place:
    def place(value: Any) -> tuple[Reads, Writes]:
        d = make(value)

        def matched() -> Any:
            match d:
                case {"a": found}:
                    return found

        reads: Reads = {
            "item": lambda: d["a"], "get": lambda: d.get("a"), "default": lambda: d.get("a", 0),
            "items": lambda: dict(d.items())["a"],
            "values": lambda: list(d.values())[0], "itemgetter": lambda: operator.itemgetter("a")(d),
            "**": lambda: (lambda a: a)(**d),
            "for": lambda: [d[k] for k in d][0], "copy": lambda: dict(d)["a"],
            "in": lambda: d["a"] if "a" in d else None,
            "match": matched, "union": lambda: {**d, "b": 1}["a"], "getitem": lambda: d.__getitem__("a"),
            "key in a variable": lambda: [d[k] for k in ("a",)][0], "try": lambda: tried(d),
            "generator": lambda: next(v for v in d.values()),
            "len": lambda: d["a"] if len(d) == 1 else None, "nested": lambda: {"d": d}["d"]["a"],
        }  # fmt: skip
        writes: Writes = {
            "item": lambda v: d.__setitem__("a", v), "update": lambda v: d.update(a=v),
            "pop": lambda v: (d.pop("a"), d.setdefault("a", v)) and None,
            "clear": lambda v: (d.clear(), d.update({"a": v})) and None,
        }  # fmt: skip
        return reads, writes

    return place


def tried(d: Any) -> Any:
    try:
        return d["a"]
    except KeyError:
        return None


def of_sequence(make: Callable[[Any], Any]) -> Place:
    def place(value: Any) -> tuple[Reads, Writes]:
        s = make(value)

        def unpacked() -> Any:
            found, *_ = s
            return found

        def matched() -> Any:
            match s:
                case [found, *_]:
                    return found

        reads: Reads = {
            "[0]": lambda: s[0], "[-2]": lambda: s[-2], "for": lambda: [v for v in s][0],
            "next": lambda: next(iter(s)), "unpack": unpacked,
            "*": lambda: (lambda a, *_: a)(*s), "zip": lambda: [v for v, _ in zip(s, range(2), strict=True)][0],
            "enumerate": lambda: [v for _, v in enumerate(s)][0], "reversed": lambda: list(reversed(s))[-1],
            "match": matched,
            "copy": lambda: list(s)[0], "itemgetter": lambda: operator.itemgetter(0)(s),
            "map": lambda: next(map(lambda v: v, s)),
            "+": lambda: [*s][0], "filter": lambda: next(filter(lambda v: True, s)),
            "getitem": lambda: s.__getitem__(0),
        }  # fmt: skip
        writes: Writes = {
            "[0]": lambda v: s.__setitem__(0, v), "insert": lambda v: (s.insert(0, v), s.__delitem__(1)) and None,
            "clear": lambda v: (s.clear(), s.extend([v, None])) and None, "[-2]": lambda v: s.__setitem__(-2, v),
        }  # fmt: skip
        return reads, writes

    return place


class Meta(type):
    @property
    def shown(cls) -> Any:
        return cls.hidden  # type: ignore[attr-defined]


class Descriptor:
    def __init__(self, data: Any) -> None:
        self.data = data

    def __get__(self, holder: object, kind: type) -> Any:
        return self.data


class DataDescriptor(Descriptor):
    def __set__(self, holder: object, value: Any) -> None:
        self.data = value


def of_objects(value: Any) -> tuple[Reads, Writes]:
    """Objects that keep the value in all ways that a class has to offer; a write goes to all of them."""

    class Slotted:
        __slots__ = ("a",)

    class Behind:
        def __init__(self, v: Any) -> None:
            self._a = v

        @property
        def a(self) -> Any:
            return self._a

        @functools.cached_property
        def cached(self) -> Any:
            return self._a

        def __getattr__(self, name: str) -> Any:
            if name == "found":
                return self._a
            raise AttributeError(name)

    class Proxy:
        def __init__(self, v: Any) -> None:
            self.store = {"a": v}

        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, "store")["a"] if name == "a" else object.__getattribute__(self, name)

    class Described:
        plain, data = Descriptor(value), DataDescriptor(value)

    class Table(metaclass=Meta):
        hidden = value
        table = {"a": value}

        def __class_getitem__(cls, key: str) -> Any:
            return cls.table[key]

        @staticmethod
        def read_static() -> Any:
            return Table.hidden

    @dataclasses.dataclass
    class Record:
        a: Any
        b: Any = dataclasses.field(default=None)

    Named = namedtuple("Named", "a b")

    class Colour(enum.Enum):
        RED = 1

        @property
        def factor(self) -> Any:
            return self.shade  # type: ignore[attr-defined]

    def function() -> Any:
        return function.a  # type: ignore[attr-defined]

    def defaults(a: Any = value) -> Any:
        return a

    def keywords(*, a: Any = value) -> Any:
        return a

    module, own = ModuleType("facts_module"), ModuleType("facts_with_getattr")
    sys.modules["facts_module"] = module
    exec("def __getattr__(name):\n    return table[name]\n", vars(own))
    own.table = {"a": value}  # type: ignore[attr-defined]
    slotted, behind, proxy, record, local = Slotted(), Behind(value), Proxy(value), Record(value), threading.local()
    box = SimpleNamespace(named=Named(value, 1), deep=SimpleNamespace(x=[{"k": SimpleNamespace()}]))
    described, tensor, partial = Described(), ad.ones(2), SimpleNamespace(f=functools.partial(lambda a: a, value))
    Colour.RED.shade = value  # type: ignore[attr-defined]

    def put(v: Any) -> None:
        slotted.a = local.a = module.a = function.a = tensor.tag = record.a = v  # type: ignore[attr-defined]
        box.deep.x[0]["k"].a = v
        behind._a = proxy.store["a"] = Described.__dict__["plain"].data = described.data = v
        Table.hidden = Table.table["a"] = own.table["a"] = Colour.RED.shade = v  # type: ignore[attr-defined]
        defaults.__defaults__, keywords.__kwdefaults__ = (v,), {"a": v}
        box.named, partial.f = box.named._replace(a=v), functools.partial(partial.f.func, v)
        vars(behind)["cached"] = v

    put(value)
    red: Any = Colour.RED

    def imported() -> Any:
        import facts_module  # type: ignore[import-not-found]

        return facts_module.a

    def imported_name() -> Any:
        from facts_module import a

        return a

    def matched() -> Any:
        match record:
            case Record(found):
                return found

    reads: Reads = {
        "slot": lambda: slotted.a, "property": lambda: behind.a, "cached": lambda: behind.cached,
        "__getattr__": lambda: behind.found,
        "__getattribute__": lambda: proxy.a, "descriptor": lambda: described.plain,
        "data descriptor": lambda: described.data,
        "metaclass": lambda: Table.shown, "__class_getitem__": lambda: Table["a"],
        "static": lambda: Table.read_static(),
        "dataclass": lambda: record.a, "asdict": lambda: dataclasses.asdict(record)["a"],
        "replace": lambda: dataclasses.replace(record).a,
        "astuple": lambda: dataclasses.astuple(record)[0], "match dataclass": matched,
        "fields": lambda: [getattr(record, f.name) for f in dataclasses.fields(record)][0],
        "namedtuple": lambda: box.named.a, "_asdict": lambda: box.named._asdict()["a"],
        "namedtuple item": lambda: box.named[0],
        "enum": lambda: red.factor, "enum member": lambda: Colour["RED"].shade, "enum value": lambda: Colour(1).shade,
        "function": function, "function attribute": lambda: function.a, "defaults": lambda: defaults(),
        "keywords": lambda: keywords(),
        "__defaults__": lambda: defaults.__defaults__[0], "__kwdefaults__": lambda: keywords.__kwdefaults__["a"],
        "module": lambda: module.a, "import": imported, "from import": imported_name, "module getattr": lambda: own.a,
        "local": lambda: local.a, "deep": lambda: box.deep.x[0]["k"].a,
        "tensor": lambda: tensor.tag,  # type: ignore[attr-defined]
        "getattr of tensor": lambda: getattr(tensor, "tag", 1.0), "hasattr": lambda: tensor.tag if hasattr(tensor,
        "tag") else 1.0,
        "partial": lambda: partial.f(), "partial's args": lambda: partial.f.args[0],
        "vars of tensor": lambda: vars(tensor)["tag"],
    }  # fmt: skip
    return reads, {"all": put}


class Mapping(UserDict[str, Any]):
    pass


class Sub(dict[str, Any]):
    pass


PLACES: dict[str, Place] = {
    "global": of_global,
    "cell": of_cell,
    "attribute": of_attribute,
    "class": of_class,
    "objects": of_objects,
    "dict": of_mapping(lambda v: {"a": v}),
    "OrderedDict": of_mapping(lambda v: OrderedDict(a=v)),
    "defaultdict": of_mapping(lambda v: defaultdict(int, a=v)),
    "UserDict": of_mapping(lambda v: UserDict({"a": v})),
    "ChainMap": of_mapping(lambda v: ChainMap({"a": v}, {})),
    "own UserDict": of_mapping(lambda v: Mapping({"a": v})),
    "own dict": of_mapping(lambda v: Sub(a=v)),
    "list": of_sequence(lambda v: [v, None]),
    "deque": of_sequence(lambda v: deque((v, None))),
    "UserList": of_sequence(lambda v: UserList([v, None])),
}


def cases() -> list[Any]:
    """Each place × read × write, with two kinds of values in turn; nightly with all."""
    doors = [(name, read, write) for name, place in PLACES.items() for read, write in product(*(place(2.0)))]
    return [pytest.param(*door, sorted(VALUES)[i * 5 % len(VALUES)], id="-".join(door)) for i, door in enumerate(doors)]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("place", "read", "write", "kind"), cases())
def test_what_is_read_is_guarded(place: str, read: str, write: str, kind: str) -> None:
    run = functools.partial(run_case, PLACES[place], read, write, kind)
    assert run(ad.compile) == run(lambda step: step)


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "read", "write", "_"), cases())
def test_values_of_all_kinds(place: str, read: str, write: str, _: str) -> None:
    for kind in VALUES:
        if not (read in ("asdict", "astuple") and kind in ("tensor", "shape")):  # which copy a tensor's values
            test_what_is_read_is_guarded(place, read, write, kind)
