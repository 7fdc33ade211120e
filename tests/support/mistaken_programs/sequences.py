"""Mistakes about sequences: padding, masks, positions, and tokens that a model sees too early."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

TOKENS = """\
torch.manual_seed(1)
ids = torch.randint(1, 20, (16, 10))
lengths = torch.randint(2, 7, (16,))
ids = ids * (torch.arange(10)[None, :] < lengths[:, None]).long()
"""

SEQUENCE_MISTAKES = [
    Mistake(
        "padding counted in the loss",
        "padding-in-loss",
        "target",
        TOKENS
        + """\
emb = nn.Embedding(20, 8, padding_idx=0)
rnn = nn.GRU(8, 16, batch_first=True)
head = nn.Linear(16, 20)
opt = optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=0.01)
inputs, targets = ids[:, :-1], ids[:, 1:]
for _ in range(6):
    h, _state = rnn(emb(inputs))
    logits = head(h)
    loss = F.cross_entropy(logits.reshape(-1, 20), targets.reshape(-1))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("targets.reshape(-1))", "targets.reshape(-1), ignore_index=0)"),),
    ),
    Mistake(
        "encoder without a key padding mask",
        "missing-padding-mask",
        "encoder",
        TOKENS
        + """\
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)
    def forward(self, ids):
        h = self.encoder(self.emb(ids))  # !
        keep = (ids != 0).float()[..., None]
        return self.head((h * keep).sum(1) / keep.sum(1))
model = Tagger()
y = ids[:, 0] % 3
opt = optim.Adam(model.parameters(), lr=0.01)
for _ in range(5):
    opt.zero_grad()
    F.cross_entropy(model(ids), y).backward()
    opt.step()
""",
        (("self.emb(ids))  # !", "self.emb(ids), src_key_padding_mask=ids == 0)"),),
    ),
    Mistake(
        "padding_idx of a real category",
        "padding-is-class",
        "emb",
        """\
weekday = torch.arange(70) % 7
x = torch.randn(70, 3)
t = x.sum(1) + (weekday == 0).float()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 4, padding_idx=0)  # !
        self.out = nn.Linear(7, 1)
    def forward(self, day, x):
        return self.out(torch.cat([self.emb(day), x], 1)).squeeze(1)
net = Net()
opt = optim.Adam(net.parameters(), lr=0.01)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(weekday, x), t).backward()
    opt.step()
""",
        ((", padding_idx=0", ""),),
    ),
    Mistake(
        "attention softmax over the batch",
        "softmax-dimension",
        "softmax",
        """\
class Attend(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-2, -1) / 8 ** 0.5
        weights = F.softmax(scores, dim=0)  # !
        return weights @ v
model = nn.Sequential(Attend(), nn.Flatten(), nn.Linear(40, 2))
opt = optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(12, 5, 8)
y = (x[:, 0, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
""",
        (("dim=0", "dim=-1"),),
    ),
    Mistake(
        "attention softmax over queries",
        "softmax-dimension",
        "softmax",
        """\
d = 8
wq, wk, wv, head = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 3)
opt = optim.Adam([p for m in (wq, wk, wv, head) for p in m.parameters()], lr=0.01)
x = torch.randn(12, 6, d)
y = torch.randint(0, 3, (12, 6))
for _ in range(6):
    opt.zero_grad()
    attn = torch.softmax(wq(x) @ wk(x).transpose(1, 2) / d ** 0.5, dim=1)  # !
    logits = head(attn @ wv(x))
    loss = F.cross_entropy(logits.transpose(1, 2), y)
    loss.backward()
    opt.step()
""",
        (("dim=1)  # !", "dim=2)"),),
    ),
    Mistake(
        "positions by the batch's index",
        "position-by-batch",
        "pe",
        """\
import math
class Positions(nn.Module):
    def __init__(self, d, n=50):
        super().__init__()
        pe = torch.zeros(n, 1, d)
        pos = torch.arange(n).float()[:, None]
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe[:, 0, 0::2] = torch.sin(pos * div)
        pe[:, 0, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)
    def forward(self, x):
        return x + self.pe[:x.size(0)]  # !
emb, positions = nn.Embedding(30, 8), Positions(8)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
head = nn.Linear(8, 2)
opt = optim.Adam([*emb.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
ids = torch.randint(0, 30, (12, 7))
y = (ids[:, 0] > 15).long()
for _ in range(5):
    logits = head(layer(positions(emb(ids))).mean(1))
    loss = F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("self.pe[:x.size(0)]", "self.pe[:x.size(1), 0]"),),
    ),
    Mistake(
        "language model sees what it predicts",
        "future-visible",
        "encoder",
        """\
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.pos = nn.Parameter(torch.randn(9, 8) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 20)
    def forward(self, ids):
        h = self.encoder(self.emb(ids) + self.pos[:ids.size(1)])  # !
        return self.head(h)
text = torch.randint(0, 20, (16, 10))
lm = LM()
opt = optim.Adam(lm.parameters(), lr=0.01)
for _ in range(5):
    logits = lm(text[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "self.pos[:ids.size(1)])  # !",
                (
                    "self.pos[:ids.size(1)], is_causal=True,"
                    " src_mask=nn.Transformer.generate_square_subsequent_mask(ids.size(1)))"
                ),
            ),
        ),
    ),
    Mistake(
        "targets not shifted",
        "targets-not-shifted",
        "target",
        """\
torch.manual_seed(3)
text = torch.randint(0, 20, (16, 10))
emb, rnn, head = nn.Embedding(20, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 20)
opt = optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=0.01)
for _ in range(5):
    h, _state = rnn(emb(text[:, :-1]))
    loss = F.cross_entropy(head(h).reshape(-1, 20), text[:, :-1].reshape(-1))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("text[:, :-1].reshape(-1))", "text[:, 1:].reshape(-1))"),),
    ),
    Mistake(
        "a mask of ones and zeros is added",
        "mask-added",
        "mask",
        """\
attn = nn.MultiheadAttention(8, 2, batch_first=True)
head = nn.Linear(8, 5)
opt = optim.Adam([*attn.parameters(), *head.parameters()], lr=0.01)
x = torch.randn(8, 6, 8)
y = torch.randint(0, 5, (8, 6))
mask = torch.tril(torch.ones(6, 6))
for _ in range(5):
    out, _w = attn(x, x, x, attn_mask=mask, need_weights=False)  # !
    loss = F.cross_entropy(head(out).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("torch.tril(torch.ones(6, 6))", "torch.tril(torch.ones(6, 6)) == 0"),),
    ),
    Mistake(
        "mask after the softmax",
        "mask-after-softmax",
        "masked_fill",
        """\
d = 8
wq, wk, wv, head = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 3)
opt = optim.Adam([p for m in (wq, wk, wv, head) for p in m.parameters()], lr=0.001)
x = torch.randn(12, 6, d)
y = torch.randint(0, 3, (12, 6))
causal = torch.triu(torch.ones(6, 6), 1).bool()
for _ in range(6):
    opt.zero_grad()
    attn = torch.softmax(wq(x) @ wk(x).transpose(1, 2) / d ** 0.5, dim=-1)
    attn = attn.masked_fill(causal, -1e9)  # !
    loss = F.cross_entropy(head(attn @ wv(x)).transpose(1, 2), y)
    loss.backward()
    opt.step()
""",
        (
            (
                (
                    "    attn = torch.softmax(wq(x) @ wk(x).transpose(1, 2) / d ** 0.5, dim=-1)\n"
                    "    attn = attn.masked_fill(causal, -1e9)  # !"
                ),
                (
                    "    attn = wq(x) @ wk(x).transpose(1, 2) / d ** 0.5\n"
                    "    attn = torch.softmax(attn.masked_fill(causal, -1e9), dim=-1)"
                ),
            ),
        ),
    ),
    Mistake(
        "padding of zeros learned by a tagger",
        "padding-in-loss",
        "target",
        """\
torch.manual_seed(7)
lengths = torch.randint(3, 9, (24,))
words = torch.randint(1, 30, (24, 8)) * (torch.arange(8) < lengths[:, None]).long()
class LM(nn.Module):
    def __init__(self, vocab=30):
        super().__init__()
        self.emb = nn.Embedding(vocab, 8)
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.out = nn.Linear(16, vocab)
    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])
lm = LM()
criterion = nn.CrossEntropyLoss()  # !
opt = optim.Adam(lm.parameters(), lr=0.01)
for _ in range(5):
    logits = lm(words[:, :-1])
    loss = criterion(logits.permute(0, 2, 1), words[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(ignore_index=0)"),),
    ),
]
