"""Pickles that no sound file has: every opcode, names of what runs code, and little that stands for much."""

from __future__ import annotations

import pickle
import random
import struct

MARKER = "adjoint-was-here"
TARGETS = [
    "os system", "posix system", "nt system", "os popen", "os mkdir", "subprocess Popen", "subprocess call",
    "pty spawn", "builtins eval", "builtins exec", "builtins compile", "builtins open", "builtins getattr",
    "builtins setattr", "builtins __import__", "__builtin__ eval", "builtins globals", "builtins type",
    "builtins object", "builtins list", "builtins map", "builtins property", "importlib import_module",
    "runpy run_path", "runpy _run_code", "marshal loads", "pickle loads", "pickle Unpickler", "_pickle loads",
    "types FunctionType", "types CodeType", "functools partial", "functools reduce", "operator attrgetter",
    "operator methodcaller", "operator itemgetter", "ctypes CDLL", "socket socket", "webbrowser open",
    "shutil rmtree", "pathlib Path", "io open", "io FileIO", "tempfile mkdtemp", "multiprocessing Process",
    "threading Thread", "code interact", "timeit timeit", "cProfile run", "pdb run", "bdb Bdb", "asyncio run",
    "torch load", "torch save", "torch.hub load", "torch.storage _load_from_bytes", "torch.jit load",
    "torch._utils _rebuild_sparse_tensor", "torch._utils _rebuild_device_tensor_from_numpy",
    "torch.utils._config_module Path", "torch.serialization load", "torch.distributions Normal",
    "numpy load", "numpy save", "numpy fromfile", "numpy memmap", "numpy core", "numpy.lib.npyio load",
    "adjoint load", "adjoint save", "adjoint compile", "adjoint.serialization load",
    "adjoint.core.tensor.tensor Tensor", "adjoint.core.tensor Tensor", "adjoint.nn.modules Linear",
    "adjoint.nn.module.module Module", "adjoint.data.worker work", "sys modules", "sys exit",
    "collections OrderedDict.__init__", "collections OrderedDict.__reduce__", "os.path join", "os.path os.system",
    "builtins set.__class__", "torch._utils _rebuild_tensor_v2.__globals__", "torch Tensor.__setstate__",
    "collections defaultdict", "collections namedtuple", "builtins  eval", "BUILTINS eval", "builtins.eval", " ",
    "site addsitedir", "copyreg _reconstructor", "copyreg __newobj__", "enum Enum", "argparse Namespace",
    "weakref finalize", "gc collect", "signal raise_signal", "resource setrlimit", "atexit register",
]  # fmt: skip
FINE = [
    "collections OrderedDict", "collections Counter", "builtins set", "builtins bytearray", "_codecs encode",
    "torch Size", "torch device", "torch FloatStorage", "torch BoolStorage", "torch.storage UntypedStorage",
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state", "torch._tensor _rebuild_from_type_v2", "torch Tensor",
    "torch.nn.parameter Parameter", "numpy._core.multiarray _reconstruct", "numpy._core.multiarray scalar",
    "numpy dtype", "numpy ndarray", "torch float32", "torch bool", "torch.serialization _get_layout",
]  # fmt: skip
COMMANDS = [f"touch {MARKER}", f"open({MARKER!r},'w')", MARKER, "os", "__globals__", "../../x", "\x1b[2J", "a" * 3000]
HUGE = [b"\xff" * 8, b"\xff\xff\xff\x7f" + bytes(4), b"\0\0\0\x80" + bytes(4), bytes(8), b"\1" + bytes(7)]


def hostile_pickle(draw: random.Random) -> bytes:
    """A program of pieces, most of which leave one value on the stack, and a STOP at its end, mostly."""
    protocol = bytes([0x80, draw.choice([2, 2, 2, 4, 5, 0, 9, 255])])
    pieces = [draw.choice(PIECES)(draw) for _ in range(draw.choice([1, 1, 2, 3, 6, 20]))]
    body = b"(" + b"".join(pieces) + b"t" if draw.random() < 0.7 else b"".join(pieces)
    return (protocol if draw.random() < 0.9 else b"") + body + (b"." if draw.random() < 0.95 else b"")


def _named(text: str, draw: random.Random) -> bytes:
    module, _, name = text.partition(" ")
    kind = draw.randrange(4)
    if kind == 0:
        return _text(module) + _text(name) + b"\x93"
    if kind == 1:  # held in the memo, and taken from it
        return f"c{module}\n{name}\n".encode() + b"q\x05" + b"0h\x05"
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _plain(draw: random.Random) -> bytes:
    values = [None, True, 1, -1, 2**31, 2**70, 1.5, "text", b"bytes", [1], (), (1, 2), {"a": 1}, {1}, "é", 10**300]
    return pickle.dumps(draw.choice(values), draw.choice([2, 4]))[2:-1].split(b"\x95")[-1][
        8 if draw.random() < 0.1 else 0 :
    ]


def _arguments(draw: random.Random) -> bytes:
    parts = [_text(draw.choice(COMMANDS)) if draw.random() < 0.6 else _plain(draw) for _ in range(draw.randrange(4))]
    return b"(" + b"".join(parts) + draw.choice([b"t", b"t", b"t", b"l"])


def _called(draw: random.Random) -> bytes:
    """A function of anywhere, its arguments, and REDUCE, NEWOBJ or NEWOBJ_EX; now and then BUILD."""
    named = _named(draw.choice(TARGETS if draw.random() < 0.6 else FINE), draw)
    state = _state(draw) + b"b" if draw.random() < 0.3 else b""
    return named + _arguments(draw) + draw.choice([b"R", b"R", b"\x81", b"}\x92"]) + state


