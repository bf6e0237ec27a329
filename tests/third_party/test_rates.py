"""Trainers that others wrote as `fit` of `tune_rates`: they run as ever, and copies are compared at their best step."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from droptics.rates import Rates, tune_rates

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
EPOCHS, SCAN = 12, (0.0, 0.3, 0.6)


def examples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The sign of one of eleven inputs; every fifth label is wrong, so that long training does harm."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 11, generator=draw)
    return inputs, ((inputs[:, 0] > 0) ^ (torch.rand(count, generator=draw) < 0.2)).long()


TRAIN, HELD = examples(60, 1), examples(200, 2)


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))


def loader(data: tuple[Tensor, Tensor], seed: int | None = None) -> DataLoader[Any]:
    order = None if seed is None else torch.Generator().manual_seed(seed)
    return DataLoader(TensorDataset(*data), batch_size=20, shuffle=seed is not None, generator=order)


def lightning_way(folder: Path, _: pytest.MonkeyPatch) -> tuple[nn.Module, Callable[..., None], dict[str, list[float]]]:
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning: pip install droptics[models]")
    seen: dict[str, list[float]] = {}
    turns = itertools.count()

    class Classifier(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.net(inputs)  # type: ignore[no-any-return]

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            return functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
            self.log("held", functional.cross_entropy(self(batch[0]), batch[1]))

        def on_validation_epoch_end(self) -> None:
            seen.setdefault(str(self.trainer.default_root_dir), []).append(float(self.trainer.callback_metrics["held"]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.03)

    def fit(module: Any, data: Any, seed: int) -> None:
        place = folder / str(next(turns))
        best = lightning.callbacks.ModelCheckpoint(place, monitor="held")
        stop = lightning.callbacks.EarlyStopping("held", patience=3)
        trainer = lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            logger=False,
            default_root_dir=place,
            callbacks=[best, stop],
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        trainer.fit(module, loader(data, seed), loader(HELD))
        module.load_state_dict(torch.load(best.best_model_path, weights_only=True)["state_dict"])

    return Classifier(), fit, seen


def transformers_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[nn.Module, Callable[..., None], dict[str, list[float]]]:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install droptics[models]")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install droptics[models]")
    # the folder tests/datasets would pass for the library of that name
    monkeypatch.setattr(pytest.importorskip("transformers.trainer"), "is_datasets_available", lambda: False)
    seen: dict[str, list[float]] = {}
    turns = itertools.count()

    class Settings(transformers.PretrainedConfig):  # type: ignore[misc, name-defined]
        model_type = "two layers"

    class Classifier(transformers.PreTrainedModel):  # type: ignore[misc, name-defined]
        config_class = Settings

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.net = network()
            self.post_init()

        def _init_weights(self, module: nn.Module) -> None:
            """They have theirs."""

        def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Any:
            outputs = self.net(inputs)
            loss = None if labels is None else functional.cross_entropy(outputs, labels)
            return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=outputs)

    def rows(data: tuple[Tensor, Tensor]) -> list[dict[str, Tensor]]:
        return [{"inputs": one, "labels": label} for one, label in zip(*data, strict=True)]

    def fit(module: Any, data: Any, seed: int) -> None:
        place = folder / str(next(turns))
        options = transformers.TrainingArguments(
            output_dir=str(place),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=20,
            per_device_eval_batch_size=20,
            learning_rate=0.03,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="eval_loss",
            seed=seed % 2**32,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(module, options, train_dataset=rows(data), eval_dataset=rows(HELD))
        trainer.train()
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        seen[str(place)] = losses

    return Classifier(Settings()), fit, seen


WAYS = {"lightning": lightning_way, "transformers": transformers_way}


@pytest.mark.parametrize("name", WAYS)
def test_copies_of_a_trainer_are_compared_at_their_best_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, fit, seen = WAYS[name](tmp_path, monkeypatch)
    before = copy.deepcopy(module.state_dict())
    state = torch.random.get_rng_state()
    found = tune_rates(module, TRAIN, HELD, fit=fit, scan=SCAN, progress=False)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert {site.name for site in found.sites} == {"net.2"}
    runs = list(seen.values())
    assert len(runs) == len(SCAN)
    for point, losses in zip(found.points, runs, strict=True):
        # trainers take the loss in single precision, ten batches of twenty
        assert point.loss == pytest.approx(min(losses), rel=1e-5)
    assert min(runs[0]) < runs[0][-1]  # without dropout the last step is not the best: there is something to tell


@pytest.mark.parametrize("name", WAYS)
def test_a_trainer_gives_the_same_numbers_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def losses(found: Rates) -> list[float | None]:
        return [point.loss for point in found.points]

    module, fit, _ = WAYS[name](tmp_path, monkeypatch)
    once = losses(tune_rates(module, TRAIN, HELD, fit=fit, scan=SCAN, progress=False))
    again = losses(tune_rates(module, TRAIN, HELD, fit=fit, scan=SCAN, progress=False))
    assert once == again
    other = losses(tune_rates(module, TRAIN, HELD, fit=fit, scan=(0.3, 0.6), progress=False))
    assert other == once[1:]  # a copy is the same whatever stands beside it
    assert len(set(once)) == len(SCAN)


@pytest.mark.parametrize("name", WAYS)
def test_without_dropout_a_trainer_does_what_it_does_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, fit, _ = WAYS[name](tmp_path, monkeypatch)
    kept: list[nn.Module] = []

    def watched(part: nn.Module, data: Any, seed: int) -> None:
        fit(part, data, seed)
        kept.append(part)
        if len(kept) == 1:
            alone = copy.deepcopy(module).train()
            alone.net[2].p = 0.0  # type: ignore[index, union-attr]
            fit(alone, data, seed)
            kept.append(alone)

    tune_rates(module, TRAIN, HELD, fit=watched, scan=(0.0, 0.5), progress=False)
    first, alone = (dict(part.state_dict()) for part in kept[:2])
    assert all(torch.equal(value, alone[key]) for key, value in first.items())
