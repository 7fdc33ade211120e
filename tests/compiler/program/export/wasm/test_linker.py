"""The linker of WebAssembly objects, judged by the modules that it makes, without running them."""

import pytest

from adjoint.compiler.program.export.targets import find_target
from adjoint.compiler.program.export.wasm.linker import STACK_BYTES, encode, encode_signed, link_module
from adjoint.compiler.program.export.wasm.object_file import CODE, DATA, WasmObject, WasmReader

TEXT = """
@memory = external global i8
@table = internal constant [2 x ptr] [ptr @memory, ptr getelementptr (i8, ptr @memory, i64 260)], align 16
declare double @pow(double, double)
define i32 @run() {
  %place = load ptr, ptr getelementptr (i8, ptr @table, i64 4)
  %x = load double, ptr %place
  %y = call double @pow(double %x, double %x)
  store double %y, ptr @memory
  ret i32 0
}
"""


def make_object(text: str = TEXT) -> bytes:
    return find_target("wasm32").emit_linked_object([text])


def read_sections(module: bytes) -> dict[int, bytes]:
    reader, found = WasmReader(module, 8), {}
    while reader.at < len(module):
        kind = reader.byte()
        found[kind] = reader.take(reader.number())
    return found


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 65535, 2**31, 2**32 - 1])
def test_numbers_are_as_short_as_they_can_be_and_read_back(number: int) -> None:
    assert WasmReader(encode(number)).number() == number
    signed = WasmReader(encode_signed(number)).number(signed=True)
    assert signed % 2**32 == number
    assert len(encode(number)) == max(1, -(-number.bit_length() // 7))


def test_the_step_memory_lies_behind_the_data_and_is_counted() -> None:
    linked = link_module(make_object(), {"run": "go"}, "memory", 100_000)
    assert linked.imports == ("pow",)
    assert linked.base >= STACK_BYTES + 8
    assert linked.base % 64 == 0
    assert linked.pages == -(-(linked.base + 100_000) // 65536)
    assert b"\x02go\x00" in linked.content


def test_addresses_are_put_into_the_data() -> None:
    linked = link_module(make_object(), {"run": "run"}, "memory", 1000)
    data = read_sections(linked.content)[DATA]
    assert data.endswith(linked.base.to_bytes(4, "little") + (linked.base + 260).to_bytes(4, "little"))


def test_code_shrinks_to_the_numbers_it_has() -> None:
    made = make_object()
    whole = WasmObject(made)
    padded = len(whole.sections[CODE])
    linked = read_sections(link_module(made, {"run": "run"}, "memory", 1000).content)[CODE]
    assert 0 < padded - len(linked) <= 5 * len(whole.relocations[CODE])


def test_what_a_step_has_no_need_of_is_refused() -> None:
    with pytest.raises(ValueError, match="needs data that nothing defines: memory"):
        link_module(make_object(), {"run": "run"}, "other", 1000)
    with pytest.raises(ValueError, match="relocation of kind"):
        link_module(make_object(TEXT.replace("ptr @memory, ptr get", "ptr @run, ptr get")), {"run": "run"}, "memory", 9)
    with pytest.raises(MemoryError, match="WebAssembly has 4,294,967,296 at most"):
        link_module(make_object(), {"run": "run"}, "memory", 2**32)
    with pytest.raises(ValueError, match="no WebAssembly object"):
        WasmObject(b"\x7fELF and more")
