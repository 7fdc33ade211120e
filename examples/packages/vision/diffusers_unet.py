"""diffusers: a small conditional U-Net is trained to predict noise, and DDIM and DPM-Solver draw images with it."""

# requires: diffusers==0.42.1 transformers==5.24.0
import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, DPMSolverMultistepScheduler, UNet2DModel

torch.manual_seed(0)
images = torch.rand(4, 3, 16, 16) * 2 - 1
labels = torch.tensor([0, 1, 2, 1])
network = UNet2DModel(
    sample_size=16,
    block_out_channels=(16, 32),
    layers_per_block=1,
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
    num_class_embeds=3,
)
schedule = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
for step in range(4):
    noise = torch.randn_like(images)
    times = torch.randint(0, 100, (len(images),))
    predicted = network(schedule.add_noise(images, noise, times), times, class_labels=labels).sample
    loss = torch.nn.functional.mse_loss(predicted, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.4f}")

network.eval()
for sampler in (DDIMScheduler(num_train_timesteps=100), DPMSolverMultistepScheduler(num_train_timesteps=100)):
    sampler.set_timesteps(5)
    drawn = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for time in sampler.timesteps:
            drawn = sampler.step(network(drawn, time, class_labels=labels[:2]).sample, time, drawn).prev_sample
    print(f"{type(sampler).__name__}: mean {drawn.mean().item():.4f} deviation {drawn.std().item():.4f}")

encoder = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=16)
encoded = encoder.encode(images).latent_dist
decoded = encoder.decode(encoded.sample(torch.Generator().manual_seed(2))).sample
loss = torch.nn.functional.mse_loss(decoded, images) + 1e-3 * encoded.kl().mean()
loss.backward()
print(f"autoencoder: loss {loss.item():.4f} gradient {encoder.encoder.conv_in.weight.grad.norm().item():.4f}")
