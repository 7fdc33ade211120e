"""This machine with tile registers (AMX), which are memory here: what the instructions do is written in IR.

After `TDPBF16PS` in the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and for the rounding
of pairs `VCVTNE2PS2BF16`: even and odd elements have sums of their own within a product, and denormals are 0 wherever
they are read or written.
"""

from __future__ import annotations

import re
from functools import cached_property

from adjoint.compiler.llvm.jit import target
from adjoint.compiler.llvm.jit.target import Target

FEATURES = "+avx512bf16,+amx-tile,+amx-bf16"

FLUSHED = """
define internal <16 x float> @emulated.flushed(<16 x float> %x) {
  %size = call <16 x float> @llvm.fabs.v16f32(<16 x float> %x)
  %small = fcmp olt <16 x float> %size, splat (float 0x3810000000000000)
  %zero = call <16 x float> @llvm.copysign.v16f32(<16 x float> zeroinitializer, <16 x float> %x)
  %result = select <16 x i1> %small, <16 x float> %zero, <16 x float> %x
  ret <16 x float> %result
}
declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.copysign.v16f32(<16 x float>, <16 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
"""

ROUNDED = """
define internal <16 x i16> @emulated.rounded(<16 x float> %given) {
  %x = call <16 x float> @emulated.flushed(<16 x float> %given)
  %bits = bitcast <16 x float> %x to <16 x i32>
  %shifted = lshr <16 x i32> %bits, splat (i32 16)
  %odd = and <16 x i32> %shifted, splat (i32 1)
  %half = add <16 x i32> %odd, splat (i32 32767)
  %sum = add <16 x i32> %bits, %half
  %up = lshr <16 x i32> %sum, splat (i32 16)
  %quiet = or <16 x i32> %shifted, splat (i32 64)
  %nan = fcmp uno <16 x float> %x, %x
  %chosen = select <16 x i1> %nan, <16 x i32> %quiet, <16 x i32> %up
  %result = trunc <16 x i32> %chosen to <16 x i16>
  ret <16 x i16> %result
}
define internal <32 x bfloat> @emulated.avx512bf16.cvtne2ps2bf16.512(<16 x float> %high, <16 x float> %low) {
  %h = call <16 x i16> @emulated.rounded(<16 x float> %high)
  %l = call <16 x i16> @emulated.rounded(<16 x float> %low)
  %both = shufflevector <16 x i16> %l, <16 x i16> %h, <32 x i32> <LANES>
  %result = bitcast <32 x i16> %both to <32 x bfloat>
  ret <32 x bfloat> %result
}
""".replace("LANES", ", ".join(f"i32 {i}" for i in range(32)))

TILES = """
@tiles = internal global [8 x [16 x <16 x i32>]] zeroinitializer, align 64
@settings = internal global <16 x i32> zeroinitializer, align 64

define internal void @emulated.ldtilecfg(ptr %place) {
  %given = load <16 x i32>, ptr %place, align 4
  store <16 x i32> %given, ptr @settings
  ret void
}
define internal void @emulated.tilerelease() {
  store <16 x i32> zeroinitializer, ptr @settings
  ret void
}
define internal ptr @emulated.tile(i8 %number) {  ; a fault, as without settings for whole tiles
  %given = load <16 x i32>, ptr @settings
  %wanted = icmp eq <16 x i32> %given, <i32 1, i32 0, i32 0, i32 0, i32 4194368, i32 4194368, i32 4194368, i32 4194368,
    i32 0, i32 0, i32 0, i32 0, i32 269488144, i32 269488144, i32 0, i32 0>
  %all = call i1 @llvm.vector.reduce.and.v16i1(<16 x i1> %wanted)
  br i1 %all, label %known, label %fault
fault:
  call void @llvm.trap()
  unreachable
known:
  %wide = zext i8 %number to i64
  %tile = getelementptr inbounds [8 x [16 x <16 x i32>]], ptr @tiles, i64 0, i64 %wide
  ret ptr %tile
}
declare i1 @llvm.vector.reduce.and.v16i1(<16 x i1>)
declare void @llvm.trap()

define internal void @emulated.tilezero(i8 %number) {
  %tile = call ptr @emulated.tile(i8 %number)
  store [16 x <16 x i32>] zeroinitializer, ptr %tile
  ret void
}
"""

