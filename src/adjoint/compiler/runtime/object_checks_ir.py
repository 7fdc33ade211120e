"""The native function that compares Python objects with what they were; `looks.py` says what it is to compare."""

from __future__ import annotations

from types import MethodType

import numpy as np

from adjoint.compiler.runtime import cpython_layout
from adjoint.core.graph.node import Leaf

(
    SLOT_IS,
    ITEM_IS,
    KEY_ABSENT,
    ITEM_NONZERO,
    LIST_IS,
    DICT_IS,
    ATTRIBUTE_IS,
    METHOD_IS,
    ARGUMENT_MATCHES,
    REFCOUNT_AT_MOST,
) = range(1, 11)
API_FUNCTIONS = ("Py_IncRef", "PyDict_GetItemWithError", "PyDict_Next", "PyObject_GetAttr", "Py_DecRef", "PyErr_Clear")
KNOWN_OBJECTS = (True, False, None, np.ndarray, Leaf, MethodType)
HEAD_WORDS = len(KNOWN_OBJECTS) + len(API_FUNCTIONS)  # before the number of looks: the addresses of these


def text() -> str:
    """The function that runs the looks."""
    slots = cpython_layout.find_slot_offsets()
    assert slots is not None
    return _COMPARISONS + _DICT_COMPARISON + _argument_check_ir(slots) + _check_loop_ir()


_COMPARISONS = f"""
define internal i1 @equal(ptr %have, ptr %want, i64 %count) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %compare ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %compare, label %yes
compare:
  %p = getelementptr i64, ptr %have, i64 %i
  %q = getelementptr i64, ptr %want, i64 %i
  %x = load i64, ptr %p
  %y = load i64, ptr %q
  %i1 = add i64 %i, 1
  %same = icmp eq i64 %x, %y
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i1 @listed(ptr %list, ptr %want, i64 %count) {{
entry:
  %length = getelementptr i8, ptr %list, i64 {cpython_layout.LENGTH}
  %n = load i64, ptr %length
  %alike = icmp eq i64 %n, %count
  br i1 %alike, label %items, label %no
items:
  %field = getelementptr i8, ptr %list, i64 {cpython_layout.LIST}
  %have = load ptr, ptr %field
  %same = call i1 @equal(ptr %have, ptr %want, i64 %count)
  ret i1 %same
no:
  ret i1 false
}}
"""

_DICT_COMPARISON = f"""
define internal i1 @filed(ptr %step, ptr %dict, ptr %want, i64 %count) {{
entry:
  %position = alloca i64
  %pair = alloca ptr, i64 2
  %value = getelementptr ptr, ptr %pair, i64 1
  store i64 0, ptr %position
  %length = getelementptr i8, ptr %dict, i64 {cpython_layout.LENGTH}
  %n = load i64, ptr %length
  %alike = icmp eq i64 %n, %count
  br i1 %alike, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %compare ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step1, label %yes
step1:
  %found = call i32 %step(ptr %dict, ptr %position, ptr %pair, ptr %value)
  %any = icmp ne i32 %found, 0
  br i1 %any, label %compare, label %no
compare:
  %at = shl i64 %i, 1
  %q = getelementptr i64, ptr %want, i64 %at
  %i1 = add i64 %i, 1
  %same = call i1 @equal(ptr %pair, ptr %q, i64 2)
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _argument_check_ir(slots: cpython_layout.SlotOffsets) -> str:
    """Words of `want`: type or object, which of them, kind of node, dtype, rank, order, rank if strides are told."""
    return f"""
