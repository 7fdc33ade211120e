"""Loads that look at images, volumes and sets of points."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.workload import images

from .recipe import Recipe, draw_batches, load

SGD = {"lr": 0.02, "momentum": 0.9, "weight_decay": 1e-4}


@load("dense-blocks", "two dense blocks: batch norm, ReLU, 3×3, concatenation", growth=2, layers=2, side=8, batch=4)
def dense_blocks(growth: int = 12, layers: int = 5, side: int = 32, batch: int = 16) -> Recipe:
    """After Huang and others, 2017."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        class Layer(nn.Module):  # type: ignore[misc]
            def __init__(self, channels: int) -> None:
                super().__init__()
                self.norm = nn.BatchNorm2d(channels)
                self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

            def forward(self, x: Any) -> Any:
                return library.cat([x, self.conv(library.relu(self.norm(x)))], 1)

        width = 2 * growth
        parts: list[Any] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
        for _ in range(2):
            parts += [Layer(width + k * growth) for k in range(layers)]
            width += layers * growth
            parts += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
        model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
        return model, lambda x, y: nn.functional.cross_entropy(model(x), y)

    return Recipe(lambda: images((3, side, side), 10, batch), build, "SGD", SGD)


@load("squeeze-excite", "depthwise 5×5, SiLU, squeeze and excitation", width=4, side=8, blocks=1, batch=4)
def squeeze_excite(width: int = 24, side: int = 28, blocks: int = 4, batch: int = 16) -> Recipe:
    """The block of Tan and Le, 2019."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        class Block(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                inner = 4 * width
                self.expand = nn.Sequential(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU())
                depthwise = nn.Conv2d(inner, inner, 5, padding=2, groups=inner, bias=False)
                self.depthwise = nn.Sequential(depthwise, nn.BatchNorm2d(inner), nn.SiLU())
                self.gate = nn.Sequential(
                    nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, width // 4, 1), nn.SiLU(),
                    nn.Conv2d(width // 4, inner, 1), nn.Sigmoid(),
                )  # fmt: skip
                self.project = nn.Sequential(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))

            def forward(self, x: Any) -> Any:
                hidden = self.depthwise(self.expand(x))
                return x + self.project(hidden * self.gate(hidden))

        stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
        model = nn.Sequential(stem, *[Block() for _ in range(blocks)], head)
        return model, lambda x, y: nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)

    return Recipe(lambda: images((3, side, side), 10, batch), build, "RMSprop", {"lr": 1e-3, "momentum": 0.9})


@load("mlp-mixer", "MLP-Mixer on 4×4 patches", width=8, depth=1, side=8, batch=4)
def mlp_mixer(width: int = 96, depth: int = 4, side: int = 32, batch: int = 32) -> Recipe:
    """After Tolstikhin and others, 2021: products over patches and over channels in turn."""
    patches = (side // 4) ** 2

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        class Block(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
                self.tokens = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
                self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

            def forward(self, x: Any) -> Any:
                x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
                return x + self.channels(self.norms[1](x))

        embed = nn.Conv2d(3, width, 4, stride=4)
        blocks, norm, head = nn.Sequential(*[Block() for _ in range(depth)]), nn.LayerNorm(width), nn.Linear(width, 10)
        model = nn.ModuleList([embed, blocks, norm, head])

        def loss(x: Any, y: Any) -> Any:
            tokens = embed(x).flatten(2).transpose(1, 2)
            return nn.functional.cross_entropy(head(norm(blocks(tokens)).mean(1)), y)

        return model, loss

    return Recipe(lambda: images((3, side, side), 10, batch), build, "AdamW", {"lr": 1e-3, "weight_decay": 0.05})


@load("volumes", "3-d convolutions with batch norm and pooling", width=2, side=12, batch=2)
def volumes(width: int = 12, side: int = 24, batch: int = 4) -> Recipe:
    """A classifier of volumes, as of scans or of short films."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        model = nn.Sequential(
            nn.Conv3d(1, width, 3, padding=1), nn.BatchNorm3d(width), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(width, 2 * width, 3, padding=1), nn.BatchNorm3d(2 * width), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(2 * width, 2 * width, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
            nn.Linear(2 * width, 4),
        )  # fmt: skip
        return model, lambda x, y: nn.functional.cross_entropy(model(x), y)

    return Recipe(lambda: images((1, side, side, side), 4, batch), build)


@load("points", "PointNet: 1×1 convolutions over points, their maximum", points=16, batch=4)
def points(points: int = 512, batch: int = 16) -> Recipe:
    """After Qi and others, 2017."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        layers: list[Any] = []
        for a, b in ((3, 64), (64, 64), (64, 256)):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        features = nn.Sequential(*layers)
        head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))
        model = nn.ModuleList([features, head])
        return model, lambda x, y: nn.functional.cross_entropy(head(features(x).amax(2)), y)

    return Recipe(lambda: images((3, points), 10, batch), build)


@load("segmentation", "U-shaped network: group norm, bilinear upsampling, Dice loss", width=8, side=16, batch=2)
def segmentation(width: int = 16, side: int = 64, batch: int = 4) -> Recipe:
    """Masks of shapes in noisy images."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        def block(a: int, b: int) -> Any:
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.LeakyReLU(0.1))

        down1, down2, middle = block(1, width), block(width, 2 * width), block(2 * width, 2 * width)
        up2, up1, head = block(4 * width, width), block(2 * width, width), nn.Conv2d(width, 1, 1)
        model = nn.ModuleList([down1, down2, middle, up2, up1, head])
        pool, grow = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

        def loss(x: Any, mask: Any) -> Any:
            a = down1(x)
            b = down2(pool(a))
            c = up2(library.cat([grow(middle(pool(b))), b], 1))
            logits = head(up1(library.cat([grow(c), a], 1)))
            share = library.sigmoid(logits)
            dice = 1 - (2 * (share * mask).sum() + 1) / (share.sum() + mask.sum() + 1)
            return nn.functional.binary_cross_entropy_with_logits(logits, mask) + dice

        return model, loss

    batches = draw_batches(lambda n: ((x := n.random((batch, 1, side, side))), (x > 0.5).astype("float32")))
    return Recipe(batches, build)
