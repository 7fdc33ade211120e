"""Further programs without a mistake, near to the mistakes about options, graphs and precision."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP

SOUND_OPTIONS = {
    "two networks against each other": """\
g = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
d = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
og, od = optim.Adam(g.parameters(), lr=0.01), optim.Adam(d.parameters(), lr=0.01)
for _ in range(6):
    real, fake = torch.randn(16, 2), g(torch.randn(16, 4))
    od.zero_grad()
    scores = d(torch.cat([real, fake.detach()]))
    F.cross_entropy(scores, torch.tensor([1] * 16 + [0] * 16)).backward()
    od.step()
    og.zero_grad()
    (-F.cross_entropy(d(fake), torch.zeros(16).long())).backward()
    og.step()
""",
    "an attack on the input": CLASSIFIER
    + """\
"""
    + LOOP
    + """\
delta = torch.zeros_like(x, requires_grad=True)
for _ in range(4):
    F.cross_entropy(net(x + delta), y).backward()
    delta.data += 0.01 * delta.grad.sign()
    delta.grad = None
""",
    "an adapter that begins as zero": """\
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(6, 6), nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
        nn.init.zeros_(self.up.weight)
    def forward(self, x):
        return self.base(x) + self.up(self.down(x))
net = Adapter()
opt = optim.AdamW(net.parameters(), lr=0.05, weight_decay=0.1)
x, t = torch.randn(16, 6), torch.randn(16, 6)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
    "attention with its heads split and joined": """\
q, out = nn.Linear(8, 8), nn.Linear(8, 2)
opt = optim.Adam([*q.parameters(), *out.parameters()])
x, y = torch.randn(4, 6, 8), torch.randint(0, 2, (4,))
for _ in range(6):
    opt.zero_grad()
    h = q(x).view(4, 6, 2, 4).transpose(1, 2)
    h = F.scaled_dot_product_attention(h, h, h).transpose(1, 2).reshape(4, 6, 8)
    F.cross_entropy(out(h.mean(1)), y).backward()
    opt.step()
""",
    "groups of channels": """\
conv, out = nn.Conv1d(6, 6, 3), nn.Linear(60, 2)
opt = optim.Adam([*conv.parameters(), *out.parameters()])
x, y = torch.randn(16, 6, 12), torch.randint(0, 2, (16,))
for _ in range(6):
    opt.zero_grad()
    h = conv(x).view(16, 2, 3, 10).transpose(1, 2).reshape(16, 60)
    F.cross_entropy(out(h), y).backward()
    opt.step()
""",
    "gradients clipped in each step": CLASSIFIER
    + """\
from adjoint.nn.utils import clip_grad_norm_
for _ in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    clip_grad_norm_(parameters=net.parameters(), max_norm=1.0)
    nn.utils.clip_grad_value_(parameters=list(net.parameters()), clip_value=1.0)
    optimizer.step()
""",
    "inner steps of plain descent": """\
w = torch.zeros(3, requires_grad=True)
for _ in range(6):
    inner = optim.SGD([w], lr=0.1)
    inner.zero_grad()
    F.mse_loss(w * torch.randn(8, 3), torch.randn(8, 3)).backward()
    inner.step()
""",
    "double precision on purpose": """\
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
opt = optim.LBFGS(net.parameters(), lr=0.5, max_iter=5)
x = torch.rand(20, 3, dtype=torch.float64)
t = x.sum(1, keepdim=True)
def closure():
    opt.zero_grad()
    loss = F.mse_loss(net(x), t)
    loss.backward()
    return loss
for _ in range(4):
    opt.step(closure)
""",
    "double precision by default": """\
torch.set_default_dtype(torch.float64)
try:
    net = nn.Linear(3, 1)
    opt = optim.Adam(net.parameters(), lr=0.01)
    x = torch.tensor(np.random.default_rng(0).random((20, 3)))
    for _ in range(5):
        opt.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        opt.step()
finally:
    torch.set_default_dtype(torch.float32)
""",
    "sums in double precision": CLASSIFIER
    + """\
total = torch.zeros((), dtype=torch.float64)
for _ in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    total += loss.detach().double()
print((total / 6).item())
""",
    "a loss computed in double precision": CLASSIFIER
    + """\
for _ in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x).double(), y).backward()
    optimizer.step()
""",
    "NumPy data made float32": """\
data = np.random.default_rng(0).normal(size=(30, 4))
x, t = torch.from_numpy(data).float(), torch.tensor(data.sum(1), dtype=torch.float32)
net = nn.Linear(4, 1)
opt = optim.SGD(net.parameters(), lr=0.05)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x).squeeze(1), t).backward()
    opt.step()
""",
    "softmax over the samples of a bag": """\
score, out = nn.Linear(4, 1), nn.Linear(4, 2)
opt = optim.Adam([*score.parameters(), *out.parameters()], lr=0.01)
for _ in range(6):
    bag = torch.randn(9, 4)
    opt.zero_grad()
    weight = F.softmax(score(bag), dim=0)
    F.cross_entropy(out((weight * bag).sum(0, keepdim=True)), torch.tensor([1])).backward()
    opt.step()
""",
    "distillation with the teacher's probabilities": CLASSIFIER
    + """\
teacher = torch.softmax(torch.randn(48, 3), 1)
for _ in range(6):
    optimizer.zero_grad()
    F.kl_div(F.log_softmax(net(x), 1), teacher, reduction='batchmean').backward()
    optimizer.step()
""",
    "a quantizer that passes gradients straight through": CLASSIFIER
    + """\
for _ in range(6):
    optimizer.zero_grad()
    z = net(x)
    z = z + (z.round() - z).detach()
    F.cross_entropy(z, y).backward()
    optimizer.step()
""",
    "an evaluation that keeps predictions": CLASSIFIER
    + """\
"""
    + LOOP
    + """\
net.eval()
outs = []
with torch.no_grad():
    for i in range(0, 48, 6):
        outs.append(net(x[i:i + 6]))
net.train()
for epoch in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
}
