"""Pyro: the eight schools by NUTS, a Hamiltonian Monte Carlo sampler."""

# requires: pyro-ppl==1.9.2
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS

effects = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools():
    """Effects of schools around a common mean, not centred."""
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    spread = pyro.sample("spread", dist.HalfCauchy(torch.tensor(5.0)))
    with pyro.plate("schools", 8):
        offset = pyro.sample("offset", dist.Normal(0.0, 1.0))
        pyro.sample("observed", dist.Normal(mean + spread * offset, errors), obs=effects)


torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)
sampler = MCMC(NUTS(schools, jit_compile=False), num_samples=40, warmup_steps=40, disable_progbar=True)
sampler.run()
for name, values in sorted(sampler.get_samples().items()):
    print(f"{name}: first {values[0].sum().item():.4f} mean {values.mean().item():.4f}")
