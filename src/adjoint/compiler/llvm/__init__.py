"""Native code: LLVM IR written as text, vector mathematics in it, and the engine which turns it into machine code.

Modules, in reading order:

- `types`: The types of values in a kernel: a scalar kind, its width, and how many lanes a register holds.
- `jit`: Machine code: the target, the engine, and the loader of objects.
- `emitter`: The text of one LLVM module as it grows: lines, fresh names, constants, declarations.
- `control`: Functions, loops and conditions: the control flow of a kernel as `with` blocks.
- `logic`: Comparison, choice and bits.
- `arithmetic`: Arithmetic on floats, integers and bools, bit for bit NumPy's, and conversion between types.
- `lanes`: The lanes of a register: counting, masking, taking out, and reducing across them.
- `division`: Quotients rounded down and the remainders that go with them, bit for bit NumPy's.
- `memory`: Loads and stores: whole registers, masked tails, gathers and scatters, and the table of arguments.
- `math`: Mathematical functions in LLVM instructions.
- `builder`: The builder of kernels: every operation a kernel can be made of, as methods that append LLVM assembly.
"""
