"""Audit a small convolutional network with DropBlock on its feature maps and dropout before its last layer."""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from droptics import DropBlock, audit

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
split = 1400

torch.manual_seed(0)
network = nn.Sequential()
network.add_module("conv1", nn.Conv2d(1, 16, 3, padding=1))
network.add_module("relu1", nn.ReLU())
network.add_module("dropblock", DropBlock(0.1, block=3))
network.add_module("conv2", nn.Conv2d(16, 32, 3, stride=2, padding=1))
network.add_module("relu2", nn.ReLU())
network.add_module("flatten", nn.Flatten())
network.add_module("dropout", nn.Dropout(0.5))
network.add_module("head", nn.Linear(512, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
for _ in range(8):
    for part in torch.randperm(split).split(64):
        loss = nn.functional.cross_entropy(network(images[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

report = audit(network, (images[:split], labels[:split]), validation=(images[split:], labels[split:]))
print(report)
out = Path(sys.argv[1] if len(sys.argv) > 1 else "droptics-out")
print("the page with the pictures:", report.to_html(out / "audit_cnn.html"))
