"""kornia: filters, colours, differentiable warps, augmentation, and a homography that is found by gradient descent."""

# requires: kornia==0.9.0
import kornia
import torch
from kornia import augmentation, color, feature, filters, geometry

torch.manual_seed(0)
image = filters.gaussian_blur2d(torch.rand(2, 3, 48, 48), (5, 5), (1.5, 1.5))
print(f"sobel {filters.sobel(image).mean().item():.5f} canny {filters.canny(image)[1].sum().item():.0f}")
print(f"median {filters.median_blur(image, (3, 3)).mean().item():.5f} HSV {color.rgb_to_hsv(image).std().item():.5f}")
similarity = kornia.metrics.ssim(image, image * 0.9, 5)
print(f"Lab {color.rgb_to_lab(image).mean().item():.4f} SSIM {similarity.mean().item():.5f}")

augment = augmentation.AugmentationSequential(
    augmentation.RandomAffine(20.0, p=1.0),
    augmentation.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=1.0),
    augmentation.RandomHorizontalFlip(p=0.5),
    data_keys=["input", "keypoints"],
)
changed, points = augment(image, torch.tensor([[[10.0, 12.0], [30.0, 22.0]]]).repeat(2, 1, 1))
print(f"augmented {changed.mean().item():.5f} points {points.sum().item():.3f}")

gray = color.rgb_to_grayscale(image)
corners = feature.harris_response(gray)
described = feature.SIFTDescriptor(16)(gray[:, :, :16, :16])
print(f"Harris {corners.abs().max().item():.5f} SIFT {described.std().item():.5f}")

target = geometry.warp_affine(gray, torch.tensor([[[1.0, 0.05, 2.0], [-0.05, 1.0, 1.0]]]).repeat(2, 1, 1), (48, 48))
# The identity would sample at the pixels, where linear interpolation has its kinks.
matrix = torch.tensor([[0.99, 0.013, 0.37], [-0.017, 1.01, 0.41]], requires_grad=True)
optimizer = torch.optim.Adam([matrix], lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    loss = (geometry.warp_affine(gray, matrix.expand(2, 2, 3), (48, 48)) - target).square().mean()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        print(f"step {step + 1}: loss {loss.item():.6f}")
