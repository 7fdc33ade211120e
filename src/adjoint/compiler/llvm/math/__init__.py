"""Mathematical functions in LLVM instructions.

Modules, in reading order:

- `wide_precision`: Evaluation in another precision than the argument's, or by the C library.
- `exponential`: exp, exp2 and expm1 in vectors, and sigmoid and silu on them.
- `erf`: erf and erfc in vectors.
- `logarithm`: log, log2, log10 and log1p in vectors.
- `trigonometric`: sin, cos, tan and their inverses in vectors.
- `hyperbolic`: tanh, sinh, cosh and their inverses in vectors.
- `power`: x to the power y, with the special values of C and NumPy.
"""
