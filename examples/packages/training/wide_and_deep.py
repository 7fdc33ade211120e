"""pytorch-widedeep: a wide and a deep part learn a table with categories, by the package's own trainer."""

# requires apart: pytorch-widedeep==1.5.0
import numpy as np
import pandas as pd
import torch
from pytorch_widedeep import Trainer
from pytorch_widedeep.models import TabMlp, Wide, WideDeep
from pytorch_widedeep.preprocessing import TabPreprocessor, WidePreprocessor

rng = np.random.default_rng(0)
columns = {"kind": rng.choice(list("xyz"), 200), "side": rng.choice(list("pq"), 200)}
table = pd.DataFrame({**columns, "u": rng.normal(size=200), "v": rng.normal(size=200)})
target = ((table.u > 0) ^ (table.kind == "x")).astype(int).to_numpy()
torch.manual_seed(0)
wide_columns = WidePreprocessor(["kind", "side"])
wide = wide_columns.fit_transform(table)
deep_columns = TabPreprocessor(cat_embed_cols=["kind", "side"], continuous_cols=["u", "v"])
deep = deep_columns.fit_transform(table)
part = TabMlp(
    column_idx=deep_columns.column_idx, cat_embed_input=deep_columns.cat_embed_input, continuous_cols=["u", "v"],
    mlp_hidden_dims=[16, 8],
)  # fmt: skip
model = WideDeep(wide=Wide(int(wide.max()), 1), deeptabular=part)
trainer = Trainer(model, objective="binary", verbose=0, seed=1, num_workers=0, device="cpu")
trainer.fit(X_wide=wide, X_tab=deep, target=target, n_epochs=3, batch_size=32)
print(*(f"{value:.4f}" for value in trainer.history["train_loss"]))
