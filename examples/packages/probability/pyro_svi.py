"""Pyro: stochastic variational inference of a Bayesian regression with an automatic guide, and its predictions."""

# requires: pyro-ppl==1.9.2
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal

torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)
x = torch.randn(60, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.2 * torch.randn(60)


def model(x, y=None):
    """Linear regression with normal priors and a half-normal scale."""
    weights = pyro.sample("weights", dist.Normal(torch.zeros(3), 2.0).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 2.0))
    scale = pyro.sample("scale", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(x @ weights + bias, scale), obs=y)


guide = AutoMultivariateNormal(model)
svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.03}), Trace_ELBO(num_particles=2))
for step in range(300):
    loss = svi.step(x, y)
    if step % 60 == 59:
        print(f"step {step + 1}: ELBO loss {loss:.3f}")
median = guide.median()
print(*(f"{value:.4f}" for value in [*median["weights"].tolist(), median["bias"].item(), median["scale"].item()]))
drawn = Predictive(model, guide=guide, num_samples=50)(x)["y"]
print(f"predicted {drawn.mean().item():.4f} {drawn.std().item():.4f}")
