"""BERT, GPT-2, Llama, T5 and ViT from their configurations: three AdamW steps each."""

# requires: transformers==5.24.0
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

torch.manual_seed(0)
tokens = torch.randint(2, 100, (4, 16))
labels = torch.tensor([0, 1, 1, 0])
mask = torch.ones_like(tokens)
mask[1, 12:] = 0
images = torch.randn(4, 3, 32, 32)

size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
models = {
    "BERT": (
        BertForSequenceClassification(BertConfig(vocab_size=100, max_position_embeddings=32, **size)),
        {"input_ids": tokens, "attention_mask": mask, "labels": labels},
    ),
    "GPT-2": (
        GPT2LMHeadModel(
            GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
        ),
        {"input_ids": tokens, "attention_mask": mask, "labels": tokens},
    ),
    "Llama": (
        LlamaForCausalLM(LlamaConfig(vocab_size=100, num_key_value_heads=2, **size)),
        {"input_ids": tokens, "attention_mask": mask, "labels": tokens},
    ),
    "T5": (
        T5ForConditionalGeneration(
            T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        ),
        {"input_ids": tokens, "attention_mask": mask, "labels": tokens[:, :8].contiguous()},
    ),
    "ViT": (
        ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=2, **size)),
        {"pixel_values": images, "labels": labels},
    ),
}
for name, (model, batch) in models.items():
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)
