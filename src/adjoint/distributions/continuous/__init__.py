"""Continuous distributions of numbers.

Modules, in reading order:

- `continuous_bernoulli`: The continuous Bernoulli distribution, over [0, 1] (Loaiza-Ganem and Cunningham, 2019).
- `exponential`: The exponential distribution, its two-sided form, Laplace's, and its powers and exponentials:
  Weibull, Pareto.
- `gamma`: The gamma distribution, and those made of gammas: chi squared, inverse gamma, Fisher and Snedecor's F.
- `normal`: The normal distribution, and those of functions of normal numbers: half normal, log normal, logistic
  normal.
- `relaxed`: Continuous relaxations of discrete distributions, whose samples have gradients (Maddison, Mnih and Teh,
  2017).
- `uniform`: The uniform distribution, and those that are elementary functions of it: Gumbel, generalized Pareto.
- `von_mises`: Von Mises' distribution of angles.
- `cauchy`: The Cauchy distribution and its absolute value, and Student's t: heavy tails.
- `dirichlet`: The Dirichlet distribution of probabilities, the beta, which is that of two, and Kumaraswamy's like the
  beta.
"""
