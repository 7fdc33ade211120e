"""fastai: a Learner with the one-cycle policy, gradient clipping and metrics."""

# requires: fastai==2.8.12
import fastai.callback.schedule  # noqa: F401 - gives Learner its fit_one_cycle
import numpy as np
import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.metrics import accuracy
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
np.random.seed(0)  # noqa: NPY002 - the package draws from it
x = torch.randn(256, 8)
y = (x[:, 0] + x[:, 1] > 0).long()

loaders = DataLoaders(
    DataLoader(TensorDataset(x[:192], y[:192]), bs=32, shuffle=False, num_workers=0),
    DataLoader(TensorDataset(x[192:], y[192:]), bs=32, num_workers=0),
)
learner = Learner(
    loaders, nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), nn.CrossEntropyLoss(), metrics=accuracy
)
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(3, 1e-2)
    for row in learner.recorder.values:
        print(*(f"{v:.4f}" for v in row))
    learner.fit(1, 1e-3, cbs=GradientClip(0.1))
    print(*(f"{v:.4f}" for v in learner.validate()))
