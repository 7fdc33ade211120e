"""Native code: LLVM IR written as text, vector mathematics in it, and the engine which turns it into machine code."""
