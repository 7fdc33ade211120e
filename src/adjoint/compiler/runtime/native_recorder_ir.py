"""The module of `runtime.making`, in LLVM assembly. Its functions find what they call and compare with in a table.

Slots are written where the classes have them. A function that gives 0 or a null pointer has failed, and Python's error
is set; what it had made by then goes with the tensor.
"""

from __future__ import annotations

from adjoint.compiler.runtime import cpython_layout
from adjoint.core.graph.node import Node
from adjoint.core.tensor.storage import Storage, View
from adjoint.core.tensor.tensor import Tensor

FUNCTIONS = (
    "Py_IncRef", "Py_DecRef", "PyEval_GetFrame", "PyFrame_GetCode", "PyFrame_GetBack", "PyFrame_GetLasti",
    "PyLong_FromLong", "PyLong_AsLong", "PyObject_GetAttr", "PyObject_GetItem", "PyObject_CallNoArgs",
    "PyObject_CallOneArg", "PyTuple_New", "PyWeakref_NewRef", "PyList_Append",
)  # fmt: skip
OBJECT_NAMES = (
    "None", "True", "Tensor", "Node", "View", "empty", "tick", "inside", "co_filename", "shape", "dtype", "NORMALLY",
    "prune",
)  # fmt: skip
LIBRARY_CODE_SLOTS = 256  # pieces of the library's code that are known again
TABLE_NAMES = (*FUNCTIONS, "new", "table", *OBJECT_NAMES)  # of the words of the table


def text() -> str:
    """All of it."""
    return f"{HELPERS}\n{_call_site_ir()}\n{_attach_node_ir()}\n{_record_output_ir()}\n{_record_view_ir()}"


def _word(register: str, name: str) -> str:
    return f"%{register} = call ptr @word(ptr %w, i64 {TABLE_NAMES.index(name)})"


def _put(kind: type, owner: str, name: str, value: str) -> str:
    """The slot of an object that is new gets a value, and the value a reference more."""
    return f"call void @put(ptr %w, ptr %{owner}, i64 {cpython_layout.slot_offset(kind, name)}, ptr %{value})"


def _give(kind: type, owner: str, name: str, value: str) -> str:
    """The same with a reference that is at hand."""
    return f"call void @give(ptr %{owner}, i64 {cpython_layout.slot_offset(kind, name)}, ptr %{value})"


HELPERS = f"""
define internal ptr @word(ptr %w, i64 %i) {{
  %p = getelementptr ptr, ptr %w, i64 %i
  %v = load ptr, ptr %p
  ret ptr %v
}}
define internal ptr @at(ptr %object, i64 %offset) {{
  %p = getelementptr i8, ptr %object, i64 %offset
  %v = load ptr, ptr %p
  ret ptr %v
}}
define internal void @give(ptr %object, i64 %offset, ptr %value) {{
  %p = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %p
  ret void
}}
define internal void @keep(ptr %w, ptr %object) {{
  {_word("f", "Py_IncRef")}
  call void %f(ptr %object)
  ret void
}}
define internal void @drop(ptr %w, ptr %object) {{
  {_word("f", "Py_DecRef")}
  call void %f(ptr %object)
  ret void
}}
define internal void @put(ptr %w, ptr %object, i64 %offset, ptr %value) {{
  call void @keep(ptr %w, ptr %value)
  call void @give(ptr %object, i64 %offset, ptr %value)
  ret void
}}
define internal ptr @fresh(ptr %w, ptr %kind) {{
  {_word("new", "new")}
  {_word("empty", "empty")}
  %made = call ptr %new(ptr %kind, ptr %empty, ptr null)
  ret ptr %made
}}
define internal ptr @attribute(ptr %w, ptr %object, i64 %name) {{
  {_word("get", "PyObject_GetAttr")}
  %n = call ptr @word(ptr %w, i64 %name)
  %v = call ptr %get(ptr %object, ptr %n)
  ret ptr %v
}}
"""