MOVED = """
define internal void @emulated.NAME(i8 %number, ptr %place, i64 %stride) {
  %tile = call ptr @emulated.tile(i8 %number)
  br label %row
row:
  %r = phi i64 [ 0, %0 ], [ %next, %row ]
  %by = mul i64 %r, %stride
  %outside = getelementptr i8, ptr %place, i64 %by
  %inside = getelementptr <16 x i32>, ptr %tile, i64 %r
  %value = load <16 x i32>, ptr FROM, align 4
  store <16 x i32> %value, ptr TO, align 4
  %next = add i64 %r, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %row, label %done
done:
  ret void
}
"""
LOAD = MOVED.replace("NAME", "tileloadd64").replace("FROM", "%outside").replace("TO", "%inside")
STORE = MOVED.replace("NAME", "tilestored64").replace("FROM", "%inside").replace("TO", "%outside")

PRODUCT = """
define internal <16 x float> @emulated.half(<16 x i32> %pairs, i32 %by) {
  %count = insertelement <16 x i32> poison, i32 %by, i64 0
  %counts = shufflevector <16 x i32> %count, <16 x i32> poison, <16 x i32> zeroinitializer
  %up = shl <16 x i32> %pairs, %counts
  %bits = and <16 x i32> %up, splat (i32 -65536)
  %wide = bitcast <16 x i32> %bits to <16 x float>
  %result = call <16 x float> @emulated.flushed(<16 x float> %wide)
  ret <16 x float> %result
}
define internal <16 x float> @emulated.more(<16 x i32> %x, <16 x i32> %y, i32 %by, <16 x float> %sum) {
  %a = call <16 x float> @emulated.half(<16 x i32> %x, i32 %by)
  %b = call <16 x float> @emulated.half(<16 x i32> %y, i32 %by)
  %total = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %sum)
  %result = call <16 x float> @emulated.flushed(<16 x float> %total)
  ret <16 x float> %result
}
define internal void @emulated.tdpbf16ps(i8 %out, i8 %left, i8 %right) {
  %sums = call ptr @emulated.tile(i8 %out)
  %x = call ptr @emulated.tile(i8 %left)
  %y = call ptr @emulated.tile(i8 %right)
  br label %row
row:
  %r = phi i64 [ 0, %0 ], [ %following, %last ]
  %line = getelementptr <16 x i32>, ptr %x, i64 %r
  br label %step
step:
  %k = phi i64 [ 0, %row ], [ %next, %step ]
  %even = phi <16 x float> [ zeroinitializer, %row ], [ %even1, %step ]
  %odd = phi <16 x float> [ zeroinitializer, %row ], [ %odd1, %step ]
  %at = getelementptr i32, ptr %line, i64 %k
  %element = load i32, ptr %at
  %one = insertelement <16 x i32> poison, i32 %element, i64 0
  %pair = shufflevector <16 x i32> %one, <16 x i32> poison, <16 x i32> zeroinitializer
  %below = getelementptr <16 x i32>, ptr %y, i64 %k
  %pairs = load <16 x i32>, ptr %below
  %even1 = call <16 x float> @emulated.more(<16 x i32> %pair, <16 x i32> %pairs, i32 16, <16 x float> %even)
  %odd1 = call <16 x float> @emulated.more(<16 x i32> %pair, <16 x i32> %pairs, i32 0, <16 x float> %odd)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %step, label %last
last:
  %place = getelementptr <16 x float>, ptr %sums, i64 %r
  %before = load <16 x float>, ptr %place
  %both = fadd <16 x float> %even1, %odd1
  %flushed = call <16 x float> @emulated.flushed(<16 x float> %both)
  %after = fadd <16 x float> %before, %flushed
  %result = call <16 x float> @emulated.flushed(<16 x float> %after)
  store <16 x float> %result, ptr %place
  %following = add i64 %r, 1
  %again = icmp ult i64 %following, 16
  br i1 %again, label %row, label %done
done:
  ret void
}
"""

