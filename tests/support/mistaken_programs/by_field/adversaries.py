"""Mistakes in adversarial training, and in losses that have gradients in them."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

ADVERSARY_MISTAKES = [
    Mistake(
        "the discriminator's gradients stay in the generator",
        "foreign-gradients",
        "opt_g",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g, opt_d = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(8):
    real = torch.randn(32, 2) + 2
    opt_g.zero_grad()
    opt_d.zero_grad()
    fake = G(torch.randn(32, 4))
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1))
    d_loss.backward(retain_graph=True)
    opt_d.step()
    g_loss = bce(D(G(torch.randn(32, 4))), torch.ones(32, 1))
    g_loss.backward()
    opt_g.step()  # !
""",
        (
            (
                """\
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1))
    d_loss.backward(retain_graph=True)""",
                """\
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    d_loss.backward()""",
            ),
        ),
    ),
    Mistake(
        "the generator learns to look fake",
        "generator-target",
        "G",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
opt_g, opt_d = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
real_label, fake_label = torch.ones(32, 1), torch.zeros(32, 1)
for _ in range(8):
    real, z = torch.randn(32, 2) + 2, torch.randn(32, 4)
    opt_d.zero_grad()
    d_loss = F.binary_cross_entropy(D(real), real_label) + F.binary_cross_entropy(D(G(z).detach()), fake_label)
    d_loss.backward()
    opt_d.step()
    opt_g.zero_grad()
    g_loss = F.binary_cross_entropy(D(G(z)), fake_label)  # !
    g_loss.backward()
    opt_g.step()
""",
        (
            (
                "    g_loss = F.binary_cross_entropy(D(G(z)), fake_label)  # !",
                "    g_loss = F.binary_cross_entropy(D(G(z)), real_label)",
            ),
        ),
    ),
    Mistake(
        "gradient penalty without a graph",
        "constant-penalty",
        "grad",
        """\
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt = optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(8):
    real, fake = torch.randn(16, 2), torch.randn(16, 2) + 1
    alpha = torch.rand(16, 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_()
    out = critic(mixed)
    grads = torch.autograd.grad(out, mixed, torch.ones_like(out), retain_graph=True)[0]  # !
    penalty = ((grads.norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    grads = torch.autograd.grad(out, mixed, torch.ones_like(out), retain_graph=True)[0]  # !",
                "    grads = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True)[0]",
            ),
        ),
    ),
    Mistake(
        "a critic that ends in a sigmoid",
        "sigmoid-in-critic",
        "sigmoid",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1),
                       nn.Sigmoid())
g_opt, c_opt = optim.RMSprop(G.parameters(), lr=1e-3), optim.RMSprop(critic.parameters(), lr=1e-3)
for _ in range(8):
    real = torch.randn(32, 2) + 2
    c_opt.zero_grad()
    fake = G(torch.randn(32, 4)).detach()
    c_loss = critic(fake).mean() - critic(real).mean()  # !
    c_loss.backward()
    c_opt.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.1, 0.1)
    g_opt.zero_grad()
    g_loss = -critic(G(torch.randn(32, 4))).mean()
    g_loss.backward()
    g_opt.step()
""",
        (("                       nn.Sigmoid())", "                       nn.Identity())"),),
    ),
    Mistake(
        "the generator is detached in its own loss",
        "loss-independent-of-model",
        "g_opt",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt, d_opt = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(8):
    real = torch.randn(32, 2) + 2
    fake = G(torch.randn(32, 4))
    d_opt.zero_grad()
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    d_loss.backward()
    d_opt.step()
    g_opt.zero_grad()
    g_loss = bce(D(fake.detach()), torch.ones(32, 1))  # !
    g_loss.backward()
    g_opt.step()
""",
        (
            (
                "    g_loss = bce(D(fake.detach()), torch.ones(32, 1))  # !",
                "    g_loss = bce(D(fake), torch.ones(32, 1))",
            ),
        ),
    ),
    Mistake(
        "real and fake have the same label",
        "discriminator-target",
        "D",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt, d_opt = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for _ in range(8):
    real = torch.randn(32, 2) + 2
    d_opt.zero_grad()
    real_loss = F.binary_cross_entropy_with_logits(D(real), ones)
    fake_loss = F.binary_cross_entropy_with_logits(D(G(torch.randn(32, 4)).detach()), ones)  # !
    (real_loss + fake_loss).backward()
    d_opt.step()
    g_opt.zero_grad()
    F.binary_cross_entropy_with_logits(D(G(torch.randn(32, 4))), ones).backward()
    g_opt.step()
""",
        (
            (
                "    fake_loss = F.binary_cross_entropy_with_logits(D(G(torch.randn(32, 4)).detach()), ones)  # !",
                "    fake_loss = F.binary_cross_entropy_with_logits(D(G(torch.randn(32, 4)).detach()), zeros)",
            ),
        ),
    ),
    Mistake(
        "the physics term has no graph",
        "constant-penalty",
        "grad",
        """\
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
opt = optim.Adam(net.parameters(), lr=1e-3)
for _ in range(8):
    t = torch.rand(32, 1, requires_grad=True)
    u = net(t)
    du = torch.autograd.grad(u.sum(), t, retain_graph=True)[0]  # !
    physics = ((du + u.detach()) ** 2).mean()
    boundary = (net(torch.zeros(1, 1)) - 1).square().mean()
    loss = boundary + physics
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    du = torch.autograd.grad(u.sum(), t, retain_graph=True)[0]  # !",
                "    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]",
            ),
        ),
    ),
    Mistake(
        "inner steps outside of the graph",
        "loss-independent-of-model",
        "meta",
        """\
net = nn.Linear(4, 1)
meta = optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    xs, xq = torch.randn(10, 4), torch.randn(10, 4)
    w = torch.randn(4)
    support = F.mse_loss(net(xs).squeeze(1), xs @ w)
    grads = torch.autograd.grad(support, list(net.parameters()))
    fast = [(p - 0.1 * g).detach().requires_grad_() for p, g in zip(net.parameters(), grads)]  # !
    query = F.mse_loss(F.linear(xq, fast[0], fast[1]).squeeze(1), xq @ w)
    meta.zero_grad()
    query.backward()
    meta.step()
""",
        (
            (
                "    fast = [(p - 0.1 * g).detach().requires_grad_() for p, g in zip(net.parameters(), grads)]  # !",
                "    fast = [p - 0.1 * g for p, g in zip(net.parameters(), grads)]",
            ),
        ),
    ),
]
