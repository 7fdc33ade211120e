"""accelerate: a training loop with gradient accumulation, clipping, a schedule, gathered metrics and saved state."""

# requires: accelerate==1.15.0
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
x = torch.randn(128, 5)
y = x.sum(1, keepdim=True).sin()
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=32)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in range(4):
    total = 0.0
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += accelerator.gather_for_metrics(loss.detach()).mean().item()
    rate = schedule.get_last_lr()[0]
    print(f"epoch {epoch + 1}: loss {total / len(loader):.5f} norm {norm.item():.5f} rate {rate:.6f}")

with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = accelerator.unwrap_model(model)[0].weight.sum().item()
    nn.init.zeros_(accelerator.unwrap_model(model)[0].weight)
    accelerator.load_state(folder)
    after = accelerator.unwrap_model(model)[0].weight.sum().item()
    print(f"weights {before:.5f} loaded {after:.5f}")
