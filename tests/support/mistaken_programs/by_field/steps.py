"""Mistakes in steps: schedules, samplers, gradients that are cleared, seeds, states."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

STEP_MISTAKES = [
    Mistake(
        "functional dropout in evaluation",
        "dropout-in-evaluation",
        "net",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 24), nn.Linear(24, 3)
    def forward(self, x):
        x = F.relu(self.a(x))
        x = F.dropout(x, p=0.5)  # !
        return self.b(x)
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    net.train()
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean().item()
""",
        (("        x = F.dropout(x, p=0.5)  # !", "        x = F.dropout(x, p=0.5, training=self.training)"),),
    ),
    Mistake(
        "an epoch's schedule at each batch",
        "learning-rate-vanishes",
        "opt",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scheduler = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
for epoch in range(3):
    for xb, yb in zip(x.split(12), y.split(12)):
        opt.zero_grad()
        loss = F.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
        scheduler.step()  # !
""",
        (("        scheduler.step()  # !", "    scheduler.step()"),),
    ),
    Mistake(
        "inputs shuffled without their labels",
        "shuffled-apart",
        "x",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
for epoch in range(6):
    order = torch.randperm(96)
    x = x[order]  # !
    for xb, yb in zip(x.split(48), y.split(48)):
        opt.zero_grad()
        loss = F.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
""",
        (("    x = x[order]  # !", "    x, y = x[order], y[order]"),),
    ),
    Mistake(
        "losses wrapped in a new tensor",
        "loss-independent-of-model",
        "opt",
        """\
net = nn.Linear(5, 1)
opt = optim.SGD(net.parameters(), lr=1e-2)
x = torch.randn(40, 5)
t = x.sum(1, keepdim=True)
for _ in range(6):
    losses = [F.mse_loss(net(xb), tb) for xb, tb in zip(x.split(10), t.split(10))]
    loss = torch.tensor([l.item() for l in losses], requires_grad=True).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = torch.tensor([l.item() for l in losses], requires_grad=True).mean()  # !",
                "    loss = torch.stack(losses).mean()",
            ),
        ),
    ),
    Mistake(
        "evaluation mode without the call",
        "train-while-evaluating",
        "net",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.5), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    net.train()
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    net.eval  # !
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean().item()
""",
        (("    net.eval  # !", "    net.eval()"),),
    ),
    Mistake(
        "a sampler with the weights of classes",
        "sampler-weights",
        "sampler",
        """\
x = torch.randn(200, 4)
y = (torch.rand(200) < 0.1).long()
counts = torch.bincount(y)
weights = 1.0 / counts
sampler = torch.utils.data.WeightedRandomSampler(weights, 200)  # !
loader = DataLoader(TensorDataset(x, y), batch_size=20, sampler=sampler)
net = nn.Linear(4, 2)
opt = optim.Adam(net.parameters(), lr=1e-2)
for xb, yb in loader:
    opt.zero_grad()
    loss = F.cross_entropy(net(xb), yb)
    loss.backward()
    opt.step()
""",
        (
            (
                """\
weights = 1.0 / counts
sampler = torch.utils.data.WeightedRandomSampler(weights, 200)  # !""",
                """\
weights = (1.0 / counts)[y]
sampler = torch.utils.data.WeightedRandomSampler(weights, 200)""",
            ),
        ),
    ),
    Mistake(
        "the best weights go on training",
        "state-not-copied",
        "best",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
best_loss = 1e9
for _ in range(8):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    if loss.item() < best_loss:
        best_loss = loss.item()
        best = net.state_dict()  # !
net.load_state_dict(best)
""",
        (
            (
                "        best = net.state_dict()  # !",
                "        best = {k: v.clone() for k, v in net.state_dict().items()}",
            ),
        ),
    ),
    Mistake(
        "the schedule gives the rate itself",
        "absolute-schedule",
        "LambdaLR",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.SGD(net.parameters(), lr=1e-2)
sched = optim.lr_scheduler.LambdaLR(opt, lambda e: 1e-2 * 0.95 ** e)  # !
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    sched.step()
""",
        (
            (
                "sched = optim.lr_scheduler.LambdaLR(opt, lambda e: 1e-2 * 0.95 ** e)  # !",
                "sched = optim.lr_scheduler.LambdaLR(opt, lambda e: 0.95 ** e)",
            ),
        ),
    ),
    Mistake(
        "the seed is set at each step",
        "random-numbers-repeat",
        "manual_seed",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    torch.manual_seed(1)  # !
    pick = torch.randint(0, 96, (32,))
    opt.zero_grad()
    loss = F.cross_entropy(net(x[pick]), y[pick])
    loss.backward()
    opt.step()
""",
        (
            (
                "opt = optim.Adam(net.parameters(), lr=1e-2)",
                """\
torch.manual_seed(1)
opt = optim.Adam(net.parameters(), lr=1e-2)""",
            ),
            (
                """\
    torch.manual_seed(1)  # !
""",
                "",
            ),
        ),
    ),
    Mistake(
        "cleared at each small batch",
        "accumulation-cleared",
        "opt.zero_grad",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
for _ in range(4):
    for i, (xb, yb) in enumerate(zip(x.split(12), y.split(12))):
        opt.zero_grad()  # !
        loss = F.cross_entropy(net(xb), yb) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            opt.step()
""",
        (
            (
                """\
        opt.zero_grad()  # !
""",
                "",
            ),
            (
                "            opt.step()",
                """\
            opt.step()
            opt.zero_grad()""",
            ),
        ),
    ),
    Mistake(
        "a warmup that divides whole numbers",
        "zero-learning-rate",
        "opt",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
sched = optim.lr_scheduler.LambdaLR(opt, lambda step: min(1, step // 100))  # !
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(10):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    sched.step()
""",
        (
            (
                "sched = optim.lr_scheduler.LambdaLR(opt, lambda step: min(1, step // 100))  # !",
                "sched = optim.lr_scheduler.LambdaLR(opt, lambda step: min(1, (step + 1) / 4))",
            ),
        ),
    ),
    Mistake(
        "the rate is set on the optimizer",
        "unread-attribute",
        "opt.lr",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for epoch in range(8):
    if epoch == 4:
        opt.lr = 0.01  # !
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("        opt.lr = 0.01  # !", '        opt.param_groups[0]["lr"] = 0.01'),),
    ),
    Mistake(
        "dropout on the test set of a frozen part",
        "frozen-norm",
        "backbone.1",
        """\
backbone = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU())
for p in backbone.parameters():
    p.requires_grad = False
head = nn.Linear(24, 3)
opt = optim.Adam(head.parameters(), lr=1e-2)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    features = backbone(x)  # !
    opt.zero_grad()
    loss = F.cross_entropy(head(features), y)
    loss.backward()
    opt.step()
""",
        (
            (
                "for _ in range(6):",
                """\
backbone.eval()
for _ in range(6):""",
            ),
        ),
    ),
    Mistake(
        "a schedule for another optimizer",
        "learning-rate-vanishes",
        "oa",
        """\
a, b = nn.Linear(6, 24), nn.Linear(24, 3)
oa, ob = optim.SGD(a.parameters(), lr=0.1), optim.SGD(b.parameters(), lr=0.1)
sched = optim.lr_scheduler.StepLR(oa, 1, gamma=0.1)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(14):
    loss = F.cross_entropy(b(torch.relu(a(x))), y)
    oa.zero_grad()
    ob.zero_grad()
    loss.backward()
    oa.step()
    ob.step()
    sched.step()  # !
""",
        (
            (
                "sched = optim.lr_scheduler.StepLR(oa, 1, gamma=0.1)",
                "sched = optim.lr_scheduler.StepLR(oa, 10, gamma=0.1)",
            ),
        ),
    ),
    Mistake(
        "binary labels of two columns",
        "loss-independent-of-model",
        "opt",
        """\
net = nn.Linear(6, 2)
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = (x[:, 0] > 0).long()
for _ in range(6):
    loss = F.mse_loss(net(x).argmax(1).float().requires_grad_(), y.float())  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.mse_loss(net(x).argmax(1).float().requires_grad_(), y.float())  # !",
                "    loss = F.cross_entropy(net(x), y)",
            ),
        ),
    ),
]
