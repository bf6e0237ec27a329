"""What an ensemble found, written for programs and people: every field says what the result holds under its name."""

import json
from dataclasses import asdict

import torch

from droptics.attacks import Robustness, Threat, proportion
from droptics.attacks.robustness import Randomness, Stage

STAGES = (Stage("Fgsm()", 17, 5, 34, 3, 0.25), Stage("Square(queries=20)", 12, 2, 1, 240, 1.5))


def result(randomness=None):
    """Twenty examples, no two of whose numbers are equal."""
    return Robustness(
        proportion(17, 20),
        proportion(10, 20),
        torch.zeros(20, 3),
        torch.tensor([-1] * 3 + [0] * 5 + [1] * 2 + [2] * 10),
        STAGES,
        Threat("l2", 0.3, (-1.0, 2.0)),
        ("too few steps", "gradients vanish"),
        randomness,
    )


def test_every_field_is_written_under_its_name():
    chance = Randomness(12, False, 34, 0.56, 0.078)
    for randomness in (None, chance):
        found = result(randomness)
        said = json.loads(found.to_json())
        assert said == json.loads(json.dumps(found.to_dict()))
        assert said["examples"] == 20
        assert said["threat"] == {"norm": "l2", "radius": 0.3, "box": [-1.0, 2.0]}
        assert said["confidence"] == found.robust.confidence == 0.95
        for name, part in (("clean_accuracy", found.clean), ("robust_accuracy", found.robust)):
            numbers = {"value": float(part), "lower": float(part.lower), "upper": float(part.upper)}
            assert said[name] == numbers
            assert numbers["lower"] < numbers["value"] < numbers["upper"]
        assert said["stages"] == [asdict(stage) for stage in STAGES]
        assert said["warnings"] == ["too few steps", "gradients vanish"]
        assert said["randomness"] == (None if randomness is None else asdict(chance))
    assert (found.gradients, found.queries) == (35, 243)


def test_the_table_holds_every_number_of_a_stage():
    text = str(result())
    for stage in STAGES:
        line = next(line for line in text.splitlines() if stage.method in line)
        numbers = [part.strip() for part in line.replace("│", "|").split("|") if part.strip()][1:]
        wanted = (stage.attacked, stage.found, stage.gradients, stage.queries)
        assert numbers == [*map(str, wanted), f"{stage.seconds:.1f}"]
    assert "clean accuracy 85.0 % [" in text
    assert "robust accuracy 50.0 % [" in text
    assert "20 examples, l2 of radius 0.3" in text
    assert text.count("warning: ") == 2


def test_the_confidence_that_is_written_is_that_of_the_intervals():
    shares = proportion(6, 8, 0.8), proportion(1, 8, 0.8)
    told = Robustness(*shares, torch.zeros(8, 3), torch.zeros(8), STAGES[:1], Threat("l2", 1)).to_dict()
    assert told["confidence"] == 0.8
    for name, share in zip(("clean_accuracy", "robust_accuracy"), shares, strict=True):
        assert told[name] == {"value": float(share), "lower": float(share.lower), "upper": float(share.upper)}


def test_an_attack_that_ran_more_than_once_shows_the_sum_beside_other_models():
    stages = [Stage("A()", 9, 4, 1, 0, 0.1), Stage("B()", 5, 2, 1, 0, 0.1), Stage("A()", 3, 3, 1, 0, 0.1)]
    twice = Robustness(proportion(9, 10), proportion(0, 10), torch.zeros(10, 3), torch.zeros(10), stages, Threat(2, 1))
    lines = Robustness.side_by_side({"twice": twice, "other": result()}).replace("│", "|").splitlines()
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in lines if "found by" in line]
    assert [row for row in rows if row[0] in ("found by A()", "found by B()")] == [
        ["found by A()", "7", ""],
        ["found by B()", "2", ""],
    ]


def test_models_side_by_side_have_a_column_each():
    other = Robustness(
        proportion(6, 8), proportion(1, 8), torch.zeros(8, 3), torch.zeros(8), STAGES[:1], Threat("l2", 1)
    )
    lines = Robustness.side_by_side({"one": result(), "two": other}).replace("│", "|").splitlines()

    def cells(name):
        return [part.strip() for part in next(line for line in lines if name in line).split("|")[1:-1]][1:]

    assert cells("examples") == ["20", "8"]
    assert [text.partition(" [")[0] for text in cells("clean accuracy")] == ["85.0 %", "75.0 %"]
    assert [text.partition(" [")[0] for text in cells("robust accuracy")] == ["50.0 %", "12.5 %"]
    assert cells("found by Fgsm()") == ["5", "5"]
    assert cells("found by Square") == ["2", ""]
    assert sum("warning about one" in line for line in lines) == 2
