"""Machine code: the target, the engine, and the loader of objects.

Modules, in reading order:

- `elf_loader`: Objects linked and made callable without LLVM: what its code generator makes of kernels for x86-64
  Linux is simple.
- `target`: The machine kernels are compiled for: its vector width, its name in cache keys, and the code generator.
- `engine`: Object code made callable in this process, and given back when its owner lets go of it.
"""
