"""pypose: Lie groups of rotations and poses, and a pose found by Levenberg-Marquardt."""

# requires: pypose==0.9.5
import pypose as pp
import torch
from torch import nn

torch.manual_seed(0)
r = pp.randn_SO3(3, requires_grad=True)
points = torch.randn(3, 3)
loss = (r @ points).pow(2).sum() + r.Log().pow(2).sum()
loss.backward()
print(f"{loss.item():.4f} {r.grad.norm().item():.4f}")


class PoseInverse(nn.Module):
    """The logarithm of a learned pose times its input, which is zero at the inverse."""

    def __init__(self):
        super().__init__()
        self.pose = pp.Parameter(pp.randn_se3(2))

    def forward(self, input):
        return (self.pose.Exp() @ input).Log().tensor()


inv = PoseInverse()
target = pp.randn_SE3(2)
optimizer = pp.optim.LM(inv, strategy=pp.optim.strategy.Adaptive(damping=1e-4))
for _ in range(4):
    print(f"{optimizer.step(target).item():.4f}")
print(*(f"{v:.3f}" for v in inv.pose.flatten().detach()))