def _call_site_ir() -> str:
    """Gives a node the code and the instruction of the innermost frame outside the library; 0 for an error.

    The library's code is known again by its address, in a table where newer code takes the place of older.
    """
    return f"""
define internal ptr @known(ptr %w, ptr %code) {{
  {_word("table", "table")}
  %number = ptrtoint ptr %code to i64
  %high = lshr i64 %number, 5
  %low = lshr i64 %number, 12
  %mixed = xor i64 %high, %low
  %i = and i64 %mixed, {LIBRARY_CODE_SLOTS - 1}
  %p = getelementptr ptr, ptr %table, i64 %i
  ret ptr %p
}}
define internal i64 @place(ptr %w, ptr %node) {{
entry:
  {_word("current", "PyEval_GetFrame")}
  {_word("code_of", "PyFrame_GetCode")}
  {_word("back_of", "PyFrame_GetBack")}
  {_word("item_of", "PyObject_GetItem")}
  {_word("inside", "inside")}
  {_word("true", "True")}
  %first = call ptr %current()
  call void @keep(ptr %w, ptr %first)
  br label %look
look:
  %frame = phi ptr [ %first, %entry ], [ %back, %on ]
  %code = call ptr %code_of(ptr %frame)
  %known = call ptr @known(ptr %w, ptr %code)
  %met = load ptr, ptr %known
  %again = icmp eq ptr %met, %code
  br i1 %again, label %out, label %name
name:
  %file = call ptr @attribute(ptr %w, ptr %code, i64 {TABLE_NAMES.index("co_filename")})
  %unnamed = icmp eq ptr %file, null
  br i1 %unnamed, label %failed, label %ask
ask:
  %answer = call ptr %item_of(ptr %inside, ptr %file)
  call void @drop(ptr %w, ptr %file)
  %unknown = icmp eq ptr %answer, null
  br i1 %unknown, label %failed, label %answered
answered:
  call void @drop(ptr %w, ptr %answer)
  %library = icmp eq ptr %answer, %true
  br i1 %library, label %meet, label %found
meet:
  call void @keep(ptr %w, ptr %code)
  store ptr %code, ptr %known
  %nothing = icmp eq ptr %met, null
  br i1 %nothing, label %out, label %forget
forget:
  call void @drop(ptr %w, ptr %met)
  br label %out
out:
  %back = call ptr %back_of(ptr %frame)
  %outermost = icmp eq ptr %back, null
  br i1 %outermost, label %found, label %on
on:
  call void @drop(ptr %w, ptr %code)
  call void @drop(ptr %w, ptr %frame)
  br label %look
found:
  {_word("last_of", "PyFrame_GetLasti")}
  {_word("number", "PyLong_FromLong")}
  %last = call i32 %last_of(ptr %frame)
  %wide = sext i32 %last to i64
  %at = call ptr %number(i64 %wide)
  call void @drop(ptr %w, ptr %frame)
  {_give(Node, "node", "code", "code")}
  {_give(Node, "node", "at", "at")}
  %made = icmp ne ptr %at, null
  %fine = zext i1 %made to i64
  ret i64 %fine
failed:
  call void @drop(ptr %w, ptr %code)
  call void @drop(ptr %w, ptr %frame)
  ret i64 0
}}
"""


