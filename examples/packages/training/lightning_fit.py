"""Lightning's `Trainer`: a module with logging, a scheduler, gradient clipping, early stopping and a checkpoint."""

# requires: lightning==2.6.6
import logging
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(0, verbose=False)


class Regression(L.LightningModule):
    """A network of two layers for a noisy function of eight numbers."""

    def __init__(self, width=32):
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(width, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.network(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.network(x), y))

    def on_validation_epoch_end(self):
        metrics = {name: value.item() for name, value in self.trainer.callback_metrics.items()}
        print(" ".join(f"{name} {metrics[name]:.4f}" for name in sorted(metrics)))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]


x = torch.randn(256, 8)
y = x[:, :1] * x[:, 1:2] + torch.sin(x[:, 2:3]) + 0.1 * torch.randn(256, 1)
train, validation = random_split(TensorDataset(x, y), [192, 64])
best = ModelCheckpoint("checkpoints", monitor="val_loss")
trainer = L.Trainer(
    max_epochs=5,
    accelerator="cpu",
    gradient_clip_val=1.0,
    accumulate_grad_batches=2,
    callbacks=[EarlyStopping("val_loss", patience=3), best],
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), DataLoader(train, 16, shuffle=True), DataLoader(validation, 64))
loaded = Regression.load_from_checkpoint(best.best_model_path)
print(f"best {best.best_model_score.item():.4f} epochs {trainer.current_epoch}")
print(f"weights {sum(p.sum().item() for p in loaded.parameters()):.4f}")
