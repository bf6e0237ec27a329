"""What an audit costs beyond its sampled passes, in forward passes of the same network: at most ten are promised."""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

from droptics.audits import audit
from harness import write


class Block(nn.Module):
    """Two 3 x 3 convolutions with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18() -> nn.Module:
    """Eleven million weights: four stages of two blocks, dropout on the features and before the head."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        layers += [Block(width, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(
        *layers, nn.Dropout2d(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(512, 10)
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # one batch is the hardest case: the discovery of the sites runs on the first batch only
    count = int(sys.argv[1]) if len(sys.argv) > 1 else (1000 if device == "cuda" else 100)
    torch.manual_seed(0)
    network = resnet18().to(device)
    images = torch.randn(count, 3, 32, 32, device=device)
    targets = torch.randn(count, 10, device=device)

    def clock(call: object) -> float:
        assert callable(call)
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter() if device == "cuda" else time.process_time()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() if device == "cuda" else time.process_time()) - start

    def forward() -> None:
        network.eval()
        with torch.no_grad():
            for part in images.split(250):
                network(part)

    def audited(draws: int) -> float:
        return clock(lambda: audit(network, (images, targets), "squared", draws=draws, rates=(), batch_size=250))

    forward()
    audited(2)
    one_pass = min(clock(forward) for _ in range(3))
    # the number of sampled passes grows by two for each draw (all sites; the feature site alone): extrapolate to none
    few, many = audited(2), audited(4)
    beyond = (few - 2 * (many - few) / 2) / one_pass
    sampled = (many - few) / 2 / one_pass / 2
    print(f"{device}: one forward pass of {count} images {one_pass:.3g} s")
    print(f"audit beyond sampling {beyond:.2f} passes, one sampled pass costs {sampled:.2f} passes")
    numbers = {"images": count, "forward_seconds": one_pass, "beyond_sampling": beyond, "sampled_pass": sampled}
    write(f"audit_{device}", numbers)


if __name__ == "__main__":
    main()
