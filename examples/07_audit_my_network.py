"""Audit my network: an MLP on handwritten digits, trained for a moment, and what its dropout does.

Uses MNIST where it lies in the folder named by DROPTICS_DATA, and scikit-learn's small digits otherwise.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from droptics import audit, datasets

try:
    images, labels = datasets.mnist(split="train")
except datasets.DatasetMissing:
    digits = load_digits()
    images, labels = torch.tensor(digits.images * 16).byte(), torch.tensor(digits.target)
inputs = images[:4000].flatten(1).float() / 255
labels = labels[:4000]
split = int(0.8 * len(inputs))

torch.manual_seed(0)
network = nn.Sequential(
    nn.Linear(inputs.shape[1], 128),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(128, 64),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for _ in range(5):
    for part in torch.randperm(split).split(64):
        loss = nn.functional.cross_entropy(network(inputs[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

report = audit(network, (inputs[:split], labels[:split]), validation=(inputs[split:], labels[split:]))
print(report)
out = Path(sys.argv[1] if len(sys.argv) > 1 else "droptics-out")
print("the page with the pictures:", report.to_html(out / "audit_mlp.html"))
