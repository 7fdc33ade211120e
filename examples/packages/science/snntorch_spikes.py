"""snntorch: a network of leaky spiking neurons is trained by surrogate gradients."""

# requires: snntorch==1.0.0
import snntorch as snn
import torch
from snntorch import functional, spikegen, surrogate

torch.manual_seed(0)
x = torch.rand(32, 10)
y = (x[:, :5].sum(1) > x[:, 5:].sum(1)).long()
spikes = spikegen.rate(x, num_steps=12)
print(f"spikes {spikes.mean().item():.5f} latency {spikegen.latency(x, num_steps=12, normalize=True).sum().item():.0f}")
first, second = torch.nn.Linear(10, 24), torch.nn.Linear(24, 2)
hidden = snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(25), learn_beta=True)
last = snn.Synaptic(alpha=0.8, beta=0.8, spike_grad=surrogate.atan())
parameters = [p for module in (first, second, hidden) for p in module.parameters()]
optimizer = torch.optim.Adam(parameters, lr=5e-3)
criterion = functional.ce_rate_loss()
for step in range(6):
    state, (synapse, membrane) = hidden.init_leaky(), last.init_synaptic()
    out = []
    for now in spikes:
        fired, state = hidden(first(now), state)
        fired, synapse, membrane = last(second(fired), synapse, membrane)
        out.append(fired)
    out = torch.stack(out)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.5f} accuracy {functional.accuracy_rate(out, y):.4f}")
print(f"decay {hidden.beta.item():.5f}")