def _attach_node_ir() -> str:
    """Gives a tensor that has no node its node; 0 for an error. And the function for Python."""
    return f"""
define internal i64 @noted(ptr %w, ptr %out, ptr %op, ptr %parents, ptr %params, ptr %shapes, ptr %saved) {{
  {_word("kind", "Node")}
  {_word("none", "None")}
  {_word("tick", "tick")}
  {_word("call", "PyObject_CallNoArgs")}
  %node = call ptr @fresh(ptr %w, ptr %kind)
  %unmade = icmp eq ptr %node, null
  br i1 %unmade, label %failed, label %fill
fill:
  {_give(Tensor, "out", "node", "node")}
  {_put(Node, "node", "op", "op")}
  {_put(Node, "node", "parents", "parents")}
  {_put(Node, "node", "params", "params")}
  {_put(Node, "node", "shapes", "shapes")}
  {_put(Node, "node", "saved", "saved")}
  {_put(Node, "node", "hooks", "none")}
  %data = call ptr @at(ptr %out, i64 {cpython_layout.slot_offset(Tensor, "array")})
  %dtype = call ptr @attribute(ptr %w, ptr %data, i64 {TABLE_NAMES.index("dtype")})
  {_give(Node, "node", "dtype", "dtype")}
  %shape = call ptr @attribute(ptr %w, ptr %data, i64 {TABLE_NAMES.index("shape")})
  {_give(Node, "node", "shape", "shape")}
  %fine = call i64 @place(ptr %w, ptr %node)
  %order = call ptr %call(ptr %tick)
  {_give(Node, "node", "order", "order")}
  %shaped = icmp ne ptr %shape, null
  %typed = icmp ne ptr %dtype, null
  %ordered = icmp ne ptr %order, null
  %known = and i1 %shaped, %typed
  %both = and i1 %known, %ordered
  %whole = zext i1 %both to i64
  %all = and i64 %fine, %whole
  ret i64 %all
failed:
  ret i64 0
}}
define ptr @adjoint_note(ptr %self, ptr %args, i64 %n) uwtable {{
  %w = getelementptr i8, ptr %self, i64 {cpython_layout.CONTENTS}
  {_arguments("out", "op", "parents", "params", "shapes", "saved")}
  {_word("none", "None")}
  %former = call ptr @at(ptr %out, i64 {cpython_layout.slot_offset(Tensor, "node")})
  %fine = call i64 @noted(ptr %w, ptr %out, ptr %op, ptr %parents, ptr %params, ptr %shapes, ptr %saved)
  %failed = icmp eq i64 %fine, 0
  br i1 %failed, label %error, label %done
done:
  call void @drop(ptr %w, ptr %former)
  call void @keep(ptr %w, ptr %none)
  ret ptr %none
error:
  ret ptr null
}}
"""


def _record_output_ir() -> str:
    return f"""
define internal ptr @tensor(ptr %w, ptr %data) {{
  {_word("kind", "Tensor")}
  {_word("none", "None")}
  %out = call ptr @fresh(ptr %w, ptr %kind)
  %unmade = icmp eq ptr %out, null
  br i1 %unmade, label %failed, label %fill
fill:
  {_put(Tensor, "out", "array", "data")}
  {_put(Tensor, "out", "_grad", "none")}
  ret ptr %out
failed:
  ret ptr null
}}
define ptr @adjoint_recorded(ptr %self, ptr %args, i64 %n) uwtable {{
  %w = getelementptr i8, ptr %self, i64 {cpython_layout.CONTENTS}
  {_arguments("data", "op", "parents", "params", "shapes", "saved")}
  {_word("none", "None")}
  %out = call ptr @tensor(ptr %w, ptr %data)
  %unmade = icmp eq ptr %out, null
  br i1 %unmade, label %error, label %fill
fill:
  {_put(Tensor, "out", "memory", "none")}
  %fine = call i64 @noted(ptr %w, ptr %out, ptr %op, ptr %parents, ptr %params, ptr %shapes, ptr %saved)
  %failed = icmp eq i64 %fine, 0
  br i1 %failed, label %unfinished, label %done
done:
  ret ptr %out
unfinished:
  call void @drop(ptr %w, ptr %out)
  br label %error
error:
  ret ptr null
}}
"""


