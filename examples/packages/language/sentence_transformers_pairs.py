"""sentence-transformers: an encoder made from scratch learns pairs of sentences, and finds the nearest."""

# requires: sentence-transformers==6.2.0 transformers==5.24.0
import pathlib

import torch
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

torch.manual_seed(0)
words = [
    *("the", "a", "on", "under", "cat", "kitten", "dog", "puppy", "bird", "fish", "mat", "tree", "river"),
    *("sleeps", "naps", "runs", "jogs", "sings", "swims"),
]
folder = pathlib.Path("encoder")
folder.mkdir(exist_ok=True)
(folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
BertModel(BertConfig(vocab_size=len(words) + 5, **size)).save_pretrained(folder)

encoder = Transformer(str(folder))
model = SentenceTransformer(modules=[encoder, Pooling(32, "mean"), Normalize()], device="cpu")
pairs = [
    ("the cat sleeps on the mat", "a kitten naps on a mat"),
    ("the dog runs under the tree", "a puppy jogs under a tree"),
    ("the bird sings", "a bird sings on a tree"),
    ("the fish swims", "a fish swims under the river"),
]
criterion = losses.MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(6):
    batch = [model.tokenize([pair[side] for pair in pairs]) for side in (0, 1)]
    loss = criterion(batch, labels=None)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.4f}")
model.eval()
texts = [text for pair in pairs for text in pair]
found = util.semantic_search(model.encode(["the kitten sleeps"]), model.encode(texts), top_k=3)[0]
for hit in found:
    print(f"{texts[hit['corpus_id']]}: {hit['score']:.4f}")
