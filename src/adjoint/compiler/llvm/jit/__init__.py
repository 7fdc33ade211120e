"""Machine code: the target, the engine, and the loader of objects.

Modules, in reading order:

- `elf_loader`: Objects linked and made callable without LLVM: what its code generator makes of kernels for x86-64
  Linux is simple.
- `target`: The machine kernels are compiled for: its vector width, its name in cache keys, and the code generator.
- `engine`: Object code made callable in this process, and given back when its owner lets go of it.
- `object_symbols`: Functions that object files use and do not define: of ELF, of Mach-O (macOS) and of COFF
  (Windows).
- `machine_key`: The key by which a machine is known again: what LLVM told of it once need not be asked in every
  process.
"""
