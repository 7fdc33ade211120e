"""gpytorch: the hyperparameters of an exact Gaussian process by its marginal likelihood, and its predictions."""

# requires: gpytorch==1.15.2
import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 60)
y = torch.sin(6.28 * x) + 0.1 * torch.randn(60)


class Process(gpytorch.models.ExactGP):
    """A constant mean, and a scaled Matérn kernel."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, y, likelihood)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.4f}")
print(f"length {model.covar_module.base_kernel.lengthscale.item():.4f} noise {likelihood.noise.item():.4f}")

model.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    predicted = likelihood(model(torch.tensor([0.25, 0.5, 1.1])))
    print("mean", *(f"{value:.4f}" for value in predicted.mean.tolist()))
    print("variance", *(f"{value:.4f}" for value in predicted.variance.tolist()))