define internal i1 @argument(ptr %plan, ptr %x, ptr %want) {{
entry:
  %k2 = getelementptr i64, ptr %plan, i64 2
  %no_node = load i64, ptr %k2
  %k3 = getelementptr i64, ptr %plan, i64 3
  %array_type = load i64, ptr %k3
  %k4 = getelementptr i64, ptr %plan, i64 4
  %leaf_type = load i64, ptr %k4
  %w1 = getelementptr i64, ptr %want, i64 1
  %w2 = getelementptr i64, ptr %want, i64 2
  %w3 = getelementptr i64, ptr %want, i64 3
  %w4 = getelementptr i64, ptr %want, i64 4
  %w5 = getelementptr i64, ptr %want, i64 5
  %w6 = getelementptr i64, ptr %want, i64 6
  %w7 = getelementptr i64, ptr %want, i64 7
  %itself = load i64, ptr %w1
  %by_identity = icmp ne i64 %itself, 0
  %field = getelementptr i8, ptr %x, i64 {cpython_layout.TYPE}
  %type = load ptr, ptr %field
  %given = select i1 %by_identity, ptr %x, ptr %type
  %wanted = load ptr, ptr %want
  %right = icmp eq ptr %given, %wanted
  br i1 %right, label %array, label %no
array:
  %slot = getelementptr i8, ptr %x, i64 {slots.array}
  %a = load ptr, ptr %slot
  %there = icmp ne ptr %a, null
  br i1 %there, label %typed, label %no
typed:
  %kind_at = getelementptr i8, ptr %a, i64 {cpython_layout.TYPE}
  %kind = load i64, ptr %kind_at
  %ndarray = icmp eq i64 %kind, %array_type
  br i1 %ndarray, label %dtype, label %no
dtype:
  %dtype_at = getelementptr i8, ptr %a, i64 {cpython_layout.DTYPE}
  %have_dtype = load i64, ptr %dtype_at
  %want_dtype = load i64, ptr %w3
  %dtypes = icmp eq i64 %have_dtype, %want_dtype
  %rank_at = getelementptr i8, ptr %a, i64 {cpython_layout.RANK}
  %have_rank = load i32, ptr %rank_at
  %rank = load i64, ptr %w4
  %short = trunc i64 %rank to i32
  %ranks = icmp eq i32 %have_rank, %short
  %flags_at = getelementptr i8, ptr %a, i64 {cpython_layout.FLAGS}
  %flags = load i32, ptr %flags_at
  %want_flags = load i64, ptr %w5
  %flags1 = trunc i64 %want_flags to i32
  %flags2 = and i32 %flags, %flags1
  %ordered = icmp eq i32 %flags2, %flags1
  %both = and i1 %dtypes, %ranks
  %all = and i1 %both, %ordered
  br i1 %all, label %sizes, label %no
sizes:
  %sizes_at = getelementptr i8, ptr %a, i64 {cpython_layout.SIZES}
  %have_sizes = load ptr, ptr %sizes_at
  %same_sizes = call i1 @equal(ptr %have_sizes, ptr %w7, i64 %rank)
  br i1 %same_sizes, label %strides, label %no
strides:
  %strides_at = getelementptr i8, ptr %a, i64 {cpython_layout.STRIDES}
  %have_strides = load ptr, ptr %strides_at
  %told = load i64, ptr %w6
  %after = getelementptr i64, ptr %w7, i64 %rank
  %same_strides = call i1 @equal(ptr %have_strides, ptr %after, i64 %told)
  br i1 %same_strides, label %history, label %no
history:
  %node_at = getelementptr i8, ptr %x, i64 {slots.node}
  %node = load ptr, ptr %node_at
  %node_word = ptrtoint ptr %node to i64
  %none = icmp eq i64 %node_word, %no_node
  %want_node = load i64, ptr %w2
  switch i64 %want_node, label %no [ i64 0, label %without i64 1, label %leaf i64 2, label %with ]
without:
  ret i1 %none
with:
  %some = xor i1 %none, true
  ret i1 %some
leaf:
  br i1 %none, label %no, label %kept
kept:
  %class_at = getelementptr i8, ptr %node, i64 {cpython_layout.TYPE}
  %class = load i64, ptr %class_at
  %is_leaf = icmp eq i64 %class, %leaf_type
  br i1 %is_leaf, label %hooks, label %no
hooks:
  %hooks_at = getelementptr i8, ptr %node, i64 {slots.hooks}
  %hooked = load i64, ptr %hooks_at
  %free = icmp eq i64 %hooked, %no_node
  ret i1 %free
no:
  ret i1 false
}}
"""


def _check_loop_ir() -> str:
    kinds = {
        "same": SLOT_IS, "item": ITEM_IS, "absent": KEY_ABSENT, "nonzero": ITEM_NONZERO, "listed": LIST_IS,
        "filed": DICT_IS,
        "attribute": ATTRIBUTE_IS, "method": METHOD_IS, "argument": ARGUMENT_MATCHES, "few": REFCOUNT_AT_MOST,
    }  # fmt: skip
    cases = " ".join(f"i64 {number}, label %{name}" for name, number in kinds.items())
    fields = "\n".join(
        f"  %f{i} = getelementptr ptr, ptr %plan, i64 {len(KNOWN_OBJECTS) + i}\n  %api{i} = load ptr, ptr %f{i}"
        for i in range(len(API_FUNCTIONS))
    )
    return f"""
