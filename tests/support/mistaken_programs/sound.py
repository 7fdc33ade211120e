"""Programs without a mistake, of kinds in which rules might see one."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER

GAN = """\
G = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1))
g_opt, d_opt = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(8):
    real = torch.randn(32, 2)
    with torch.no_grad():
        fake = G(torch.randn(32, 4))
    d_opt.zero_grad()
    loss_d = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1))
    loss_d.backward()
    d_opt.step()
    g_opt.zero_grad()
    loss_g = bce(D(G(torch.randn(32, 4))), torch.ones(32, 1))
    loss_g.backward()
    g_opt.step()
"""

SOUND_PROGRAMS = {
    "two networks against each other": GAN,
    "two networks, fake detached": GAN.replace("    with torch.no_grad():\n        fake = G(torch.randn(32, 4))\n",
                                              "    fake = G(torch.randn(32, 4)).detach()\n"),
    "target network": """\
import copy
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(q)
opt = optim.Adam(q.parameters(), lr=1e-3)
for i in range(12):
    s, a, r, s2 = torch.randn(32, 4), torch.randint(0, 2, (32, 1)), torch.randn(32), torch.randn(32, 4)
    value = q(s).gather(1, a).squeeze(1)
    with torch.no_grad():
        goal = r + 0.9 * target(s2).max(1).values
    loss = F.smooth_l1_loss(value, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 4 == 3:
        target.load_state_dict(q.state_dict())
""",
    "soft update through .data": """\
import copy
q = nn.Linear(4, 1)
target = copy.deepcopy(q)
opt = optim.SGD(q.parameters(), lr=1e-2)
for i in range(8):
    s, s2 = torch.randn(32, 4), torch.randn(32, 4)
    loss = F.mse_loss(q(s), target(s2).detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
    for p, t in zip(q.parameters(), target.parameters()):
        t.data.mul_(0.9).add_(0.1 * p.data)
""",
    "frozen backbone": """\
backbone = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
for p in backbone.parameters():
    p.requires_grad_(False)
head = nn.Linear(16, 3)
model = nn.Sequential(backbone, head)
opt = optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(30, 6), torch.randint(0, 3, (30,))
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
""",
    "frozen backbone under no_grad in evaluation mode": """\
backbone = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU()).eval().requires_grad_(False)
head = nn.Linear(16, 3)
opt = optim.Adam(head.parameters(), lr=1e-2)
x, y = torch.randn(30, 6), torch.randint(0, 3, (30,))
for _ in range(6):
    with torch.no_grad():
        features = backbone(x)
    opt.zero_grad()
    F.cross_entropy(head(features), y).backward()
    opt.step()
""",
    "gradients accumulated over batches": CLASSIFIER + """\
for epoch in range(4):
    for part in range(4):
        loss = F.cross_entropy(net(x[part::4]), y[part::4]) / 4
        loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
""",
    "losses summed before one backward": CLASSIFIER + """\
for epoch in range(6):
    losses, total = [], 0
    for part in range(4):
        loss = F.cross_entropy(net(x[part::4]), y[part::4])
        losses.append(loss)
        total = total + loss
    optimizer.zero_grad()
    (total / 4 + 0 * sum(losses)).backward()
    optimizer.step()
""",
    "closure": """\
model = nn.Linear(3, 1)
opt = optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
x = torch.randn(20, 3)
t = x.sum(1, keepdim=True)
def closure():
    opt.zero_grad()
    loss = F.mse_loss(model(x), t)
    loss.backward()
    return loss
for _ in range(4):
    opt.step(closure)
""",
    "truncated backpropagation through time": """\
net = nn.LSTM(3, 8, batch_first=True)
head = nn.Linear(8, 1)
opt = optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
state = None
for i in range(6):
    out, state = net(torch.randn(4, 5, 3), state)
    state = tuple(s.detach() for s in state)
    opt.zero_grad()
    head(out).square().mean().backward()
    opt.step()
""",
    "variational autoencoder": """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.var, self.dec = nn.Linear(8, 16), nn.Linear(16, 2), nn.Linear(16, 2), nn.Linear(2, 8)
    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.var(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar
vae = VAE()
opt = optim.Adam(vae.parameters(), lr=1e-3)
x = torch.rand(32, 8)
for _ in range(8):
    out, mu, logvar = vae(x)
    loss = F.binary_cross_entropy_with_logits(out, x, reduction="sum")
    loss = loss - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    value = loss.item()
""",
    "straight-through quantization": """\
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 4), nn.Linear(4, 6)
    def forward(self, x):
        z = self.enc(x)
        q = z + (torch.round(z) - z).detach()
        return self.dec(q)
net = Quantizer()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(32, 6)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), x).backward()
    opt.step()
