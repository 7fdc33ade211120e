"""tensordict: nested batches, modules that read and write keys, and an ensemble by `vmap`."""

# requires: tensordict==0.15.3
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn

torch.manual_seed(0)
batch = TensorDict({"observation": {"position": torch.randn(12, 3), "speed": torch.randn(12, 3)}}, batch_size=[12])
batch["target"] = batch["observation", "position"].sum(1, keepdim=True)
print(batch.reshape(3, 4).shape, batch[:5].batch_size, sorted(batch.flatten_keys(".").keys()))

policy = TensorDictSequential(
    TensorDictModule(
        lambda *parts: torch.cat(parts, -1), [("observation", "position"), ("observation", "speed")], ["x"]
    ),
    TensorDictModule(nn.Sequential(nn.Linear(6, 16), nn.Tanh()), ["x"], ["hidden"]),
    TensorDictModule(nn.Linear(16, 2), ["hidden"], ["parameters"]),
    TensorDictModule(lambda p: (p[..., :1], p[..., 1:].exp()), ["parameters"], ["loc", "scale"]),
    ProbabilisticTensorDictModule(
        ["loc", "scale"], ["action"], distribution_class=torch.distributions.Normal, default_interaction_type="random",
        return_log_prob=True,
    ),
)  # fmt: skip
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(4):
    out = policy(batch.clone())
    reward = -(out["action"] - out["target"]).square()
    loss = -(out["action_log_prob"].view(-1) * reward.detach().view(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.5f} reward {reward.mean().item():.5f}")

models = [nn.Linear(3, 1) for _ in range(3)]
weights = torch.stack([TensorDict.from_module(model) for model in models])


def predict(weights, x):
    """Call one model with these weights."""
    with weights.to_module(models[0]):
        return models[0](x)


print("ensemble", *(f"{v:.5f}" for v in torch.vmap(predict, (0, None))(weights, torch.ones(3)).flatten().tolist()))
