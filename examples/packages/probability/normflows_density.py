"""normflows: planar, radial, Real NVP, residual and spline flows learn a density, forward and reverse."""

# requires: normflows==1.7.3
import normflows as nf
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
target = nf.distributions.TwoMoons()
base = nf.distributions.DiagGaussian(2)
mask = torch.tensor([1.0, 0.0])
stacks = {
    "planar": [nf.flows.Planar((2,)) for _ in range(4)],
    "radial": [nf.flows.Radial((2,)) for _ in range(4)],
    "masked": [
        nf.flows.MaskedAffineFlow(mask if i % 2 else 1 - mask, nf.nets.MLP([2, 16, 2]), nf.nets.MLP([2, 16, 2]))
        for i in range(4)
    ],
    "spline": [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8) for _ in range(2)],
    "coupling": [nf.flows.CoupledRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2)],
    "actnorm": [
        nf.flows.ActNorm((2,)),
        nf.flows.Permute(2, mode="swap"),
        nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2])),
    ],
}
for name, flows in stacks.items():
    model = nf.NormalizingFlow(base, flows, target)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model.reverse_kld(64) if name in ("planar", "radial") else model.forward_kld(torch.randn(64, 2) * 0.5)
        loss.backward()
        optimizer.step()
    z, log_q = model.sample(16)
    print(name, f"{loss.item():.4f} {z.mean().item():.4f} {log_q.mean().item():.4f}")
