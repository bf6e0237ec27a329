"""Attack and harden a classifier: robust accuracy after plain and after adversarial training with the reflected loss.

Small digits; the adversary may move an image by 0.5 in l2 norm.
"""

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
search = Pgd(Reflected(CrossEntropy()), steps=5)
for name, objective in (("plain", Plain(CrossEntropy())), ("adversarial", Adversarial(threat, search))):
    run = train(start, data, objective, steps=400, step_size=0.5, batch_size=128)
    result = attack(run.model, test, threat, Pgd(Reflected(CrossEntropy()), steps=40))
    robust = result.robust_accuracy()
    print(
        f"{name} training: clean accuracy {float(result.clean_accuracy()):.1%}, "
        f"robust at most {float(robust):.1%} ({float(robust.lower):.1%} to {float(robust.upper):.1%})"
    )