def _record_view_ir() -> str:
    item = [cpython_layout.ITEMS + 8 * i for i in range(4)]
    return f"""
define internal i64 @entered(ptr %w, ptr %storage, ptr %out) {{
  {_word("weakly", "PyWeakref_NewRef")}
  {_word("append", "PyList_Append")}
  {_word("value", "PyLong_AsLong")}
  %ref = call ptr %weakly(ptr %out, ptr null)
  %unmade = icmp eq ptr %ref, null
  br i1 %unmade, label %failed, label %add
add:
  %aliases = call ptr @at(ptr %storage, i64 {cpython_layout.slot_offset(Storage, "aliases")})
  %error = call i32 %append(ptr %aliases, ptr %ref)
  call void @drop(ptr %w, ptr %ref)
  %wrong = icmp ne i32 %error, 0
  br i1 %wrong, label %failed, label %count
count:
  %length = getelementptr i8, ptr %aliases, i64 {cpython_layout.LENGTH}
  %number = load i64, ptr %length
  %limit = call ptr @at(ptr %storage, i64 {cpython_layout.slot_offset(Storage, "prune_at")})
  %most = call i64 %value(ptr %limit)
  %many = icmp sgt i64 %number, %most
  br i1 %many, label %prune, label %done
prune:
  {_word("call", "PyObject_CallOneArg")}
  {_word("function", "prune")}
  %pruned = call ptr %call(ptr %function, ptr %storage)
  %unpruned = icmp eq ptr %pruned, null
  br i1 %unpruned, label %failed, label %pruning
pruning:
  call void @drop(ptr %w, ptr %pruned)
  br label %done
done:
  ret i64 1
failed:
  ret i64 0
}}
define internal ptr @path(ptr %w, ptr %x, ptr %data, ptr %op, ptr %params) {{
  {_word("tuple", "PyTuple_New")}
  %array = call ptr @at(ptr %x, i64 {cpython_layout.slot_offset(Tensor, "array")})
  %before = call ptr @attribute(ptr %w, ptr %array, i64 {TABLE_NAMES.index("shape")})
  %after = call ptr @attribute(ptr %w, ptr %data, i64 {TABLE_NAMES.index("shape")})
  %step = call ptr %tuple(i64 4)
  %path = call ptr %tuple(i64 1)
  %a = icmp ne ptr %before, null
  %b = icmp ne ptr %after, null
  %c = icmp ne ptr %step, null
  %d = icmp ne ptr %path, null
  %e = and i1 %a, %b
  %f = and i1 %c, %d
  %whole = and i1 %e, %f
  br i1 %whole, label %fill, label %failed
fill:
  call void @put(ptr %w, ptr %step, i64 {item[0]}, ptr %op)
  call void @put(ptr %w, ptr %step, i64 {item[1]}, ptr %params)
  call void @give(ptr %step, i64 {item[2]}, ptr %before)
  call void @give(ptr %step, i64 {item[3]}, ptr %after)
  call void @give(ptr %path, i64 {item[0]}, ptr %step)
  ret ptr %path
failed:
  ret ptr null
}}
define internal i64 @viewing(ptr %w, ptr %out, ptr %x, ptr %data, ptr %op, ptr %params) {{
  {_word("kind", "View")}
  {_word("made", "NORMALLY")}
  %view = call ptr @fresh(ptr %w, ptr %kind)
  %unmade = icmp eq ptr %view, null
  br i1 %unmade, label %failed, label %fill
fill:
  {_give(Tensor, "out", "memory", "view")}
  %storage = call ptr @at(ptr %x, i64 {cpython_layout.slot_offset(Tensor, "memory")})
  {_put(View, "view", "memory", "storage")}
  {_put(View, "view", "base", "x")}
  {_put(View, "view", "made", "made")}
  %path = call ptr @path(ptr %w, ptr %x, ptr %data, ptr %op, ptr %params)
  {_give(View, "view", "path", "path")}
  %pathless = icmp eq ptr %path, null
  br i1 %pathless, label %failed, label %enter
enter:
  %entered = call i64 @entered(ptr %w, ptr %storage, ptr %out)
  ret i64 %entered
failed:
  ret i64 0
}}
define ptr @adjoint_seen(ptr %self, ptr %args, i64 %n) uwtable {{
  %w = getelementptr i8, ptr %self, i64 {cpython_layout.CONTENTS}
  {_arguments("data", "x", "op", "params", "parents", "shapes")}
  {_word("none", "None")}
  %out = call ptr @tensor(ptr %w, ptr %data)
  %unmade = icmp eq ptr %out, null
  br i1 %unmade, label %error, label %view
view:
  %viewing = call i64 @viewing(ptr %w, ptr %out, ptr %x, ptr %data, ptr %op, ptr %params)
  %blind = icmp eq i64 %viewing, 0
  br i1 %blind, label %unfinished, label %wanted
wanted:
  %constant = icmp eq ptr %parents, %none
  br i1 %constant, label %bare, label %node
bare:
  {_put(Tensor, "out", "node", "none")}
  ret ptr %out
node:
  %fine = call i64 @noted(ptr %w, ptr %out, ptr %op, ptr %parents, ptr %params, ptr %shapes, ptr %none)
  %failed = icmp eq i64 %fine, 0
  br i1 %failed, label %unfinished, label %done
done:
  ret ptr %out
unfinished:
  call void @drop(ptr %w, ptr %out)
  br label %error
error:
  ret ptr null
}}
"""


def _arguments(*names: str) -> str:
    return "\n  ".join(f"%{name} = call ptr @word(ptr %args, i64 {i})" for i, name in enumerate(names))
