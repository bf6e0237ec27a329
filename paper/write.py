"""Write paper.md from its template; every number comes from the claims, `results/` or `benchmarks/results/`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from droptics.files import write_text
from droptics.papers import claims, figures

HERE = Path(__file__).parent
ROOT = HERE.parent


def numbers() -> dict[str, Any]:
    """What the template names."""
    verdicts = Counter(str(claim.verdict) for claim in claims() if not claim.id.startswith("droptics-"))
    tried = json.loads((ROOT / "results" / "tried.json").read_text(encoding="utf-8")).values()
    return {
        "date": "2026",
        "claims": sum(verdicts.values()),
        "holds": sum(count for verdict, count in verdicts.items() if verdict.startswith("holds")),
        "slips": verdicts["slip"],
        "refuted": verdicts["false"],
        "repaired": verdicts["slip"] + verdicts["false"],
        "figures": len(figures()),
        "optimum_ms": round(1000 * _row("optima", "conic solver (SCS)")["ours"], 1),
        "conic": _rounded(_row("optima", "conic solver (SCS)")["ratio"]),
        "deep": _rounded(_row("penalties", "sum over pivots")["ratio"]),
        "cmfrec": _rounded(_row("recommenders", "cmfrec ALS, CG")["ratio"]),
        "penalized": _rounded(_row("training", "Penalized (L-BFGS) vs Dropout, batch")["ratio"]),
        "density": _rounded(_row("predictive", "exact log density")["ratio"]),
        "routines": len(tried),
        "instances": min(found["tried"] for found in tried),
        "disagreements": sum(found["disagreed"] for found in tried),
    }


def paper() -> str:
    """The text."""
    environment = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    return environment.from_string((HERE / "paper.md.j2").read_text(encoding="utf-8")).render(numbers())


def _row(name: str, workload: str) -> dict[str, Any]:
    rows = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return next(row for row in rows if workload in row["workload"])


def _rounded(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):g}"


if __name__ == "__main__":
    write_text(HERE / "paper.md", paper())
