"""Continuous distributions of numbers.

Modules, in reading order:

- `continuous_bernoulli`: The continuous Bernoulli distribution, over [0, 1] (Loaiza-Ganem and Cunningham, 2019).
- `exponential`: The exponential, Laplace, Pareto and Weibull distributions.
- `gamma`: The gamma distribution and its relatives: chi-squared, inverse gamma, Fisher-Snedecor's F.
- `normal`: The normal distribution, and half-normal, log-normal and logistic-normal.
- `relaxed`: Continuous relaxations of discrete distributions, whose samples have gradients (Maddison, Mnih and Teh,
  2017).
- `uniform`: The uniform, Gumbel and generalized Pareto distributions.
- `von_mises`: The von Mises distribution of angles.
- `cauchy`: The Cauchy and half-Cauchy distributions, and Student's t.
- `dirichlet`: The Dirichlet, beta and Kumaraswamy distributions.
"""
