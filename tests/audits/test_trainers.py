"""The callbacks in the real trainers: everything that logs sees the numbers, they pickle, and weights stay the same."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import normal
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from droptics.audits import huggingface_callback, lightning_callback

EXAMPLES, EPOCHS = 32, 2


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.4), nn.Linear(6, 3))


def examples() -> tuple[Tensor, Tensor]:
    return normal(EXAMPLES, 4).float(), torch.arange(EXAMPLES) % 3


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


def lightning_module(lightning: Any) -> Any:
    class Classifier(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)  # type: ignore[no-any-return]

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            return functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Classifier()


def lightning_fit(lightning: Any, folder: Path, callbacks: list[Any]) -> tuple[list[Tensor], Any]:
    from lightning.pytorch.loggers import CSVLogger

    module, inputs = lightning_module(lightning), examples()
    torch.manual_seed(5)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=CSVLogger(folder),
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    )
    trainer.fit(module, DataLoader(TensorDataset(*inputs), batch_size=8, shuffle=True))
    return weights(module), trainer


@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_pickles_and_leaves_the_weights(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning: pip install droptics[models]")
    callback = lightning_callback(examples(), nn.CrossEntropyLoss(), draws=2)
    assert isinstance(callback, lightning.Callback)
    again = pickle.loads(pickle.dumps(callback))
    assert isinstance(again, lightning.Callback)
    plain, _ = lightning_fit(lightning, tmp_path / "plain", [])
    audited, trainer = lightning_fit(lightning, tmp_path / "audited", [callback])
    assert same(plain, audited)
    assert "dropout/net.2/penalty_share" in trainer.logged_metrics
    written = next((tmp_path / "audited").rglob("metrics.csv")).read_text()
    assert "dropout/net.2/penalty_share" in written
    both, _ = lightning_fit(lightning, tmp_path / "again", [again])
    assert same(both, plain)
    assert again.last is not None


def huggingface_fit(transformers: Any, folder: Path, callbacks: list[Any], report_to: str = "none") -> tuple[Any, Any]:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
            outputs = self.net(x)
            loss = None if labels is None else functional.cross_entropy(outputs, labels)
            return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=outputs)

    inputs, labels = examples()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=8,
        report_to=report_to,
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    rows = [{"x": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    trainer = transformers.Trainer(model=Wrapped(), args=arguments, train_dataset=rows, callbacks=callbacks)
    trainer.train()
    return weights(trainer.model), trainer


def imported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Transformers with what its trainer needs, or a reason to skip."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install droptics[models]")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install droptics[models]")
    trainer = pytest.importorskip("transformers.trainer")
    # the folder tests/datasets would pass for the library of that name
    monkeypatch.setattr(trainer, "is_datasets_available", lambda: False)
    return transformers


@pytest.mark.filterwarnings("ignore")
def test_huggingface_logs_to_every_callback_and_leaves_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = imported(monkeypatch)
    seen: list[dict[str, float]] = []

    class Recorder(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            seen.append(dict(logs))

    callback = huggingface_callback(examples(), draws=2)
    assert isinstance(callback, transformers.TrainerCallback)
    assert isinstance(pickle.loads(pickle.dumps(callback)), transformers.TrainerCallback)
    plain, _ = huggingface_fit(transformers, tmp_path / "plain", [])
    # a reporter stands before the audit in the trainer's list
    audited, trainer = huggingface_fit(transformers, tmp_path / "audited", [Recorder(), callback])
    assert same(plain, audited)
    shares = [logs for logs in seen if any(key.startswith("dropout/") for key in logs)]
    assert len(shares) == EPOCHS
    assert all("dropout/net.2/penalty_share" in logs for logs in shares)
    assert sum("dropout/clean_loss" in row for row in trainer.state.log_history) == EPOCHS


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_shows_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = imported(monkeypatch)
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    huggingface_fit(transformers, tmp_path / "run", [huggingface_callback(examples(), draws=2)], "tensorboard")
    folders = {path.parent for path in tmp_path.rglob("events.out.tfevents.*")}
    tags: set[str] = set()
    for folder in folders:
        board = events.EventAccumulator(str(folder))
        board.Reload()
        tags |= set(board.Tags()["scalars"])
    assert any("dropout/net.2/penalty_share" in tag for tag in tags)


@pytest.mark.filterwarnings("ignore")
def test_wandb_sees_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = imported(monkeypatch)
    wandb = pytest.importorskip("wandb", reason="needs wandb: pip install droptics[models]")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    huggingface_fit(transformers, tmp_path / "run", [huggingface_callback(examples(), draws=2)], "wandb")
    summary = dict(wandb.run.summary)
    wandb.finish()
    assert any("dropout/net.2/penalty_share" in key for key in summary)
