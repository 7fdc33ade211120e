"""The function that runs an exported step: LLVM assembly that calls its kernels in order, with constant tables.

`int run(void)` returns 0, or the number of the check that failed, from 1 on, before anything is written. Everything
lies in one block of memory, `NAME_memory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from adjoint.compiler.ir.strided_view import row_major
from adjoint.compiler.program.export.exported_step import ExportedStep, KernelLaunch, StridedCopy, ValueCheck


def write_entry(step: ExportedStep, name: str, defines_memory: bool) -> str:
    """The module of `NAME_run`; it defines the memory itself, filled with zeros, or leaves that to the linker."""
    memory = f"@{name}_memory"
    kind = f"[{step.memory.size} x i8] zeroinitializer" if defines_memory else "i8"
    lines = [f"{memory} = {'' if defines_memory else 'external '}global {kind}, align 64"]
    body: list[str] = []
    checks = 0
    for i, each in enumerate(step.steps):
        if isinstance(each, KernelLaunch):
            table = f"@{name}_table{i}"
            rows = _format_table(each, memory, step.target.pointer_bytes)
            lines.append(f"{table} = internal constant {rows}, align 16")
            body += _launch(each, table, i)
        else:
            checks += 1
            body += _check(each, memory, i, checks)
    for i, copy in enumerate(step.copies):
        body += _copy(copy, memory, i)
    names = dict.fromkeys(each.kernel.name for each in step.steps if isinstance(each, KernelLaunch))
    lines += [f"declare void @{kernel}(ptr, i64, i64)" for kernel in names]
    lines += ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] if step.copies else []
    return "\n".join([*lines, f"define i32 @{name}_run() {{", *body, "  ret i32 0", "}", ""])


def module_texts(step: ExportedStep, name: str, defines_memory: bool) -> list[str]:
    """The modules of the entry function and of each kernel once."""
    kernels = {each.kernel.name: each.kernel for each in step.steps if isinstance(each, KernelLaunch)}
    return [write_entry(step, name, defines_memory), *(kernel.text for kernel in kernels.values())]


def _format_table(launch: KernelLaunch, memory: str, pointer_bytes: int) -> str:
    """The rows that a kernel reads: addresses as wide as the target's, then numbers, at multiples of eight bytes."""
    count, numbers = len(launch.offsets), launch.numbers
    parts = {
        f"[{count} x ptr]": [f"ptr getelementptr (i8, ptr {memory}, i64 {offset})" for offset in launch.offsets],
        f"[{count * (8 - pointer_bytes)} x i8]": [],
        f"[{len(numbers)} x i64]": [f"i64 {int(number)}" for number in numbers],
    }
    values = [f"{kind} [{', '.join(items)}]" if items else f"{kind} zeroinitializer" for kind, items in parts.items()]
    return f"<{{ {', '.join(parts)} }}> <{{ {', '.join(values)} }}>"


def _launch(launch: KernelLaunch, table: str, i: int) -> Iterator[str]:
    name, tiles = launch.kernel.name, launch.kernel.tiles
    if tiles == 1:
        yield f"  call void @{name}(ptr {table}, i64 0, i64 0)"
        return
    yield f"  br label %before{i}"
    yield f"before{i}:"
    yield f"  br label %tile{i}"
    yield f"tile{i}:"
    yield f"  %t{i} = phi i64 [ 0, %before{i} ], [ %next{i}, %tile{i} ]"
    yield f"  call void @{name}(ptr {table}, i64 %t{i}, i64 0)"
    yield f"  %next{i} = add i64 %t{i}, 1"
    yield f"  %more{i} = icmp slt i64 %next{i}, {tiles}"
    yield f"  br i1 %more{i}, label %tile{i}, label %after{i}"
    yield f"after{i}:"


def _check(check: ValueCheck, memory: str, i: int, number: int) -> Iterator[str]:
    yield f"  %flag{i} = load i8, ptr getelementptr (i8, ptr {memory}, i64 {check.offset})"
    yield f"  %holds{i} = icmp ne i8 %flag{i}, 0"
    yield f"  br i1 %holds{i}, label %held{i}, label %failed{i}"
    yield f"failed{i}:"
    yield f"  ret i32 {number}"
    yield f"held{i}:"


def _copy(copy: StridedCopy, memory: str, i: int) -> Iterator[str]:
    """The code of a copy: of all bytes at once, or element by element where the source does not lie in that order."""
    target, source = (f"getelementptr (i8, ptr {memory}, i64 {offset})" for offset in (copy.target, copy.source))
    count, kind = prod(copy.shape), f"i{8 * copy.itemsize}"
    if copy.strides == row_major(copy.shape):
        size = count * copy.itemsize
        yield f"  call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        return
    yield f"  br label %begin{i}_copy"
    yield f"begin{i}_copy:"
    yield f"  br label %copy{i}"
    yield f"copy{i}:"
    yield f"  %c{i} = phi i64 [ 0, %begin{i}_copy ], [ %c{i}_next, %copy{i} ]"
    place = "0"
    for axis, (length, stride) in enumerate(zip(copy.shape, copy.strides, strict=True)):
        yield f"  %c{i}_q{axis} = sdiv i64 %c{i}, {prod(copy.shape[axis + 1 :])}"
        yield f"  %c{i}_r{axis} = srem i64 %c{i}_q{axis}, {length}"
        yield f"  %c{i}_m{axis} = mul i64 %c{i}_r{axis}, {stride}"
        yield f"  %c{i}_s{axis} = add i64 {place}, %c{i}_m{axis}"
        place = f"%c{i}_s{axis}"
    yield f"  %c{i}_from = getelementptr {kind}, ptr {source}, i64 {place}"
    yield f"  %c{i}_to = getelementptr {kind}, ptr {target}, i64 %c{i}"
    yield f"  %c{i}_value = load {kind}, ptr %c{i}_from, align 1"
    yield f"  store {kind} %c{i}_value, ptr %c{i}_to, align 1"
    yield f"  %c{i}_next = add i64 %c{i}, 1"
    yield f"  %c{i}_more = icmp slt i64 %c{i}_next, {count}"
    yield f"  br i1 %c{i}_more, label %copy{i}, label %copied{i}"
    yield f"copied{i}:"
