"""x-transformers: an encoder and decoders with rotary positions, ALiBi and sandwiched norms, three steps each."""

# requires: x-transformers==2.31.10
import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, XTransformer

torch.manual_seed(0)
tokens = torch.randint(0, 50, (4, 24))
size = {"dim": 32, "depth": 2, "heads": 4, "attn_dim_head": 8}
models = {
    "rotary": AutoregressiveWrapper(
        TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Decoder(**size, rotary_pos_emb=True, ff_glu=True))
    ),
    "ALiBi": AutoregressiveWrapper(
        TransformerWrapper(
            num_tokens=50, max_seq_len=32, attn_layers=Decoder(**size, alibi_pos_bias=True, use_rmsnorm=True)
        )
    ),
    "translation": XTransformer(
        dim=32, enc_num_tokens=50, enc_depth=1, enc_heads=4, enc_max_seq_len=32,
        dec_num_tokens=50, dec_depth=1, dec_heads=4, dec_max_seq_len=32,
    ),
}  # fmt: skip
for name, model in models.items():
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(3):
        loss = model(tokens, tokens[:, :12]) if name == "translation" else model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)
torch.manual_seed(1)
print("drawn", *models["rotary"].generate(tokens[:1, :4], 10, temperature=0.8)[0].tolist())
encoder = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Encoder(**size, sandwich_norm=True))
print(f"encoded {encoder(tokens, return_embeddings=True).std().item():.5f}")
