"""pytorch-forecasting: a temporal fusion transformer with quantile loss on a table of series."""

# requires: pytorch-forecasting==1.8.0

import lightning.pytorch as pl
import numpy as np
import pandas as pd
from pytorch_forecasting import QuantileLoss, TemporalFusionTransformer, TimeSeriesDataSet

pl.seed_everything(0)
frame = pd.DataFrame(
    [{"t": t, "group": str(g), "value": float(np.sin(t / 3 + g) + g)} for g in range(3) for t in range(40)]
)
data = TimeSeriesDataSet(
    frame, time_idx="t", target="value", group_ids=["group"], max_encoder_length=10, max_prediction_length=4,
    static_categoricals=["group"], time_varying_known_reals=["t"], time_varying_unknown_reals=["value"],
)  # fmt: skip
loader = data.to_dataloader(train=True, batch_size=16, num_workers=0)
model = TemporalFusionTransformer.from_dataset(
    data, hidden_size=8, attention_head_size=2, loss=QuantileLoss(), learning_rate=0.01, dropout=0.0
)
trainer = pl.Trainer(
    max_epochs=2,
    logger=False,
    enable_progress_bar=False,
    enable_checkpointing=False,
    enable_model_summary=False,
    accelerator="cpu",
    gradient_clip_val=0.1,
)
trainer.fit(model, loader)
print(f"{trainer.callback_metrics['train_loss_epoch'].item():.4f}")
print(*(f"{v:.3f}" for v in model.predict(data.to_dataloader(train=False, batch_size=8, num_workers=0))[0]))