# y 2^k by two factors, because 2^k alone may be no number. A larger |k| than LIMIT changes no result.
SCALED = """
define internal <LANES x FLOAT> @emulated.avx512.mask.scalef.KIND.512(
    <LANES x FLOAT> %y, <LANES x FLOAT> %k, <LANES x FLOAT> %others, iLANES %all, i32 %rounding) {
  %low = call <LANES x FLOAT> @llvm.maxnum.vLANESfBITS(<LANES x FLOAT> %k, <LANES x FLOAT> splat (FLOAT -LIMIT))
  %inside = call <LANES x FLOAT> @llvm.minnum.vLANESfBITS(<LANES x FLOAT> %low, <LANES x FLOAT> splat (FLOAT LIMIT))
  %whole = fptosi <LANES x FLOAT> %inside to <LANES x iBITS>
  %half = ashr <LANES x iBITS> %whole, splat (iBITS 1)
  %rest = sub <LANES x iBITS> %whole, %half
  %biased1 = add <LANES x iBITS> %half, splat (iBITS BIAS)
  %biased2 = add <LANES x iBITS> %rest, splat (iBITS BIAS)
  %bits1 = shl <LANES x iBITS> %biased1, splat (iBITS PLACE)
  %bits2 = shl <LANES x iBITS> %biased2, splat (iBITS PLACE)
  %power1 = bitcast <LANES x iBITS> %bits1 to <LANES x FLOAT>
  %power2 = bitcast <LANES x iBITS> %bits2 to <LANES x FLOAT>
  %once = fmul <LANES x FLOAT> %y, %power1
  %result = fmul <LANES x FLOAT> %once, %power2
  ret <LANES x FLOAT> %result
}
declare <LANES x FLOAT> @llvm.maxnum.vLANESfBITS(<LANES x FLOAT>, <LANES x FLOAT>)
declare <LANES x FLOAT> @llvm.minnum.vLANESfBITS(<LANES x FLOAT>, <LANES x FLOAT>)
"""


def scaled(**parts: str) -> str:
    """The instruction of one type."""
    return re.sub("[A-Z]{4,}", lambda found: parts[found[0]], SCALED)


SCALED_SINGLE = scaled(KIND="ps", LANES="16", FLOAT="float", BITS="32", LIMIT="2.5e2", BIAS="127", PLACE="23")
SCALED_DOUBLE = scaled(KIND="pd", LANES="8", FLOAT="double", BITS="64", LIMIT="2.04e3", BIAS="1023", PLACE="52")

WORDS = (
    "ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64", "tdpbf16ps",
    "avx512bf16.cvtne2ps2bf16.512", "avx512.mask.scalef.ps.512", "avx512.mask.scalef.pd.512",
)  # fmt: skip


class TileRegisters(Target):
    """The host with the features that products in tiles ask for, of which its code uses none."""

    def __init__(self) -> None:
        host = target.host()
        self._host = host
        super().__init__(host.triple, host.cpu, f"{host.features},+avx512f,{FEATURES}", f"{host.version} emulated")

    @cached_property
    def vector_bits(self) -> int:
        """Those of every processor with tile registers; LLVM makes do with narrower ones."""
        return 512

    def emit_object(self, text: str) -> bytes:
        """The module's machine code for the host."""
        return self._host.emit_object(emulated(text))


def emulated(text: str) -> str:
    """A module without the instructions that the host may lack."""
    if not any(f"@llvm.x86.{word}(" in text for word in WORDS):
        return text
    for word in WORDS:
        text = re.sub(rf"^declare .*@llvm\.x86\.{re.escape(word)}\(.*\n", "", text, flags=re.MULTILINE)
        text = text.replace(f"@llvm.x86.{word}(", f"@emulated.{word}(")
    defined = FLUSHED + ROUNDED + TILES + LOAD + STORE + PRODUCT + SCALED_SINGLE + SCALED_DOUBLE
    for line in re.findall(r"^declare .*\n", defined, flags=re.MULTILINE):
        if line in text:
            defined = defined.replace(line, "")
    return text + defined
