"""Mistakes with sequences: steps that are padding, states, the order of time and batch."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

RECURRENT_MISTAKES = [
    Mistake(
        "tokens that predict themselves",
        "targets-not-shifted",
        "target",
        """\
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 20)
    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])
model = LM()
opt = optim.Adam(model.parameters(), lr=1e-2)
ids = torch.randint(0, 20, (16, 12))
for _ in range(6):
    opt.zero_grad()
    logits = model(ids)
    loss = F.cross_entropy(logits.reshape(-1, 20), ids.reshape(-1))  # !
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.cross_entropy(logits.reshape(-1, 20), ids.reshape(-1))  # !",
                "    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 20), ids[:, 1:].reshape(-1))",
            ),
        ),
    ),
    Mistake(
        "the last sequence for the last step",
        "last-of-wrong-dimension",
        "net.lstm",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 12, batch_first=True)
        self.fc = nn.Linear(12, 2)
    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[-1])  # !
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(16, 16, 3)
y = (x[:, -1, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("        return self.fc(out[-1])  # !", "        return self.fc(out[:, -1])"),),
    ),
    Mistake(
        "the output at a padded step",
        "padded-last-step",
        "net.gru",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 8, padding_idx=0)
        self.gru = nn.GRU(8, 12, batch_first=True)
        self.fc = nn.Linear(12, 2)
    def forward(self, ids, lengths):
        out, _ = self.gru(self.emb(ids))
        return self.fc(out[:, -1])  # !
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
lengths = torch.randint(3, 12, (24,))
ids = torch.randint(1, 30, (24, 12)) * (torch.arange(12) < lengths[:, None]).long()
y = ids[:, 0] % 2
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(ids, lengths), y)
    loss.backward()
    opt.step()
""",
        (
            (
                "        return self.fc(out[:, -1])  # !",
                "        return self.fc(out[torch.arange(len(ids)), lengths - 1])",
            ),
        ),
    ),
    Mistake(
        "directions viewed as features",
        "view-in-place-of-transpose",
        "view",
        """\
