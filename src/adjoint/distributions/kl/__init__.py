"""The Kullback-Leibler divergence between two distributions.

Modules, in reading order:

- `registry`: The Kullback-Leibler divergence between two distributions, by the formula registered for their classes.
- `cross_family`: Divergences between distributions of different families.
- `same_family`: Divergences between two distributions of one family.
"""

from adjoint.distributions.kl.registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
