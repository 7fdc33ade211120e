"""piq: measures of how alike two images are, as losses with gradients."""

# requires: piq==0.8.0
import piq
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
images = torch.rand(2, 3, 96, 96)
for name, measure in {
    "SSIM": piq.SSIMLoss(data_range=1.0),
    "multi-scale SSIM": piq.MultiScaleSSIMLoss(data_range=1.0, kernel_size=5),
    "VIF": piq.VIFLoss(data_range=1.0, sigma_n_sq=2.0),
    "FSIM": piq.FSIMLoss(data_range=1.0),
    "GMSD": piq.GMSDLoss(data_range=1.0),
    "MDSI": piq.MDSILoss(data_range=1.0),
    "HaarPSI": piq.HaarPSILoss(data_range=1.0),
    "VSI": piq.VSILoss(data_range=1.0),
    "total variation": piq.TVLoss(),
}.items():
    noisy = (images + 0.05 * torch.randn(images.shape)).clamp(0, 1).requires_grad_()
    loss = measure(noisy) if name == "total variation" else measure(noisy, images)
    loss.backward()
    print(f"{name}: {loss.item():.5f} gradient {noisy.grad.norm().item():.4e}")
