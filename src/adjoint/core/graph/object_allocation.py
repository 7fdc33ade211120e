"""Functions that make objects without attributes: the tensors and nodes of op calls, of which each call makes some.

`object.__new__(kind)` checks its arguments, for which CPython puts them into a tuple, and reserves memory for the
attributes of a `__dict__`, which few tensors ever get. That takes twice as long as the allocation, 130 ns for a tensor
where this takes 65. What is made is the same: a `__dict__` comes with its first attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Kind = TypeVar("Kind")
METH_NOARGS = 0x4


def make_allocator(kind: type[Kind]) -> Callable[[], Kind]:
    """Return a function that makes an object of the class `kind`, none of whose attributes is set.

    In CPython it is a function of its C interface, `PyType_GenericAlloc`, which takes a class and a number. Bound to
    the class and called without arguments, as a C function of Python's is, it gets NULL for the number: 0.
    """
    if sys.implementation.name == "cpython" and sys.platform != "emscripten":
        # what a Python raises that lacks ctypes, may not make code, or has an audit hook that bans it
        with suppress(ImportError, AttributeError, TypeError, OSError, MemoryError, RuntimeError):
            function = _bind_generic_alloc(kind)
            if type(function()) is kind:
                return function
    return make_plain_allocator(kind)


def make_plain_allocator(kind: type[Kind]) -> Callable[[], Kind]:
    """Return the function that `make_allocator` stands for, in Python's own terms."""
    return partial(object.__new__, kind)


def _bind_generic_alloc(kind: type[Kind]) -> Callable[[], Kind]:
    """Return CPython's allocation of objects of a class as a function for Python."""
    import ctypes  # which some builds of Python lack

    class MethodDefinition(ctypes.Structure):
        """CPython's description of a function in C, `PyMethodDef`."""

        _fields_ = (
            ("name", ctypes.c_char_p),
            ("function", ctypes.c_void_p),
            ("flags", ctypes.c_int),
            ("doc", ctypes.c_char_p),
        )

    interface = ctypes.pythonapi
    address = ctypes.cast(interface.PyType_GenericAlloc, ctypes.c_void_p).value
    definition = MethodDefinition(f"new_{kind.__name__}".encode(), address, METH_NOARGS, None)
    interface.Py_IncRef(ctypes.py_object(definition))  # which the function looks at until the process ends
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make_function = prototype(("PyCFunction_NewEx", interface))
    function: Callable[[], Kind] = make_function(ctypes.addressof(definition), kind, None)
    return function