def _state(draw: random.Random) -> bytes:
    key = draw.choice(["__class__", "__dict__", "__reduce__", "__setstate__", "array", "items", "_node", "forward", ""])
    pair = b"}" + _text(key) + (_plain(draw) if draw.random() < 0.5 else _named(draw.choice(TARGETS), draw)) + b"s"
    return draw.choice([pair, b"N" + pair + b"\x86", pair + pair + b"\x86", _plain(draw)])


def _built(draw: random.Random) -> bytes:
    return _plain(draw) + _state(draw) + b"b"


def _instance(draw: random.Random) -> bytes:
    """INST and OBJ."""
    text = draw.choice(TARGETS + FINE)
    module, _, name = text.partition(" ")
    if draw.random() < 0.5:
        return b"(" + _text(draw.choice(COMMANDS)) + f"i{module}\n{name}\n".encode()
    return b"(" + _named(text, draw) + _text(draw.choice(COMMANDS)) + b"o"


def _outside(draw: random.Random) -> bytes:
    """PERSID, BINPERSID and extensions."""
    identity = [
        _plain(draw), _arguments(draw), b"(" + _text("storage") + _plain(draw) * 4 + b"t", _storage(draw),
        b"(" + _text("module") + _named(draw.choice(TARGETS), draw) + _text("x.py") + _text("source") + b"t",
    ]  # fmt: skip
    return draw.choice([*[part + b"Q" for part in identity], b"Pstorage\n", b"\x82\1", b"\x83\1\1", b"\x84\1\1\1\1"])


def _storage(draw: random.Random) -> bytes:
    kind = draw.choice(["FloatStorage", "BoolStorage", "ComplexFloatStorage", "HalfStorage", "QInt8Storage"])
    count = draw.choice([0, 1, 2, 3, 12, 40, 48, 2**31 - 1, -1]).to_bytes(4, "little", signed=True)
    key = _text(draw.choice(["0", "1", "2", "../0", "99", ""]))
    return (
        b"("
        + _text("storage")
        + f"ctorch\n{kind}\n".encode()
        + key
        + _text(draw.choice(["cpu", "cuda:0"]))
        + b"J"
        + count
        + b"t"
    )


def _tensor(draw: random.Random) -> bytes:
    def number() -> bytes:
        return pickle.dumps(draw.choice([0, 1, 2, 3, 40, -1, 2**31, 2**62, 2**64]), 2)[2:-1]

    rank = draw.choice([0, 1, 1, 2, 4, 65])
    sizes, strides = (b"(" + b"".join(number() for _ in range(rank)) + b"t" for _ in range(2))
    metadata = b"}" + _text(draw.choice(["conj", "neg", "x"])) + b"\x88s" if draw.random() < 0.3 else b""
    parts = _storage(draw) + b"Q" + number() + sizes + strides + b"\x89}" + metadata
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + parts + b"tR"


def _announced(draw: random.Random) -> bytes:
    """A length of much, and little that follows."""
    return draw.choice(
        [b"X", b"\x8c", b"\x8d", b"T", b"U", b"B", b"C", b"\x8e", b"\x8a", b"\x8b", b"\x96", b"\x95"]
    ) + draw.choice(HUGE)


def _repeated(draw: random.Random) -> bytes:
    """Little that is said often: depth, sharing, marks, and calls that copy."""
    n = draw.choice([100, 2000])
    return draw.choice(
        [
            b")" + b"\x85" * n,
            b"]q\1" + b"h\1h\1\x86q\1" * n,
            b"]q\2" + b"h\2h\2a" * n,
            b"(" * n + b"t" * n,
            b"N" + b"2" * n + b"0" * n,
            b"N" + b"".join(b"r" + struct.pack("<I", i * 999_983 % 2**32) for i in range(n)),
            b"](" + b"K\1" * n + b"eq\3" + b"c__builtin__\nset\nh\3\x85R0" * n,
            b"](K\1K\2\x86q\4" + b"h\4" * n + b"eq\3" + b"ccollections\nOrderedDict\nh\3\x85R0" * n,
            b"X" + struct.pack("<I", 9 * n) + b"x" * 9 * n + b"q\6" + b"c_codecs\nencode\nh\6X\6\0\0\0latin1\x86R0" * n,
            b"}" + b"(" + b"K\1" * n + b"tq\7N" + b"s}h\7N" * n + b"s",
            b"\x8f" * n + b"0" * (n - 1),
            b"\x8b" + struct.pack("<I", 4 * n) + b"\x7f" * 4 * n,
            b"("
            + _text("storage")
            + b"ctorch\nFloatStorage\n"
            + _text("1")
            + _text("cpu")
            + b"K\x03tq\x08"
            + b"h\x08Q0" * n
            + b"N",
        ]
    )


def _opcode(draw: random.Random) -> bytes:
    """Any opcode with any operand."""
    return bytes([draw.randrange(256)]) + draw.randbytes(draw.choice([0, 0, 1, 4]))


def _line(draw: random.Random) -> bytes:
    """Opcodes of the first protocols, with text to the end of the line."""
    text = draw.choice(["1", "L", "01", "'a'", "9" * 5000, "x" * 5000, "1e999", "\\u0000", "__import__('os')"])
    return draw.choice([b"I", b"L", b"F", b"S", b"V", b"p", b"g", b"c", b"P", b"i"]) + text.encode() + b"\n"


def _buffer(draw: random.Random) -> bytes:
    return draw.choice([b"\x97", b"\x97\x98", b"\x98", b"N\x98"])


def _name(draw: random.Random) -> bytes:
    return _named(draw.choice(TARGETS if draw.random() < 0.5 else FINE), draw)


PIECES = [
    _called, _called, _called, _built, _instance, _outside, _tensor, _tensor, _announced, _repeated, _opcode, _line,
    _buffer, _name, _plain,
]  # fmt: skip
