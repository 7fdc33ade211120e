"""segment-anything: a small model of its parts finds masks at a point, with the gradient of its image encoder."""

# requires: segment-anything==1.0 torchvision==0.28.0
from functools import partial

import torch
from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, Sam, TwoWayTransformer

torch.manual_seed(0)
encoder = ImageEncoderViT(
    img_size=128, patch_size=16, embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, out_chans=32, qkv_bias=True,
    norm_layer=partial(torch.nn.LayerNorm, eps=1e-6), use_rel_pos=True, window_size=4, global_attn_indexes=(1,),
)  # fmt: skip
prompts = PromptEncoder(embed_dim=32, image_embedding_size=(8, 8), input_image_size=(128, 128), mask_in_chans=8)
decoder = MaskDecoder(
    transformer_dim=32, transformer=TwoWayTransformer(depth=2, embedding_dim=32, num_heads=4, mlp_dim=64),
    num_multimask_outputs=3, iou_head_depth=2, iou_head_hidden_dim=32,
)  # fmt: skip
model = Sam(encoder, prompts, decoder)
image = torch.rand(3, 100, 128) * 255
point = {"point_coords": torch.tensor([[[30.0, 40.0]]]), "point_labels": torch.tensor([[1]])}
found = model([{"image": image, "original_size": (100, 128), **point}], multimask_output=True)[0]
print(*(f"{value:.4f}" for value in found["iou_predictions"].flatten().tolist()), int(found["masks"].sum()))
encoder(model.preprocess(image)[None]).square().mean().backward()
print(f"{sum(p.grad.abs().sum().item() for p in encoder.parameters() if p.grad is not None):.4f}")