lstm = nn.LSTM(5, 8, bidirectional=True, batch_first=True)
fc = nn.Linear(16, 3)
opt = optim.Adam([*lstm.parameters(), *fc.parameters()], lr=1e-2)
x = torch.randn(20, 7, 5)
y = torch.randint(0, 3, (20,))
for _ in range(6):
    _, (h, c) = lstm(x)
    features = h.view(20, -1)  # !
    loss = F.cross_entropy(fc(features), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    features = h.view(20, -1)  # !", "    features = h.transpose(0, 1).reshape(20, -1)"),),
    ),
    Mistake(
        "the mean over padded steps",
        "padding-in-mean",
        "mean",
        """\
emb = nn.Embedding(30, 8, padding_idx=0)
fc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam([*emb.parameters(), *fc.parameters()], lr=1e-2)
lengths = torch.randint(3, 12, (24,))
ids = torch.randint(1, 30, (24, 12)) * (torch.arange(12) < lengths[:, None]).long()
y = ids[:, 0] % 2
for _ in range(6):
    e = emb(ids)
    pooled = e.mean(dim=1)  # !
    loss = F.cross_entropy(fc(pooled), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    pooled = e.mean(dim=1)  # !", "    pooled = e.sum(dim=1) / lengths[:, None]"),),
    ),
    Mistake(
        "time-major logits against batch-major labels",
        "order-differs",
        "target",
        """\
emb, gru, head = nn.Embedding(20, 16), nn.GRU(16, 16), nn.Linear(16, 20)
opt = optim.Adam([*emb.parameters(), *gru.parameters(), *head.parameters()], lr=1e-2)
ids = torch.randint(0, 20, (16, 13))
for _ in range(6):
    h, _ = gru(emb(ids[:, :-1].T))
    logits = head(h)
    loss = F.cross_entropy(logits.reshape(-1, 20), ids[:, 1:].reshape(-1))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.cross_entropy(logits.reshape(-1, 20), ids[:, 1:].reshape(-1))  # !",
                "    loss = F.cross_entropy(logits.reshape(-1, 20), ids[:, 1:].T.reshape(-1))",
            ),
        ),
    ),
    Mistake(
        "positions that are never added",
        "result-unused",
        "x",
        """\
class LM(nn.Module):
    def __init__(self, v=20, d=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(v, d), nn.Embedding(32, d)
        self.block = nn.TransformerEncoderLayer(d, 4, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(d, v)
    def forward(self, ids):
        x = self.tok(ids)
        x + self.pos(torch.arange(ids.shape[1]))  # !
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.block(x, src_mask=mask))
lm = LM()
opt = optim.Adam(lm.parameters(), lr=1e-3)
ids = torch.randint(0, 20, (8, 13))
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(lm(ids[:, :-1]).reshape(-1, 20), ids[:, 1:].reshape(-1))
    loss.backward()
    opt.step()
""",
        (
            (
                "        x + self.pos(torch.arange(ids.shape[1]))  # !",
                "        x = x + self.pos(torch.arange(ids.shape[1]))",
            ),
        ),
    ),
    Mistake(
        "the last step of a bidirectional layer",
        "one-direction",
        "net.rnn",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 10, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(20, 3)
    def forward(self, x):
        out, (h, c) = self.rnn(x)
        return self.fc(out[:, -1, :])  # !
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(24, 9, 4)
y = (x[:, 0, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("        return self.fc(out[:, -1, :])  # !", "        return self.fc(torch.cat([h[-2], h[-1]], dim=1))"),),
    ),
    Mistake(
        "the initial state is random in each pass",
        "random-state",
        "net.gru",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(4, 10, batch_first=True), nn.Linear(10, 2)
    def forward(self, x):
        h0 = torch.randn(1, len(x), 10)  # !
        out, _ = self.gru(x, h0)
        return self.fc(out[:, -1])
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(24, 9, 4)
y = (x[:, -1, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (
            (
                """\
        h0 = torch.randn(1, len(x), 10)  # !
        out, _ = self.gru(x, h0)""",
                """\
        h0 = torch.zeros(1, len(x), 10)
        out, _ = self.gru(x, h0)""",
            ),
        ),
    ),
    Mistake(
        "the whole divided by all steps",
        "masked-mean",
        "mask",
        """\
emb = nn.Embedding(20, 16, padding_idx=0)
gru, head = nn.GRU(16, 16, batch_first=True), nn.Linear(16, 20)
opt = optim.Adam([*emb.parameters(), *gru.parameters(), *head.parameters()], lr=1e-2)
lengths = torch.randint(3, 12, (16,))
ids = torch.randint(1, 20, (16, 13)) * (torch.arange(13) < lengths[:, None]).long()
for _ in range(6):
    h, _ = gru(emb(ids[:, :-1]))
    target = ids[:, 1:]
    mask = (target != 0).float()
    losses = F.cross_entropy(head(h).reshape(-1, 20), target.reshape(-1), reduction="none").reshape(target.shape)
    loss = (losses * mask).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = (losses * mask).mean()  # !", "    loss = (losses * mask).sum() / mask.sum()"),),
    ),
    Mistake(
        "the window holds the value to predict",
        "target-in-input",
        "net",
        """\
series = torch.sin(torch.arange(200.0) / 7) + 0.1 * torch.randn(200)
windows = series.unfold(0, 11, 1)
x, y = windows, windows[:, -1:]
net = nn.Sequential(nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
for _ in range(8):
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)  # !
    loss.backward()
    opt.step()
""",
        (
            (
                """\
windows = series.unfold(0, 11, 1)
x, y = windows, windows[:, -1:]""",
                """\
windows = series.unfold(0, 11, 1)
x, y = windows[:, :-1], windows[:, -1:]""",
            ),
        ),
    ),
    Mistake(
        "decoder that gets its targets",
        "targets-not-shifted",
        "target",
        """\
emb, gru, head = nn.Embedding(20, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 20)
opt = optim.Adam([*emb.parameters(), *gru.parameters(), *head.parameters()], lr=1e-2)
tgt = torch.randint(0, 20, (16, 12))
for _ in range(6):
    h, _ = gru(emb(tgt[:, 1:]))
    loss = F.cross_entropy(head(h).transpose(1, 2), tgt[:, 1:])  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                """\
    h, _ = gru(emb(tgt[:, 1:]))
    loss = F.cross_entropy(head(h).transpose(1, 2), tgt[:, 1:])  # !""",
                """\
    h, _ = gru(emb(tgt[:, :-1]))
    loss = F.cross_entropy(head(h).transpose(1, 2), tgt[:, 1:])""",
            ),
        ),
    ),
]