""",
    "derivatives with respect to the input": """\
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.linspace(0, 1, 32).reshape(-1, 1).requires_grad_()
for _ in range(6):
    u = net(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    loss = (du - torch.cos(x)).pow(2).mean() + u[0].pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "gradient penalty": """\
D = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = optim.Adam(D.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(16, 2, requires_grad=True)
    out = D(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = out.mean() + 10 * ((g.norm(dim=1) - 1) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "weights clamped through .data": """\
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.RMSprop(critic.parameters(), lr=5e-4)
for _ in range(8):
    loss = critic(torch.randn(32, 2)).mean() - critic(torch.randn(32, 2) + 1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for p in critic.parameters():
        p.data.clamp_(-0.1, 0.1)
""",
    "attention over time, batch second": """\
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.score, self.out = nn.GRU(4, 8), nn.Linear(8, 1), nn.Linear(8, 2)
    def forward(self, x):
        h, _ = self.rnn(x)
        a = F.softmax(self.score(h).squeeze(-1), dim=0)
        return self.out((a.unsqueeze(-1) * h).sum(0))
net = Pool()
opt = optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(7, 5, 4), torch.randint(0, 2, (5,))
for _ in range(5):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
    "contrastive pairs": """\
net = nn.Linear(6, 4)
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(12, 6)
labels = torch.arange(12) % 3
for _ in range(5):
    z = F.normalize(net(x), dim=1)
    similar = (labels[:, None] == labels).float()
    d = (z[:, None] - z[None]).pow(2).sum(-1)
    s = z.sum(1)
    loss = (similar * d).mean() + F.relu(1 - d).mean() + 0.01 * (s[:, None] - s).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "language model with tied weights": """\
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(self.layer, 2)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.emb.weight
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.encoder(self.emb(x), mask=mask))
net = LM()
del net.layer
opt = optim.AdamW(net.parameters(), lr=1e-3)
warm = optim.lr_scheduler.LambdaLR(opt, lambda i: i / 10)
data = torch.randint(0, 20, (8, 11))
for _ in range(8):
    logits = net(data[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 20), data[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    warm.step()
""",
    "validation after each epoch": CLASSIFIER + """\
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
test = DataLoader(TensorDataset(x, y), batch_size=16)
schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
history, best = [], None
for epoch in range(3):
    net.train()
    running = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        out = net(xb)
        loss = F.cross_entropy(out, yb)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(xb)
        hits = (out.argmax(1) == yb).sum().item()
    schedule.step()
    net.eval()
    with torch.no_grad():
        history.append(sum((net(xb).argmax(1) == yb).sum().item() for xb, yb in test) / len(x))
    best = loss
""",
    "whole data in each step": """\
inputs = np.linspace(-1, 1, 40, dtype=np.float32).reshape(-1, 1)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    x, t = torch.from_numpy(inputs), torch.from_numpy(np.sin(3 * inputs))
    loss = nn.MSELoss()(model(x), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "policy gradient": """\
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2), nn.Softmax(dim=-1))
opt = optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(5):
    logs, rewards = [], []
    for t in range(6):
        probabilities = policy(torch.randn(1, 4))
        action = torch.multinomial(probabilities, 1)
        logs.append(probabilities.gather(1, action).log().squeeze())
        rewards.append(float(action.item()))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(logs) * (returns - returns.mean())).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "double precision throughout": """\
torch.set_default_dtype(torch.float64)
try:
    net = nn.Linear(3, 1)
    opt = optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(16, 3)
    for _ in range(5):
        opt.zero_grad()
        ((net(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
        opt.step()
finally:
    torch.set_default_dtype(torch.float32)
""",
    "inputs normalized in forward": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.fc = nn.BatchNorm2d(1), nn.Conv2d(1, 4, 3), nn.Linear(144, 3)
    def forward(self, x):
        return self.fc(F.relu(self.conv(self.norm(x))).flatten(1))
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-3)
images, labels = torch.randint(0, 256, (16, 1, 8, 8)).float(), torch.randint(0, 3, (16,))
for _ in range(5):
    opt.zero_grad()
    F.cross_entropy(net(images), labels).backward()
    opt.step()
""",
    "noisy second predictions under no_grad": """\
import copy
student = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 3))
teacher = copy.deepcopy(student)
opt = optim.SGD(student.parameters(), lr=0.05)
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
for _ in range(6):
    with torch.no_grad():
        soft = F.softmax(teacher(x), dim=1)
    out = student(x)
    loss = F.cross_entropy(out, y) + F.kl_div(F.log_softmax(out, 1), soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, t in zip(student.parameters(), teacher.parameters()):
            t.mul_(0.9).add_(p, alpha=0.1)
""",
    "fast weights of an inner loop": """\
net = nn.Linear(3, 1)
opt = optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    meta = 0.0
    for task in range(3):
        x = torch.randn(10, 3)
        t = x @ torch.randn(3, 1)
        inner = F.mse_loss(net(x), t)
        grads = torch.autograd.grad(inner, tuple(net.parameters()), create_graph=True)
        w, b = (p - 0.1 * g for p, g in zip(net.parameters(), grads))
        meta = meta + F.mse_loss(F.linear(x, w, b), t)
    opt.zero_grad()
    meta.backward()
    opt.step()
""",
    "parameters without modules": """\
w = torch.randn(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
opt = optim.SGD([w, b], lr=0.1)
x = torch.randn(20, 3)
t = x.sum(1, keepdim=True)
for _ in range(8):
    loss = ((x @ w + b - t) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a masked softmax": """\
net = nn.MultiheadAttention(8, 2, batch_first=True)
out = nn.Linear(8, 1)
opt = optim.Adam([*net.parameters(), *out.parameters()], lr=1e-3)
x = torch.randn(4, 6, 8)
mask = torch.triu(torch.full((6, 6), float("-inf")), diagonal=1)
for _ in range(5):
    h, _ = net(x, x, x, attn_mask=mask)
    opt.zero_grad()
    out(h).square().mean().backward()
    opt.step()
""",
    "mixture of losses with a rare branch": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)
    def forward(self, x, i):
        return self.a(x) if i % 4 else self.b(x)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(20, 4), torch.randint(0, 2, (20,))
for i in range(10):
    opt.zero_grad()
    F.cross_entropy(net(x, i), y).backward()
    opt.step()
""",
}  # fmt: skip
