"""What an audit costs beyond its sampled passes, in forward passes of the same network: at most ten are promised.

On a GPU also its peak memory beside that of a training step of the same network on the same batch, at most 1.3 times is
promised: this network, one with a vocabulary of outputs per example, and a language model with one per token.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

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


VOCABULARY = 32_768


class LanguageModel(nn.Module):
    """Four layers of width 512 with torch's own blocks, whose attention drops too."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(VOCABULARY, 512), nn.Dropout(0.1)
        layers = (nn.TransformerEncoderLayer(512, 8, 2048, 0.1, batch_first=True, norm_first=True) for _ in range(4))
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(512, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layers(self.drop(self.embed(words))))


def classifier() -> nn.Module:
    """A perceptron with as many classes as a vocabulary."""
    return nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, VOCABULARY))


def peak(call: Callable[[], object]) -> int:
    """Most bytes that were allocated at a time, with what was there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def memory(network: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """Peak of an audit and of a step of AdamW on one batch, in bytes, and their ratio."""
    squared = targets.is_floating_point()

    def step() -> None:
        network.train()
        optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
        outputs = network(inputs)
        if squared:
            loss = (outputs - targets).square().sum(-1).mean()
        else:
            loss = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def audited() -> None:
        audit(network, (inputs, targets), draws=2, rates=(), batch_size=len(inputs), progress=False)

    step()
    used, stepped = peak(audited), peak(step)
    return {"audit": float(used), "step": float(stepped), "ratio": used / stepped}


def memories(device: str) -> dict[str, dict[str, float]]:
    """Of three networks, each alone on the device."""
    found = {}
    for name in ("resnet18", "classifier", "language_model"):
        torch.manual_seed(0)
        if name == "resnet18":
            network, inputs = resnet18(), torch.randn(250, 3, 32, 32)
            targets = torch.randn(250, 10)
        elif name == "classifier":
            network, inputs = classifier(), torch.randn(1024, 512)
            targets = torch.randint(0, VOCABULARY, (1024,))
        else:
            network, inputs = LanguageModel(), torch.randint(0, VOCABULARY, (32, 256))
            targets = inputs.roll(-1, 1)
        found[name] = memory(network.to(device), inputs.to(device), targets.to(device))
        print(f"{name}: audit {found[name]['audit'] / 2**20:.0f} MiB, {found[name]['ratio']:.2f} training steps")
        del network, inputs, targets
        gc.collect()
    return found


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
    repeats = 5 if device == "cuda" else 3  # there a pass takes milliseconds
    few, many = (min(audited(draws) for _ in range(repeats)) for draws in (2, 4))
    beyond = (few - 2 * (many - few) / 2) / one_pass
    sampled = (many - few) / 2 / one_pass / 2
    print(f"{device}: one forward pass of {count} images {one_pass:.3g} s")
    print(f"audit beyond sampling {beyond:.2f} passes, one sampled pass costs {sampled:.2f} passes")
    numbers: dict[str, object] = {
        "images": count, "forward_seconds": one_pass, "beyond_sampling": beyond, "sampled_pass": sampled
    }  # fmt: skip
    if device == "cuda":
        del network, images, targets
        numbers["memory"] = memories(device)
    write(f"audit_{device}", numbers)


if __name__ == "__main__":
    main()
