"""Mistakes around the steps: parts that nothing uses, states and targets from elsewhere, data of odd values."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

SCHEDULE_MISTAKES = [
    Mistake(
        "schedule never stepped",
        "schedule-unused",
        "sched",
        """\
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(model.parameters(), lr=1e-2)
sched = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)  # !
data = TensorDataset(torch.randn(32, 6), torch.randn(32, 1))
for epoch in range(4):
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    # end of epoch
""",
        (("    # end of epoch", "    sched.step()"),),
    ),
    Mistake(
        "state carried over shuffled batches",
        "state-of-other-samples",
        "state",
        """\
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(1, 16, batch_first=True), nn.Linear(16, 1)
    def forward(self, x, state):
        h, state = self.rnn(x, state)
        return self.out(h[:, -1]), state
t = torch.arange(0, 40, 0.25)
series = torch.sin(t) + 0.1 * torch.randn(t.shape[0])
windows = series.unfold(0, 9, 1)
data = TensorDataset(windows[:144, :8].unsqueeze(-1), windows[:144, 8:])
loader = DataLoader(data, batch_size=16, shuffle=True)
net = Forecast()
opt = optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(2):
    state = None
    for x, y in loader:
        pred, state = net(x, state)  # !
        state = tuple(s.detach() for s in state)
        loss = F.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        (("pred, state = net(x, state)", "pred, state = net(x, None)"),),
    ),
    Mistake(
        "dropout never called",
        "unused-layer",
        "drop",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 64)
        self.drop = nn.Dropout(0.3)  # !
        self.fc2 = nn.Linear(64, 3)
    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc2(x)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(48, 8)
y = x[:, :3].argmax(1)
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("return self.fc2(x)", "return self.fc2(self.drop(x))"),),
    ),
    Mistake(
        "constant column scaled",
        "nan",
        "std",
        """\
table = torch.randn(64, 5)
table[:, 3] = 7.0
target = table[:, :1] * 2 + 1
mean, std = table.mean(0), table.std(0)
table = (table - mean) / std  # !
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
for xb, yb in DataLoader(TensorDataset(table, target), batch_size=16, shuffle=True):
    opt.zero_grad()
    loss = F.mse_loss(net(xb), yb)
    loss.backward()
    opt.step()
""",
        (("/ std  # !", "/ (std + 1e-6)"),),
    ),
    Mistake(
        "target synchronised each step",
        "target-updated-each-step",
        "q_target",
        """\
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
q_target = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
opt = optim.Adam(q.parameters(), lr=1e-3)
for step in range(12):
    s, s2 = torch.randn(16, 4), torch.randn(16, 4)
    a, r = torch.randint(0, 2, (16, 1)), torch.randn(16)
    done = (torch.rand(16) < 0.1).float()
    with torch.no_grad():
        y = r + 0.99 * (1 - done) * q_target(s2).max(1).values
    loss = F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    q_target.load_state_dict(q.state_dict())  # !
""",
        (
            (
                "    q_target.load_state_dict(q.state_dict())  # !",
                "    if step % 5 == 4: q_target.load_state_dict(q.state_dict())",
            ),
        ),
    ),
    Mistake(
        "pooled over channels",
        "pooled-channels",
        "mean",
        """\
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.fc = nn.Linear(16, 4)
    def forward(self, x):
        x = F.relu(self.conv(x))
        x = x.mean(dim=(1, 2))  # !
        return self.fc(x)
net = Small()
opt = optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(24, 3, 16, 16)
y = torch.randint(0, 4, (24,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("dim=(1, 2)", "dim=(2, 3)"),),
    ),
    Mistake(
        "mean of bytes after division",
        "input-not-normalized",
        "net",
        """\
images = torch.randint(0, 256, (32, 1, 8, 8)).float() / 255
images = (images - 127.5) / 64
labels = torch.randint(0, 3, (32,))
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))
opt = optim.SGD(net.parameters(), lr=0.05)
for xb, yb in DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True):
    opt.zero_grad()
    loss = F.cross_entropy(net(xb), yb)  # !
    loss.backward()
    opt.step()
""",
        (("(images - 127.5) / 64", "(images - 0.5) / 0.25"),),
    ),
    Mistake(
        "generator without optimizer",
        "two-optimizers",
        "opt_g",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_d = optim.Adam(D.parameters(), lr=1e-3)
opt_g = optim.Adam(D.parameters(), lr=1e-3)  # !
bce = nn.BCEWithLogitsLoss()
for _ in range(6):
    real = torch.randn(16, 2) * 0.5 + 1
    fake = G(torch.randn(16, 4))
    loss_d = bce(D(real), torch.ones(16, 1)) + bce(D(fake.detach()), torch.zeros(16, 1))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = bce(D(fake), torch.ones(16, 1))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
        (("opt_g = optim.Adam(D.parameters()", "opt_g = optim.Adam(G.parameters()"),),
    ),
    Mistake(
        "teacher with dropout",
        "frozen-dropout",
        "teacher",
        """\
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
for p in teacher.parameters():
    p.requires_grad_(False)
student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
opt = optim.Adam(student.parameters(), lr=1e-2)
for _ in range(6):
    x = torch.randn(24, 8)
    target = teacher(x).softmax(1)  # !
    loss = F.cross_entropy(student(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("student = nn.Sequential", "teacher.eval(); student = nn.Sequential"),),
    ),
    Mistake(
        "missing values in the table",
        "nan",
        "x",
        """\
rows = np.random.RandomState(0).randn(48, 4).astype(np.float32)
rows[5, 2] = rows[17, 0] = np.nan
x = torch.from_numpy(rows)  # !
y = torch.randn(48, 1)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(2):
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True):
        opt.zero_grad()
        pred = net(xb)
        loss = F.mse_loss(pred, yb)
        loss.backward()
        opt.step()
""",
        (("x = torch.from_numpy(rows)", "x = torch.from_numpy(np.nan_to_num(rows))"),),
    ),
]
