"""Four defences that are none: what PGD alone says of them, and what the ensemble says.

A perceptron on scikit-learn's digits, hardened against linf 0.1 (seed 0), and the same network behind
- saturation: probabilities of logits a thousand times as large, so that cross-entropy has no slope in float32;
- quantization: inputs rounded to eleven levels, so that no gradient reaches them;
- shattering: a ripple of tiny amplitude and huge slope on the inputs;
- dropout that stays on at test time.

"PGD alone" is `Bim`: cross-entropy as it stands, 40 steps of a tenth of the radius from the input, the last iterate.

    python benchmarks/bench_defences.py
"""

from __future__ import annotations

from harness import Row, clock, report  # first: it sets the number of threads

import torch  # isort: skip
from sklearn.datasets import load_digits
from torch import Tensor, nn

from droptics.attacks import Averaged, Bim, Pgd, Threat, WeakAttackWarning, attack, perturb, robust_accuracy
from droptics.data import Sample

THREAT = Threat("linf", 0.1, (0, 1))


class Behind(nn.Module):
    """A network with something done to its inputs, features or outputs."""

    def __init__(self, net: nn.Sequential, kind: str) -> None:
        super().__init__()
        self.net, self.kind = net, kind

    def forward(self, inputs: Tensor) -> Tensor:
        if self.kind == "quantized":
            inputs = (10 * inputs).round() / 10
        if self.kind == "shattered":
            inputs = inputs + 1e-3 * torch.sin(1e4 * inputs)
        if self.kind == "dropout":
            return self.net[-1](nn.functional.dropout(self.net[:-1](inputs), 0.3, training=True))
        outputs = self.net(inputs)
        return (1000 * outputs).softmax(-1) if self.kind == "saturated" else outputs


def hardened(data: Sample) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    method = Pgd(steps=7, step=0.025, start="random", stop="never")
    for _ in range(30):
        for rows in torch.randperm(len(data)).split(64):
            points = perturb(net, data.inputs[rows], data.targets[rows], THREAT, method)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(points), data.targets[rows]).backward()
            optimizer.step()
    return net.eval().requires_grad_(False)


def row(kind: str, net: nn.Sequential, test: Sample) -> Row:
    model = Behind(net, kind)
    begin = clock()
    torch.manual_seed(0)
    with_pgd = attack(model, test, THREAT, Bim(steps=40, step=0.01))
    middle = clock()
    result = robust_accuracy(Averaged.of(model, draws=16) if kind == "dropout" else model, test, THREAT)
    ours = clock() - middle
    said = f"PGD alone {float(with_pgd.robust_accuracy()):.3f}, ensemble {float(result.robust):.3f}"
    if result.randomness is not None:
        said += f", overstated by {result.randomness.overstated:.3f} without the mean over masks"
    # the doubt about the first attack, and the one about all of them
    doubts = dict.fromkeys((*result.warnings[:1], *result.warnings[-1:]))
    return Row(kind, ours, middle - begin, None, said, "; ".join(doubts))


def main() -> None:
    import warnings  # noqa: PLC0415 - only the doubts of the ensemble are reported

    warnings.simplefilter("ignore", WeakAttackWarning)
    torch.set_num_threads(1)
    bunch = load_digits()
    inputs, labels = torch.tensor(bunch.data / 16, dtype=torch.float32), torch.tensor(bunch.target)
    net = hardened(Sample(inputs[:1200], labels[:1200]))
    test = Sample(inputs[1200:1500], labels[1200:1500])
    kinds = ("undefended", "saturated", "quantized", "shattered", "dropout")
    report("defences", [row(kind, net, test) for kind in kinds])


if __name__ == "__main__":
    main()
