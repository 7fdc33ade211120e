"""`generate` after training a small GPT-2 on a sentence: greedy, beam search and sampling."""

# requires: transformers==5.24.0
import torch
from transformers import GPT2Config, GPT2LMHeadModel

text = "the quick brown fox jumps over the lazy dog. " * 8
letters = sorted(set(text))
ids = torch.tensor([[letters.index(letter) for letter in text]])

torch.manual_seed(0)
size = {"vocab_size": len(letters), "n_embd": 64, "n_layer": 2, "n_head": 4}
model = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None, pad_token_id=0, **size))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    loss = model(ids[:, :128], labels=ids[:, :128]).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.4f}")

model.eval()
prompt = ids[:, :9]
for name, options in {
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 4},
    "sampling": {"do_sample": True, "top_k": 5, "temperature": 1.5},
    "nucleus": {"do_sample": True, "top_p": 0.9, "repetition_penalty": 1.2},
}.items():
    torch.manual_seed(1)
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=40, **options)
    print(f"{name}: {''.join(letters[i] for i in made[0, prompt.shape[1] :].tolist())}")
