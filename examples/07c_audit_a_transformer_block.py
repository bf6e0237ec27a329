"""Audit a transformer encoder block: four dropout sites, three of them modules and one inside the attention."""

import sys
from pathlib import Path

import torch
from torch import nn

from droptics import audit


class Tagger(nn.Module):
    """Is the sum of the marked positions positive? One encoder block, mean over positions, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(sequence)).mean(1))


torch.manual_seed(0)
values, marks = torch.randn(1500, 10), (torch.rand(1500, 10) < 0.5).float()
inputs, labels = torch.stack([values, marks], 2), ((values * marks).sum(1) > 0).long()
network = Tagger()
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(8):
    for part in torch.randperm(1200).split(64):
        loss = nn.functional.cross_entropy(network(inputs[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

report = audit(network, (inputs[:1200], labels[:1200]), validation=(inputs[1200:], labels[1200:]))
print(report)
out = Path(sys.argv[1] if len(sys.argv) > 1 else "droptics-out")
print("the page with the pictures:", report.to_html(out / "audit_transformer.html"))
