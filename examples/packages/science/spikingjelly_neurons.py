"""spikingjelly: a spiking network with leaky neurons, surrogate gradients and several steps of time."""

# requires: spikingjelly==2.0.0
import torch
from spikingjelly.activation_based import encoding, functional, layer, neuron, surrogate
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    layer.Conv2d(1, 4, 3, padding=1), layer.BatchNorm2d(4), neuron.IFNode(surrogate_function=surrogate.ATan()),
    layer.MaxPool2d(2), layer.Flatten(), layer.Linear(64, 10),
    neuron.LIFNode(tau=2.0, surrogate_function=surrogate.Sigmoid()),
)  # fmt: skip
functional.set_step_mode(net, "m")
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
encoder = encoding.PoissonEncoder()
images, labels = torch.rand(8, 1, 8, 8), torch.randint(0, 10, (8,))
for _ in range(4):
    spikes = torch.stack([encoder(images) for _ in range(4)])
    rate = net(spikes).mean(0)
    loss = nn.functional.mse_loss(rate, nn.functional.one_hot(labels, 10).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    functional.reset_net(net)
    print(f"{loss.item():.4f} {rate.sum().item():.2f} {spikes.mean().item():.4f}")
