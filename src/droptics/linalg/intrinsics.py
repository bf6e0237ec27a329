"""What loops are made of that are written in vectors for LLVM: names of llvmlite and numba, loaded at once."""

from __future__ import annotations

from droptics.compiling import uncollected

with uncollected():
    from llvmlite import binding, ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

__all__ = ["binding", "cgutils", "intrinsic", "ir", "types"]
