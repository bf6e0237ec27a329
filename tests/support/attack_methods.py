"""The methods that every device is compared with."""

from __future__ import annotations

from droptics.attacks import (
    CrossEntropy,
    Decay,
    Margin,
    Pgd,
    Reflected,
)

METHODS = (
    Pgd(steps=20),
    Pgd(steps=20, step=0.03, stop="never"),
    Pgd(Reflected(CrossEntropy()), steps=20, restarts=2),
    Pgd(Reflected(CrossEntropy(), "every"), steps=6),
    Pgd(Margin(), steps=20, projection="exact"),
    Pgd(steps=20, step=Decay(5.0), gradient="raw"),
    Pgd(steps=20, step=lambda i: 0.0 if i < 8 else 0.03),
)
