"""Attack and harden a classifier: robust accuracy before and after adversarial training with the reflected loss."""

import torch
from sklearn.datasets import load_digits

from droptics import Adversarial, CrossEntropy, Pgd, Plain, Reflected, ReLUNet, Sample, Threat, attack, train

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
data, test = Sample(images[:1200], labels[:1200]), Sample(images[1200:], labels[1200:])
generator = torch.Generator().manual_seed(0)
start = ReLUNet(
    [torch.randn(64, 64, generator=generator) / 8, torch.randn(10, 64, generator=generator) / 8],
    [torch.zeros(64), torch.zeros(10)],
)
threat = Threat("l2", 0.5, box=(0, 1))
search = Pgd(Reflected(CrossEntropy()), steps=10)
for name, objective in (("standard", Plain(CrossEntropy())), ("hardened", Adversarial(threat, search))):
    run = train(start, data, objective, steps=150, step_size=0.3, batch_size=64)
    result = attack(run.model, test, threat, Pgd(Reflected(CrossEntropy()), steps=40))
    print(f"{name}: clean accuracy {float(result.clean_accuracy()):.1%}, robust {float(result.robust_accuracy()):.1%}")
