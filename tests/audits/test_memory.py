"""What an audit of a large vocabulary takes, beside a training step of the same network."""

import os
import subprocess
import sys

import pytest

MOST = 1.3  # times the memory of a training step
CODE = """
import os, sys
import torch
from torch import nn
from torch.nn import functional
from droptics.audits import audit

CLASSES, WIDTH = 50_000, 256
what = sys.argv[1]

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.first, self.inner = nn.Embedding(CLASSES, WIDTH), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH)
        self.second, self.head = nn.Dropout(0.1), nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, tokens):
        return self.head(self.second(torch.relu(self.inner(self.first(self.embed(tokens))))))

def step(network, count):
    tokens = torch.randint(CLASSES, (count, 16))
    targets = tokens.roll(1, 1)
    if what == "audit":
        audit(network, (tokens, targets), draws=2, rates=(0.5,), progress=False)
    else:
        outputs = network(tokens)
        loss = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())
        loss.backward()
        network.zero_grad()

torch.manual_seed(0)
network = Network()
step(network, 2)  # what is loaded and compiled once is not counted
start = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
step(network, 48)  # tens of megabytes more or less of libraries do not matter then
# not ru_maxrss, which a process inherits from the one that started it
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024 - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of the process from Linux")
def test_a_vocabulary_takes_little_more_than_a_training_step():
    # tensors that are freed are given back at once: what is counted is what is alive
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}

    def peak(what):
        command = [sys.executable, "-W", "ignore", "-c", CODE, what]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return int(done.stdout)

    used, wanted = peak("audit"), peak("train")
    assert used <= MOST * wanted