define ptr @adjoint_unchanged(ptr %self, ptr %args, i64 %n) {{
entry:
  %first = getelementptr i8, ptr %self, i64 {cpython_layout.ITEMS}
  %bytes = load ptr, ptr %first
  %plan = getelementptr i8, ptr %bytes, i64 {cpython_layout.CONTENTS}
{fields}
  %true = load ptr, ptr %plan
  %false_at = getelementptr ptr, ptr %plan, i64 1
  %false = load ptr, ptr %false_at
  %type_at5 = getelementptr i64, ptr %plan, i64 5
  %method_type = load i64, ptr %type_at5
  %count_at = getelementptr i64, ptr %plan, i64 {HEAD_WORDS}
  %count = load i64, ptr %count_at
  %start = getelementptr i64, ptr %plan, i64 {HEAD_WORDS + 1}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %holds ]
  %p = phi ptr [ %start, %entry ], [ %p4, %holds ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %end
look:
  %kind = load i64, ptr %p
  %pa = getelementptr i64, ptr %p, i64 1
  %pb = getelementptr i64, ptr %p, i64 2
  %pc = getelementptr i64, ptr %p, i64 3
  %p4 = getelementptr i64, ptr %p, i64 4
  %i1 = add i64 %i, 1
  %a = load ptr, ptr %pa
  %b = load ptr, ptr %pb
  %c = load ptr, ptr %pc
  switch i64 %kind, label %end [ {cases} ]
same:
  %now = load ptr, ptr %a
  %is_same = icmp eq ptr %now, %b
  br i1 %is_same, label %holds, label %end
item:
  %entry_now = call ptr %api1(ptr %a, ptr %b)
  %is_entry = icmp eq ptr %entry_now, %c
  br i1 %is_entry, label %holds, label %calm
absent:
  %missing = call ptr %api1(ptr %a, ptr %b)
  %is_missing = icmp eq ptr %missing, null
  br i1 %is_missing, label %quiet, label %end
quiet:
  call void %api5()
  br label %holds
nonzero:
  %number = call ptr %api1(ptr %a, ptr %b)
  %given = icmp ne ptr %number, null
  br i1 %given, label %typed, label %calm
typed:
  %type_at = getelementptr i8, ptr %number, i64 {cpython_layout.TYPE}
  %type = load ptr, ptr %type_at
  %is_float = icmp eq ptr %type, %c
  br i1 %is_float, label %valued, label %end
valued:
  %value_at = getelementptr i8, ptr %number, i64 {cpython_layout.HEAD}
  %value = load double, ptr %value_at
  %is_nonzero = fcmp one double %value, 0.0
  br i1 %is_nonzero, label %holds, label %end
listed:
  %size = ptrtoint ptr %c to i64
  %is_listed = call i1 @listed(ptr %a, ptr %b, i64 %size)
  br i1 %is_listed, label %holds, label %end
filed:
  %pairs = ptrtoint ptr %c to i64
  %is_filed = call i1 @filed(ptr %api2, ptr %a, ptr %b, i64 %pairs)
  br i1 %is_filed, label %holds, label %end
attribute:
  %found = call ptr %api3(ptr %a, ptr %b)
  %has = icmp ne ptr %found, null
  br i1 %has, label %got, label %calm
got:
  %is_found = icmp eq ptr %found, %c
  call void %api4(ptr %found)
  br i1 %is_found, label %holds, label %end
method:
  %bound = call ptr %api3(ptr %a, ptr %b)
  %is_bound = icmp ne ptr %bound, null
  br i1 %is_bound, label %unbind, label %calm
unbind:
  %class_at = getelementptr i8, ptr %bound, i64 {cpython_layout.TYPE}
  %class = load i64, ptr %class_at
  %is_method = icmp eq i64 %class, %method_type
  br i1 %is_method, label %function, label %drop
function:
  %function_at = getelementptr i8, ptr %bound, i64 {cpython_layout.FUNCTION}
  %function_now = load ptr, ptr %function_at
  %is_function = icmp eq ptr %function_now, %c
  br label %drop
drop:
  %still = phi i1 [ false, %unbind ], [ %is_function, %function ]
  call void %api4(ptr %bound)
  br i1 %still, label %holds, label %end
argument:
  %which = ptrtoint ptr %a to i64
  %x_at = getelementptr ptr, ptr %args, i64 %which
  %x = load ptr, ptr %x_at
  %is_argument = call i1 @argument(ptr %plan, ptr %x, ptr %b)
  br i1 %is_argument, label %holds, label %end
few:
  %references = load i32, ptr %a
  %most = ptrtoint ptr %b to i64
  %limit = trunc i64 %most to i32
  %is_few = icmp sle i32 %references, %limit
  br i1 %is_few, label %holds, label %end
calm:
  call void %api5()
  br label %end
holds:
  br label %next
end:
  %answer = phi ptr [ %true, %next ], [ %false, %look ], [ %false, %same ], [ %false, %absent ], [ %false, %typed ],
    [ %false, %valued ], [ %false, %listed ], [ %false, %filed ], [ %false, %got ], [ %false, %drop ],
    [ %false, %argument ], [ %false, %few ], [ %false, %calm ]
  call void %api0(ptr %answer)
  ret ptr %answer
}}
"""
