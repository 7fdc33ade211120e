"""sbi: the posterior of a simulator's parameters, learned from its simulations by a normalising flow."""

# requires: sbi==0.27.0
import torch
from sbi.inference import NLE, NPE
from sbi.utils import BoxUniform

torch.manual_seed(0)
prior = BoxUniform(low=-2 * torch.ones(2), high=2 * torch.ones(2))
theta = prior.sample((200,))
x = theta + 0.3 * torch.randn_like(theta)
observed = torch.tensor([[0.5, -0.25]])
for name, method in (("posterior", NPE), ("likelihood", NLE)):
    inference = method(prior=prior, show_progress_bars=False)
    inference.append_simulations(theta, x)
    estimator = inference.train(training_batch_size=50, max_num_epochs=4, show_train_summary=False)
    history = inference.summary
    print(name, "losses", *(f"{value:.3f}" for value in history["training_loss"]))
    if name == "posterior":
        posterior = inference.build_posterior(estimator)
        drawn = posterior.sample((500,), x=observed, show_progress_bars=False)
        print("mean", *(f"{value:.2f}" for value in drawn.mean(0)))
        print("log density", f"{posterior.log_prob(observed, x=observed).item():.3f}")
