"""Loads that read sequences: words, sounds, series."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .recipe import Recipe, draw_batches, load


@load("tagger", "bidirectional GRU over packed sequences, a label for each word", words=20, width=4, longest=5, batch=3)
def tagger(words: int = 5000, width: int = 64, longest: int = 30, batch: int = 32) -> Recipe:
    """Sequences of several lengths, the longest first."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        lengths = library.linspace(longest, max(longest // 3, 1), batch).long()
        embed = nn.Embedding(words, width, padding_idx=0)
        encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        head = nn.Linear(2 * width, 12)
        model = nn.ModuleList([embed, encoder, head])

        def loss(x: Any, y: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(embed(x), lengths, batch_first=True)
            outputs, _ = nn.utils.rnn.pad_packed_sequence(encoder(packed)[0], batch_first=True)
            return nn.functional.cross_entropy(head(outputs).flatten(0, 1), y.flatten(), ignore_index=0)

        return model, loss

    batches = draw_batches(lambda n: (n.integers(1, words, (batch, longest)), n.integers(0, 12, (batch, longest))))
    return Recipe(batches, build)


@load("translator", "LSTM encoder, LSTM cells with attention as decoder", words=12, width=4, steps=3, batch=2)
def translator(words: int = 2000, width: int = 96, steps: int = 16, batch: int = 16) -> Recipe:
    """After Bahdanau, Cho and Bengio, 2015, with the true words given to the decoder."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        embed, encoder = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True)
        cell, key, head = nn.LSTMCell(2 * width, width), nn.Linear(width, width), nn.Linear(2 * width, words)
        model = nn.ModuleList([embed, encoder, cell, key, head])

        def loss(source: Any, target: Any) -> Any:
            memory, (h, c) = encoder(embed(source))
            keys, h, c = key(memory), h[0], c[0]
            context, logits = library.zeros_like(h), []
            for word in embed(target[:, :-1]).unbind(1):
                h, c = cell(library.cat([word, context], 1), (h, c))
                weights = library.softmax((keys @ h.unsqueeze(2)).squeeze(2), 1)
                context = (weights.unsqueeze(1) @ memory).squeeze(1)
                logits.append(head(library.cat([h, context], 1)))
            return nn.functional.cross_entropy(library.stack(logits, 1).flatten(0, 1), target[:, 1:].flatten())

        return model, loss

    batches = draw_batches(lambda n: (n.integers(0, words, (batch, steps)), n.integers(0, words, (batch, steps + 1))))
    return Recipe(batches, build, max_norm=1.0)


@load("encoder-decoder", "nn.Transformer, source and target, causal mask", words=12, width=8, steps=4, batch=2)
def encoder_decoder(words: int = 1000, width: int = 96, steps: int = 24, batch: int = 12) -> Recipe:
    """Two layers each, label smoothing."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        embed = nn.Embedding(words, width)
        body = nn.Transformer(width, 4, 2, 2, 4 * width, dropout=0.0, batch_first=True)
        head = nn.Linear(width, words)
        model = nn.ModuleList([embed, body, head])
        mask = nn.Transformer.generate_square_subsequent_mask(steps)

        def loss(source: Any, target: Any) -> Any:
            out = head(body(embed(source), embed(target[:, :-1]), tgt_mask=mask))
            return nn.functional.cross_entropy(out.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)

        return model, loss

    batches = draw_batches(lambda n: (n.integers(0, words, (batch, steps)), n.integers(0, words, (batch, steps + 1))))
    return Recipe(batches, build, "AdamW", {"lr": 3e-4}, max_norm=1.0)


@load("sound", "1-d convolutions with strides, gated, and back by transposed ones", width=4, samples=64, batch=2)
def sound(width: int = 24, samples: int = 2048, batch: int = 8) -> Recipe:
    """Takes the noise out of a sound, after Défossez and others, 2019, without the recurrent part."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        sizes = (1, width, 2 * width, 4 * width)  # channels; every stride is 4, every padding 2
        down = nn.ModuleList([
            nn.Sequential(nn.Conv1d(a, b, 8, stride=4, padding=2), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1))
            for a, b in pairwise(sizes)
        ])  # fmt: skip
        up = nn.ModuleList([
            nn.Sequential(nn.Conv1d(b, 2 * b, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(b, a, 8, 4, 2))
            for a, b in pairwise(sizes)
        ])  # fmt: skip
        model = nn.ModuleList([down, up])

        def loss(noisy: Any, clean: Any) -> Any:
            x, kept = noisy, []
            for layer in down:
                x = layer(x)
                kept.append(x)
            for i in reversed(range(len(up))):
                x = up[i](x + kept[i])
                x = library.relu(x) if i else x
            return nn.functional.l1_loss(x, clean)

        return model, loss

    def draw(n: Any) -> tuple[Any, Any]:
        clean = n.normal(size=(batch, 1, samples)).cumsum(-1) / 20
        return clean + 0.1 * n.normal(size=clean.shape), clean

    return Recipe(draw_batches(draw), build)


@load("decoding", "tokens one at a time, keys and values in a cache of full length", width=8, tokens=4)
def decoding(width: int = 128, tokens: int = 48) -> Recipe:
    """Greedy decoding of two layers, without gradients; each token reads all that came before."""
    heads, depth, words = 4, 2, 256

    def step_of(library: Any) -> Any:
        nn = library.nn
        library.manual_seed(0)
        embed, head = nn.Embedding(words, width), nn.Linear(width, words)
        norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * depth + 1)])
        projections = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(depth)])
        outputs = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        feeds = nn.ModuleList([
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        ])  # fmt: skip

        def step(first: Any) -> Any:
            with library.no_grad():
                keys = [library.zeros(1, heads, tokens, width // heads) for _ in range(depth)]
                values = [library.zeros(1, heads, tokens, width // heads) for _ in range(depth)]
                token, chosen = first, []
                for t in range(tokens):
                    x = embed(token)
                    for i in range(depth):
                        q, k, v = projections[i](norms[2 * i](x)).view(1, 1, 3, heads, -1).unbind(2)
                        keys[i][:, :, t : t + 1] = k.transpose(1, 2)
                        values[i][:, :, t : t + 1] = v.transpose(1, 2)
                        past = keys[i][:, :, : t + 1], values[i][:, :, : t + 1]
                        mixed = nn.functional.scaled_dot_product_attention(q.transpose(1, 2), *past)
                        x = x + outputs[i](mixed.transpose(1, 2).reshape(1, 1, width))
                        x = x + feeds[i](norms[2 * i + 1](x))
                    token = head(norms[-1](x)).argmax(-1)
                    chosen.append(token)
                return library.cat(chosen, 1).float()

        return step

    return Recipe(draw_batches(lambda n: (n.integers(0, words, (1, 1)),)), step=step_of)
