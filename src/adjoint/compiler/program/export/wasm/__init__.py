"""Steps as WebAssembly.

Modules, in reading order:

- `linker`: The linker from one relocatable WebAssembly object to a module that runs: memory laid out, numbers put in
  place.
- `object_file`: Relocatable WebAssembly objects, as LLVM writes them: sections, symbols, relocations.
- `step_files`: The files of a step as WebAssembly: `NAME.wasm`, its memory `NAME.bin`, and `NAME.mjs`, which loads
  and calls it.
"""
