"""Triton, which compiles kernels for a GPU: whether it is here, and how a module gets it.

A module of kernels does not import Triton, which is heavy and absent on most machines without a GPU. It declares
`tl: Any = None`, writes its kernels as plain functions that refer to `tl`, and compiles them when one is first
launched:

    @cache
    def _compiled() -> Any:
        return load_triton(globals(), "the row kernel").jit(_solve)

Kernels take pointers, strides and sizes one by one: Triton 3.2, the oldest allowed, takes no tuples or structs.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def missing() -> str:
    """Why kernels cannot run here; empty when they can."""
    return "triton is not installed (pip install triton)" if find_spec("triton") is None else ""


def load_triton(namespace: dict[str, Any], purpose: str) -> Any:
    """The package triton, its language put as `tl` among the globals of the module that will be compiled."""
    try:
        import triton  # noqa: PLC0415
        import triton.language  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"{purpose} needs triton: pip install triton") from error
    namespace["tl"] = triton.language
    return triton
