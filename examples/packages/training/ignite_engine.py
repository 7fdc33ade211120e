"""ignite: an engine with metrics, early stopping, a schedule, averaged weights and handlers of events."""

# requires: pytorch-ignite==0.5.5
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import CosineAnnealingScheduler, EarlyStopping, EMAHandler, TerminateOnNan
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(192, 4)
y = (x[:, 0] * x[:, 1] > 0).long()
train = DataLoader(TensorDataset(x[:128], y[:128]), 16, shuffle=True)
test = DataLoader(TensorDataset(x[128:], y[128:]), 64)
model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, criterion)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
averaged = EMAHandler(model, momentum=0.1)
averaged.attach(trainer)
schedule = CosineAnnealingScheduler(optimizer, "lr", 0.02, 0.005, cycle_size=32)
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
metrics = {"accuracy": Accuracy(), "loss": Loss(criterion), "matrix": ConfusionMatrix(2)}
evaluator = create_supervised_evaluator(model, metrics)
stop = EarlyStopping(2, lambda engine: -engine.state.metrics["loss"], trainer)
evaluator.add_event_handler(Events.COMPLETED, stop)


@trainer.on(Events.EPOCH_COMPLETED)
def report(engine):
    """Evaluate, and print."""
    found = evaluator.run(test).metrics
    print(f"epoch {engine.state.epoch}: running {engine.state.metrics['loss']:.4f}", end=" ")
    print(f"loss {found['loss']:.4f} accuracy {found['accuracy']:.4f} matrix {found['matrix'].tolist()}")


trainer.run(train, max_epochs=5)
weights = sum(p.sum().item() for p in averaged.ema_model.parameters())
print(f"averaged weights {weights:.5f}")
