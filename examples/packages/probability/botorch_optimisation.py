"""botorch: Bayesian optimisation of a function of two variables by expected improvement."""

# requires: botorch==0.18.1
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def objective(x):
    """A bump at (0.3, 0.7)."""
    return torch.exp(-8 * ((x - torch.tensor([0.3, 0.7])) ** 2).sum(-1, keepdim=True))


x = torch.rand(6, 2)
y = objective(x)
for turn in range(4):
    model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    candidate, value = optimize_acqf(
        LogExpectedImprovement(model, best_f=y.max()),
        bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]),
        q=1,
        num_restarts=3,
        raw_samples=32,
    )
    x, y = torch.cat([x, candidate]), torch.cat([y, objective(candidate)])
    print(f"turn {turn + 1}: best {y.max().item():.4f} at", *(f"{value:.3f}" for value in candidate[0].tolist()))
