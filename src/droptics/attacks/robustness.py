"""What an ensemble of attacks found, for people and for files: a table, JSON, one HTML page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from droptics.attacks.threat import Threat
from droptics.estimates import Estimate
from droptics.files import write_text
from droptics.plots import as_data_uri, as_png, bars
from droptics.terminal import new_console, new_table, printed


@dataclass(frozen=True)
class Stage:
    """One attack of the ensemble.

    Attributes:
        method: The method in words.
        attacked: How many examples it was tried on: those that all before it left.
        found: How many of them it fooled, which none before it had.
        gradients: Input gradients it computed, summed over the examples.
        queries: Forward passes of a search without gradients.
        seconds: How long it took.
    """

    method: str
    attacked: int
    found: int
    gradients: int
    queries: int
    seconds: float


@dataclass(frozen=True)
class Randomness:
    """What the randomness of a network at test time does to the answer.

    Attributes:
        masks: How many masks the attacked mean was over; 0 where it is in closed form.
        exact: Whether the mean is exact: over all masks, or in closed form.
        fresh: How many masks the accuracy was evaluated with, others where the mean is not exact.
        single: Accuracy of one random pass at the perturbed inputs, in the mean over the fresh masks.
        overstated: By how much the same attacks on the module as it is in eval mode, without a mean over masks, would
            have overstated the robust accuracy: the accuracy at their points less that at ours, by the fresh masks.
    """

    masks: int
    exact: bool
    fresh: int
    single: float
    overstated: float

    def __str__(self) -> str:
        mean = f"mean prediction over {self.masks} masks, judged by {self.fresh} others"
        if self.exact:
            mean = f"mean prediction over all {self.masks} masks" if self.masks else "mean prediction in closed form"
        return (
            f"random at test time: the attacks climbed the {mean}. A single random pass gets {100 * self.single:.1f} % "
            f"right at these points. The same attacks without the mean would have overstated the robust accuracy by "
            f"{100 * self.overstated:.1f} points."
        )


@dataclass(frozen=True, eq=False)
class Robustness:
    """Clean and robust accuracy under an ensemble of attacks, the worst case example by example.

    Attributes:
        clean: Accuracy at the inputs, with its exact binomial interval.
        robust: Accuracy at the worst points found: an upper bound of the robust accuracy of these examples, with the
            exact binomial interval of that accuracy on fresh ones.
        inputs: The perturbed inputs, inside ball and box.
        found_by: For every example the number of the stage that fooled it; -1 where it was wrong before, and the
            number of stages where none did.
        stages: The attacks in the order they ran.
        threat: The threat.
        warnings: Reasons to doubt the number, in words.
        randomness: What random masks do, for a network that is random at test time.
    """

    clean: Estimate
    robust: Estimate
    inputs: Tensor
    found_by: Tensor
    stages: Sequence[Stage]
    threat: Threat
    warnings: Sequence[str] = ()
    randomness: Randomness | None = None

    @property
    def gradients(self) -> int:
        """Input gradients of all stages, summed over the examples."""
        return sum(stage.gradients for stage in self.stages)

    @property
    def queries(self) -> int:
        """Forward passes of the searches without gradients."""
        return sum(stage.queries for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        accuracy = {
            name: {"value": float(part), "lower": float(part.lower), "upper": float(part.upper)}
            for name, part in (("clean_accuracy", self.clean), ("robust_accuracy", self.robust))
        }
        return {
            "examples": len(self.found_by),
            "threat": {"norm": self.threat.norm, "radius": self.threat.radius, "box": self.threat.box},
            "confidence": self.robust.confidence,
            **accuracy,
            "stages": [asdict(stage) for stage in self.stages],
            "warnings": list(self.warnings),
            "randomness": None if self.randomness is None else asdict(self.randomness),
        }

    def to_json(self) -> str:
        """The result as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained HTML page (replacing an older one atomically) and return its path."""
        import jinja2  # noqa: PLC0415 - loading it takes longer than a first attack

        loader = jinja2.PackageLoader("droptics.attacks")
        environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
        total = len(self.found_by)
        left, shares = float(self.clean), {"clean": float(self.clean)}
        for stage in self.stages:
            left -= stage.found / total
            shares[f"{len(shares)}. {stage.method.partition('(')[0]}"] = left
        picture = bars({"accuracy": list(shares.values())}, list(shares), ylabel="accuracy that is left")
        for label in picture.axes[0].get_xticklabels():
            label.set(rotation=20, ha="right")
        page = environment.get_template("robustness.html.j2").render(
            result=self, picture=as_data_uri(as_png(picture)), json=self.to_json()
        )
        write_text(Path(path), page)
        return Path(path)

    @staticmethod
    def side_by_side(results: Mapping[str, Robustness]) -> str:
        """Several models in one table: accuracies with their intervals, and what each attack found, by model.

        Intervals that overlap do not say that two models are alike: on the same examples their difference is known
        better than either. `found_by` says which examples one loses and the other keeps.
        """
        lines: dict[str, list[str]] = {"examples": [], "clean accuracy": [], "robust accuracy": []}
        lines |= {f"found by {stage.method}": [] for result in results.values() for stage in result.stages}
        for result in results.values():
            cells = {"examples": str(len(result.found_by)), "clean accuracy": percent(result.clean)}
            cells |= {"robust accuracy": percent(result.robust)}
            total = Counter[str]()  # of an attack that ran more than once
            for stage in result.stages:
                total[f"found by {stage.method}"] += stage.found
            cells |= {name: str(count) for name, count in total.items()}
            for name, line in lines.items():
                line.append(cells.get(name, ""))
        console = new_console(60 + 40 * len(results))
        table = new_table("", *results)
        for name, line in lines.items():
            table.add_row(name, *line)
        console.print(table)
        for name, result in results.items():
            for warning in result.warnings:
                console.print(f"warning about {name}: {warning}", highlight=False)
        return printed(console)

    def __str__(self) -> str:
        console = new_console(110)
        console.print(
            f"clean accuracy {percent(self.clean)}, robust accuracy {percent(self.robust)}\n"
            f"{len(self.found_by)} examples, {self.threat.norm} of radius {self.threat.radius:.6g}",
            highlight=False,
        )
        table = new_table()
        for column in ("attack", "tried on", "found", "gradients", "queries", "seconds"):
            table.add_column(column, justify="left" if column == "attack" else "right")
        for stage in self.stages:
            counts = (stage.attacked, stage.found, stage.gradients, stage.queries)
            table.add_row(stage.method, *map(str, counts), f"{stage.seconds:.1f}")
        console.print(table)
        if self.randomness is not None:
            console.print(str(self.randomness), highlight=False)
        for warning in self.warnings:
            console.print(f"warning: {warning}", highlight=False)
        return printed(console)


def percent(share: Estimate) -> str:
    """A share with its interval, in percent."""
    return f"{100 * float(share):.1f} % [{100 * float(share.lower):.1f}, {100 * float(share.upper):.1f}]"
