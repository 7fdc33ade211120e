"""`Trainer` on a DistilBERT classifier: warm-up, evaluation after each epoch, prediction."""

# requires: transformers==5.24.0 accelerate==1.15.0
import torch
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
set_seed(0)


class Sequences(torch.utils.data.Dataset):
    """Random sequences; the label tells whether the first token is greater than the last."""

    def __init__(self, count):
        self.tokens = torch.randint(2, 60, (count, 12))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        label = (tokens[0] > tokens[-1]).long()
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": label}


model = DistilBertForSequenceClassification(
    DistilBertConfig(vocab_size=60, max_position_embeddings=16, dim=32, hidden_dim=64, n_layers=2, n_heads=4)
)
arguments = TrainingArguments(
    output_dir="trained",
    num_train_epochs=3,
    per_device_train_batch_size=16,
    learning_rate=2e-3,
    warmup_steps=4,
    weight_decay=0.01,
    logging_steps=8,
    eval_strategy="epoch",
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    log_level="error",
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=Sequences(128),
    eval_dataset=Sequences(64),
    compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
)
trainer.remove_callback(PrinterCallback)
trainer.train()
for entry in trainer.state.log_history:
    for key in ("loss", "grad_norm", "eval_loss", "eval_accuracy"):
        if key in entry:
            print(f"epoch {entry['epoch']:.1f}: {key} {float(entry[key]):.4f}")
