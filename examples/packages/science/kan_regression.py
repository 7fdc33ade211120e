"""pykan: a Kolmogorov-Arnold network fits a function of two variables by L-BFGS and Adam, and is pruned."""

# requires: pykan==0.2.8 pandas==2.3.3 matplotlib==3.11.2 scikit-learn==1.9.1 pyyaml==6.0.4 sympy==1.14.0
import tempfile

import torch
from kan import KAN, create_dataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
data = create_dataset(
    lambda x: torch.exp(torch.sin(torch.pi * x[:, [0]]) + x[:, [1]] ** 2), n_var=2, train_num=100, test_num=50
)
model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False)
model.ckpt_path = tempfile.mkdtemp()
open(f"{model.ckpt_path}/history.txt", "w").close()
history = model.fit(data, opt="LBFGS", steps=3, lamb=0.001)
print("LBFGS", *(f"{v:.4f}" for v in history["train_loss"]), *(f"{v:.4f}" for v in history["test_loss"]))
model = model.refine(5)
history = model.fit(data, opt="Adam", lr=0.01, steps=3)
print("Adam", *(f"{v:.4f}" for v in history["train_loss"]))
model(data["train_input"])
model.attribute()
print("scores", *(f"{v:.3f}" for v in model.feature_score.detach().flatten()))
