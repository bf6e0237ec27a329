"""The one name for NumPy arrays in signatures; what they hold is said in words where it matters."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
