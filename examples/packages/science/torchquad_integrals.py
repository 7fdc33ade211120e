"""torchquad: integrals by five rules, and the gradient of an integral with respect to its bounds."""

# requires: torchquad==0.6.0
import torch
from torchquad import VEGAS, Boole, MonteCarlo, Simpson, Trapezoid, set_log_level, set_up_backend

set_log_level("ERROR")
set_up_backend("torch", data_type="float64")


def bell(x):
    """A product of bells."""
    return torch.exp(-x.square().sum(1))


for rule, count in ((Trapezoid(), 2500), (Simpson(), 2601), (Boole(), 2401)):
    domain = torch.tensor([[-1.0, 2.0], [0.0, 1.0]], requires_grad=True)
    value = rule.integrate(bell, dim=2, N=count, integration_domain=domain)
    value.backward()
    print(f"{type(rule).__name__}: {value.item():.8f} gradient {domain.grad.abs().sum().item():.6f}")
for rule in (MonteCarlo(), VEGAS()):
    value = rule.integrate(bell, dim=2, N=3000, integration_domain=[[-1, 2], [0, 1]], seed=0)
    print(f"{type(rule).__name__}: {value.item():.6f}")
