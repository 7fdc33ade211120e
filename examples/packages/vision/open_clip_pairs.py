"""open_clip: a small CLIP learns which image belongs to which text."""

# requires: open-clip-torch==3.3.0 torchvision==0.28.0
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

torch.manual_seed(0)
vision = CLIPVisionCfg(layers=2, width=64, head_width=32, patch_size=8, image_size=32)
text = CLIPTextCfg(context_length=16, vocab_size=200, width=32, heads=2, layers=2)
model = CLIP(32, vision, text)
images, tokens = torch.randn(8, 3, 32, 32), torch.randint(1, 199, (8, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = ClipLoss()
for _ in range(5):
    image_features, text_features, scale = model(images, tokens)
    loss = criterion(image_features, text_features, scale)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {scale.item():.4f}")
model.eval()
with torch.no_grad():
    image_features, text_features, scale = model(images, tokens)
print((scale * image_features @ text_features.T).argmax(1).tolist())
