"""What the caller of a search knows already, so that nobody computes it or asks a GPU for it again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from droptics.attacks.losses import Ends


@dataclass(eq=False)
class Known:
    """What is known of a model and a batch.

    Attributes:
        ends: The smallest and the largest label.
        steady: That the model repeats itself.
        held: That it is in eval mode, and stays there.
        clean: Its outputs at the inputs.
        left: That attacks before left these examples: they are right as they are, and where to start is reachable.
    """

    ends: Ends = None
    steady: bool = False
    held: bool = False
    clean: Tensor | None = None
    left: bool = False

    def slice(self, begin: int, end: int) -> Known:
        """Of some of the examples."""
        return self if self.clean is None else replace(self, clean=self.clean[begin:end])


NOTHING = Known()
