"""Mistakes in latent models and denoisers: noise, deviations, divergences."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

LATENT_MISTAKES = [
    Mistake(
        "the KL term has the wrong sign",
        "negated-loss",
        "the divergence",
        """\
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
data = torch.randn(64, 8)
for _ in range(10):
    mu, logvar = enc(data).chunk(2, dim=1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    rec = F.mse_loss(dec(z), data, reduction="sum") / 64
    kl = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()  # !
    loss = rec + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    kl = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()  # !",
                "    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()",
            ),
        ),
    ),
    Mistake(
        "the standard deviation is the variance",
        "variance-as-deviation",
        "std",
        """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(8, 16)
        self.mu, self.logvar = nn.Linear(16, 3), nn.Linear(16, 3)
        self.dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8))
    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(logvar)  # !
        z = mu + std * torch.randn_like(std)
        return self.dec(z), mu, logvar
vae = VAE()
opt = optim.Adam(vae.parameters(), lr=1e-3)
data = torch.rand(64, 8)
for _ in range(8):
    recon, mu, logvar = vae(data)
    bce = F.binary_cross_entropy_with_logits(recon, data, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = (bce + kld) / 64
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("        std = torch.exp(logvar)  # !", "        std = torch.exp(0.5 * logvar)"),),
    ),
    Mistake(
        "noise drawn once",
        "noise-repeats",
        "noise",
        """\
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
data = torch.randn(64, 8)
eps = torch.randn(64, 3)
for _ in range(10):
    mu, logvar = enc(data).chunk(2, dim=1)
    z = mu + eps * (0.5 * logvar).exp()  # !
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = F.mse_loss(dec(z), data, reduction="sum") / 64 + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                """\
eps = torch.randn(64, 3)
""",
                "",
            ),
            (
                "    z = mu + eps * (0.5 * logvar).exp()  # !",
                "    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()",
            ),
        ),
    ),
    Mistake(
        "another noise than the one added",
        "target-is-other-noise",
        "noise",
        """\
net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8))
opt = optim.Adam(net.parameters(), lr=1e-3)
data = torch.randn(64, 8)
for _ in range(8):
    t = torch.rand(64, 1)
    noise = torch.randn_like(data)
    noisy = (1 - t).sqrt() * data + t.sqrt() * noise
    pred = net(torch.cat([noisy, t], 1))
    loss = F.mse_loss(pred, torch.randn_like(data))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = F.mse_loss(pred, torch.randn_like(data))  # !", "    loss = F.mse_loss(pred, noise)"),),
    ),
    Mistake(
        "a sample instead of a reparametrised one",
        "sample-without-gradient",
        "sample",
        """\
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
data = torch.randn(64, 8)
for _ in range(8):
    mu, logvar = enc(data).chunk(2, 1)
    q = torch.distributions.Normal(mu, (0.5 * logvar).exp())
    z = q.sample()  # !
    kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
    loss = F.mse_loss(dec(z), data, reduction="sum") / 64 + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    z = q.sample()  # !", "    z = q.rsample()"),),
    ),
    Mistake(
        "a mean against a sum",
        "uneven-reductions",
        "reduction",
        """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(64, 8), nn.Linear(4, 64)
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar
vae = VAE()
opt = optim.Adam(vae.parameters(), lr=1e-2)
data = torch.randn(64, 64)
for _ in range(8):
    out, mu, logvar = vae(data)
    rec = F.mse_loss(out, data)  # !
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = rec + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    rec = F.mse_loss(out, data)  # !", '    rec = F.mse_loss(out, data, reduction="sum")'),),
    ),
    Mistake(
        "straight-through without a detach",
        "zero-gradient",
        "enc.weight",
        """\
enc, dec = nn.Linear(8, 4), nn.Linear(4, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
data = torch.randn(64, 8)
for _ in range(8):
    z = enc(data)
    quantized = torch.round(z)  # !
    loss = F.mse_loss(dec(quantized), data)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    quantized = torch.round(z)  # !", "    quantized = z + (torch.round(z) - z).detach()"),),
    ),
    Mistake(
        "the batch is normalised with the target",
        "noisy-target",
        "target",
        """\
data = torch.randn(64, 8) * 3 + 5
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
opt = optim.Adam(net.parameters(), lr=1e-3)
for _ in range(8):
    noisy = data + 0.3 * torch.randn_like(data)
    opt.zero_grad()
    loss = F.mse_loss(net(noisy), noisy)  # !
    loss.backward()
    opt.step()
""",
        (
            (
                "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))",
                """\
data = (data - data.mean(0)) / data.std(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))""",
            ),
            ("    loss = F.mse_loss(net(noisy), noisy)  # !", "    loss = F.mse_loss(net(noisy), data)"),
        ),
    ),
    Mistake(
        "log of the standard deviation taken as it is",
        "variance-as-deviation",
        "std",
        """\
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
data = torch.randn(64, 8)
for _ in range(8):
    mu, logvar = enc(data).chunk(2, 1)
    z = mu + logvar * torch.randn_like(mu)  # !
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = F.mse_loss(dec(z), data, reduction="sum") / 64 + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    z = mu + logvar * torch.randn_like(mu)  # !",
                "    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)",
            ),
        ),
    ),
]
