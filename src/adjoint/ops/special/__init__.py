"""Special functions: gamma, error, Bessel, zeta and their kin.

Modules, in reading order:

- `chebyshev`: Tools for functions that NumPy lacks: piecewise evaluation in float64 by Chebyshev series and formulas.
- `chebyshev_tables`: Chebyshev series of special functions, made by tools/chebyshev_tables.py, which names the
  functions.
- `erf`: erf on NumPy arrays, which NumPy lacks: rational approximations, in float64.
- `bessel`: Bessel functions of the orders 0 and 1, and Airy's: by Chebyshev series, far from the origin of their
  amplitudes.
- `gamma`: The logarithm of the gamma function and its derivatives, which NumPy lacks.
- `normal_cdf`: The normal distribution function's logarithm and inverse, and the scaled complement of erf.
- `orthogonal_polynomials`: Orthogonal polynomials of a given degree, which is the second operand: by recurrence, or
  as cosines of an angle.
- `zeta`: The zeta function of Hurwitz, the entropy of single elements, and x ln(1 + y).
- `implicit_reparam`: Implicit derivatives of gamma and beta numbers by their parameters: -(∂F/∂α) / f, which has no
  closed form.
- `incomplete_gamma`: The regularised incomplete gamma functions, which NumPy lacks: the series below, Lentz's
  fraction above the mean.
"""
