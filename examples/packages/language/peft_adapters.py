"""peft: LoRA, IA³ and prompt tuning of a small Llama; an adapter is merged, saved and loaded."""

# requires: peft==0.21.2 transformers==5.24.0
import tempfile

import torch
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, TaskType, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
tokens = torch.randint(2, 100, (4, 16))


def make_llama():
    """Return a Llama of two layers, always of the same weights."""
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=64,
        )
    )  # fmt: skip


causal = TaskType.CAUSAL_LM
for config in (
    LoraConfig(task_type=causal, r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]),
    LoraConfig(task_type=causal, r=4, use_dora=True, target_modules=["down_proj"]),
    IA3Config(task_type=causal, target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    PromptTuningConfig(task_type=causal, num_virtual_tokens=4),
):
    model = get_peft_model(make_llama(), config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(4):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(type(config).__name__, count, *losses)
    if type(config) is LoraConfig:
        model.eval()
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            model.save_pretrained(folder)
            loaded = PeftModel.from_pretrained(make_llama(), folder).eval()
            models = (model, loaded, loaded.merge_and_unload())
            outputs = [f"{each(input_ids=tokens).logits.std().item():.5f}" for each in models]
        print("adapted, loaded, merged", *outputs)
