"""denoising-diffusion-pytorch: a U-Net with time embeddings is trained, and draws by DDIM."""

# requires: denoising-diffusion-pytorch==2.3.4 torchvision==0.28.0
import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.manual_seed(0)
images = torch.rand(4, 3, 16, 16)
network = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2)
diffusion = GaussianDiffusion(network, image_size=16, timesteps=50, sampling_timesteps=5, objective="pred_v")
optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3, betas=(0.9, 0.99))
for step in range(5):
    loss = diffusion(images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.4f}")
diffusion.eval()
drawn = diffusion.sample(batch_size=2)
print(f"drawn {drawn.mean().item():.4f} {drawn.std().item():.4f}")
