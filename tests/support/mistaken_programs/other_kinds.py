"""Mistakes of other kinds: masks the wrong way round, layers in a row, clipping of scaled gradients."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

OTHER_MISTAKES = [
    Mistake(
        "labels of zero for a margin",
        "target-out-of-range",
        "soft_margin",
        """\
m = nn.Linear(4, 1)
o = optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = (x.sum(1) > 0).float()
for _ in range(6):
    o.zero_grad()
    loss = F.soft_margin_loss(m(x).squeeze(1), y)  # !
    loss.backward()
    o.step()
""",
        (("y = (x.sum(1) > 0).float()", "y = (x.sum(1) > 0).float() * 2 - 1"),),
    ),
    Mistake(
        "a language model that reads both ways",
        "future-visible",
        "rnn",
        """\
emb, rnn, head = (nn.Embedding(15, 8), nn.LSTM(8, 8, batch_first=True, bidirectional=True), nn.Linear(16, 15))
o = optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=0.01)
d = torch.randint(0, 15, (12, 9))
for _ in range(5):
    h, _s = rnn(emb(d[:, :-1]))  # !
    loss = F.cross_entropy(head(h).reshape(-1, 15), d[:, 1:].reshape(-1))
    o.zero_grad()
    loss.backward()
    o.step()
""",
        (
            (
                "nn.LSTM(8, 8, batch_first=True, bidirectional=True), nn.Linear(16, 15))",
                "nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 15))",
            ),
        ),
    ),
    Mistake(
        "the mask of keys leaves out the tokens",
        "mask-inverted",
        "attn",
        """\
ids = torch.randint(1, 12, (10, 8)) * (torch.arange(8) < torch.randint(3, 8, (10, 1))).long()
emb = nn.Embedding(12, 8, padding_idx=0)
attn = nn.MultiheadAttention(8, 2, batch_first=True)
head = nn.Linear(8, 2)
o = optim.Adam([*emb.parameters(), *attn.parameters(), *head.parameters()], lr=0.01)
y = ids[:, 0] % 2
for _ in range(5):
    e = emb(ids)
    h, _w = attn(e, e, e, key_padding_mask=ids != 0)  # !
    loss = F.cross_entropy(head(h.mean(1)), y)
    o.zero_grad()
    loss.backward()
    o.step()
""",
        (
            (
                "    h, _w = attn(e, e, e, key_padding_mask=ids != 0)  # !",
                "    h, _w = attn(e, e, e, key_padding_mask=ids == 0)",
            ),
        ),
    ),
    Mistake(
        "two linear layers in a row",
        "no-activation",
        "net.1",
        """\
net = nn.Sequential(nn.Linear(6, 32), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))  # !
o = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    o.zero_grad()
    F.cross_entropy(net(x), y).backward()
    o.step()
""",
        (
            (
                "net = nn.Sequential(nn.Linear(6, 32), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))  # !",
                "net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))",
            ),
        ),
    ),
    Mistake(
        "a clip value that stops learning",
        "clipping-too-small",
        "clip_grad",
        """\
m = nn.Linear(4, 1)
o = optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(40, 4)
t = x.sum(1, keepdim=True)
for _ in range(8):
    o.zero_grad()
    F.mse_loss(m(x), t).backward()
    nn.utils.clip_grad_value_(m.parameters(), 1e-07)  # !
    o.step()
""",
        (
            (
                "    nn.utils.clip_grad_value_(m.parameters(), 1e-07)  # !",
                "    nn.utils.clip_grad_value_(m.parameters(), 1.0)",
            ),
        ),
    ),
    Mistake(
        "clipping of scaled gradients",
        "clipping-before-unscale",
        "clip_grad_norm_",
        """\
m = nn.Linear(4, 1)
o = optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(40, 4)
t = x.sum(1, keepdim=True)
sc = torch.amp.GradScaler('cpu')
for _ in range(6):
    o.zero_grad()
    sc.scale(F.mse_loss(m(x), t)).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)  # !
    sc.step(o)
    sc.update()
""",
        (
            (
                "    nn.utils.clip_grad_norm_(m.parameters(), 1.0)  # !",
                "    sc.unscale_(o)\n    nn.utils.clip_grad_norm_(m.parameters(), 1.0)  # !",
            ),
        ),
    ),
]
