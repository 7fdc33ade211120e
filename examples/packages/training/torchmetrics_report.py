"""torchmetrics: metrics of classification, regression, images and text, over two batches."""

# requires: torchmetrics==1.9.0
import torch
from torchmetrics import MetricCollection, MetricTracker, classification, image, regression, text

torch.manual_seed(0)
classes = MetricCollection({
    "accuracy": classification.MulticlassAccuracy(4),
    "F1": classification.MulticlassF1Score(4, average="weighted"),
    "AUROC": classification.MulticlassAUROC(4),
    "calibration": classification.MulticlassCalibrationError(4, n_bins=5),
    "kappa": classification.MulticlassCohenKappa(4),
})
tracker = MetricTracker(classes)
for _ in range(2):
    tracker.increment()
    for _ in range(2):
        labels = torch.randint(0, 4, (64,))
        scores = torch.randn(64, 4) + 2 * torch.nn.functional.one_hot(labels, 4)
        tracker.update(scores.softmax(-1), labels)
    print(*(f"{name} {value.item():.5f}" for name, value in tracker.compute().items()))
print("best", *(f"{name} {value:.5f}" for name, value in tracker.best_metric().items()))

a, b = torch.randn(100), torch.randn(100)
numbers = MetricCollection([
    regression.MeanSquaredError(), regression.R2Score(), regression.PearsonCorrCoef(), regression.SpearmanCorrCoef(),
])  # fmt: skip
print(*(f"{name} {value.item():.5f}" for name, value in numbers(a, a + 0.3 * b).items()))

pictures = torch.rand(2, 3, 32, 32)
noisy = (pictures + 0.1 * torch.randn_like(pictures)).clamp(0, 1).requires_grad_()
similarity = image.StructuralSimilarityIndexMeasure(data_range=1.0)(noisy, pictures)
similarity.backward()
print(f"SSIM {similarity.item():.5f} gradient {noisy.grad.norm().item():.5f}")
print(f"PSNR {image.PeakSignalNoiseRatio(data_range=1.0)(noisy, pictures).item():.5f}")
print(f"BLEU {text.BLEUScore()(['the cat is on the mat'], [['there is a cat on the mat']]).item():.5f}")
print(f"perplexity {text.Perplexity()(torch.randn(2, 8, 5).softmax(-1), torch.randint(5, (2, 8))).item():.5f}")
