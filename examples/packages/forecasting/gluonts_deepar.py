"""GluonTS: DeepAR learns a distribution of seasonal series and draws paths of the future."""

# requires: gluonts==0.17.0 lightning==2.6.6

import numpy as np
import pandas as pd
import torch
from gluonts.dataset.common import ListDataset
from gluonts.torch import DeepAREstimator, SimpleFeedForwardEstimator

torch.manual_seed(0)
np.random.seed(0)  # noqa: NPY002 - the package draws from it
data = ListDataset(
    [{"start": pd.Period("2020-01-01", "D"), "target": np.sin(np.arange(90) / 4 + i) + 2} for i in range(4)], freq="D"
)
quiet = {
    "max_epochs": 2,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "logger": False,
    "accelerator": "cpu",
}
for name, estimator in {
    "DeepAR": DeepAREstimator(
        freq="D",
        prediction_length=5,
        context_length=10,
        num_layers=1,
        hidden_size=8,
        num_batches_per_epoch=5,
        batch_size=8,
        trainer_kwargs=quiet,
    ),
    "MLP": SimpleFeedForwardEstimator(
        prediction_length=5,
        context_length=10,
        hidden_dimensions=[8],
        num_batches_per_epoch=5,
        batch_size=8,
        trainer_kwargs=quiet,
    ),
}.items():
    torch.manual_seed(0)
    predictor = estimator.train(data)
    forecast = next(iter(predictor.predict(data)))
    print(name, *(f"{v:.2f}" for v in forecast.mean))
