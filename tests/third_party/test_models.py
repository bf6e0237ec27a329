"""Models that others wrote, built from their configurations without downloads: every site against a count by hand.

`make test-models` has the packages; where one does not import, its models are skipped with the reason.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from droptics.audits import audit

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


def library(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception as problem:  # a package may fail to import in many ways
            pytest.skip(f"{name} does not import here: {type(problem).__name__}: {str(problem)[:120]}")


@dataclass(frozen=True)
class Case:
    """A model with data, and the places where it drops, counted by hand: by kind."""

    module: nn.Module
    data: Any
    sites: int
    loss: Any = None
    bugs: tuple[str, ...] = ()


def words(count: int, length: int, high: int = 50) -> torch.Tensor:
    return torch.randint(3, high, (count, length), generator=torch.Generator().manual_seed(1))


SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def bert() -> Case:
    """Embeddings, three in each of two layers (attention weights, attention output, output), classifier."""
    library_ = library("transformers")
    module = library_.BertForSequenceClassification(library_.BertConfig(**SMALL))
    return Case(module, [{"input_ids": words(12, 6), "labels": torch.arange(12) % 2}], 1 + 2 * 3 + 1)


def bert_tokens() -> Case:
    """As above, for labels of tokens, of which some do not count."""
    library_ = library("transformers")
    module = library_.BertForTokenClassification(library_.BertConfig(**SMALL, num_labels=3))
    labels = words(12, 6, 6) - 3
    labels[:, -1] = -100
    return Case(module, [{"input_ids": words(12, 6), "labels": labels}], 1 + 2 * 3 + 1)


def albert() -> Case:
    """Embeddings, one shared layer run twice with attention weights and attention output; classifier.

    The shared layer has a third dropout that its code never calls: a true finding.
    """
    library_ = library("transformers")
    options = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "classifier_dropout_prob": 0.1}
    module = library_.AlbertForSequenceClassification(library_.AlbertConfig(**SMALL, embedding_size=8, **options))
    return Case(module, [{"input_ids": words(12, 6), "labels": torch.arange(12) % 2}], 1 + 2 * 2 + 1, bugs=("DR101",))


def gpt2() -> Case:
    """Embeddings; in each of two blocks attention weights, its projection, the perceptron's projection."""
    library_ = library("transformers")
    config = library_.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=16)
    ids = words(12, 6)
    return Case(library_.GPT2LMHeadModel(config), [{"input_ids": ids, "labels": ids}], 1 + 2 * 3, "model")


def llama() -> Case:
    """Attention weights only, where the configuration asks for it."""
    library_ = library("transformers")
    config = library_.LlamaConfig(**SMALL, attention_dropout=0.1)
    ids = words(12, 6)
    return Case(library_.LlamaForCausalLM(config), [{"input_ids": ids, "labels": ids}], 2, "model")


def t5() -> Case:
    """Two encoder and two decoder blocks.

    Both embeddings and both ends (4); an encoder block has attention weights, attention output, inside and after the
    perceptron (4); a decoder block has attention twice (6).
    """
    library_ = library("transformers")
    config = library_.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    batch = {"input_ids": words(8, 6), "labels": words(8, 5)}
    return Case(library_.T5ForConditionalGeneration(config), [batch], 4 + 2 * 4 + 2 * 6, "model")


def whisper() -> Case:
    """Both embeddings (2); two encoder layers of four, as in T5; two decoder layers with two attentions, of six."""
    library_ = library("transformers")
    config = library_.WhisperConfig(
        vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8, max_source_positions=10,
        max_target_positions=16, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    batch = {"input_features": torch.randn(6, 8, 20), "labels": words(6, 5)}
    return Case(library_.WhisperForConditionalGeneration(config), [batch], 2 + 2 * 4 + 2 * 6, "model")


def vit() -> Case:
    """Embeddings; attention weights, attention output and output of two layers."""
    library_ = library("transformers")
    options = {name: SMALL[name] for name in SMALL if name != "vocab_size"}
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = library_.ViTConfig(**options, **rates, image_size=8, patch_size=4)
    data = [{"pixel_values": torch.randn(10, 3, 8, 8), "labels": torch.arange(10) % 2}]
    return Case(library_.ViTForImageClassification(config), data, 1 + 2 * 3)


def lora() -> Case:
    """The eight of BERT, and one before every low-rank branch: query and value of two layers."""
    peft = library("peft")
    case = bert()
    config = peft.LoraConfig(r=2, lora_dropout=0.1, target_modules=["query", "value"])
    return Case(peft.get_peft_model(case.module, config), case.data, 8 + 4)


class Whole(nn.Module):
    """`nn.Transformer` with a head."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Transformer(8, 2, 2, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x, x).mean(1))


def torch_transformer() -> Case:
    """Four in each of two encoder layers, six in each of two decoder layers."""
    return Case(Whole(), (torch.randn(10, 5, 8), torch.arange(10) % 2), 2 * 4 + 2 * 6)


def graph_attention() -> Case:
    """Two layers: dropout on the features between them, and on the attention of both."""
    geometric = library("torch_geometric")
    importlib.import_module("torch_geometric.nn")
    importlib.import_module("torch_geometric.data")
    module = geometric.nn.GAT(8, 8, 2, 3, dropout=0.2)
    edges = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    data = geometric.data.Data(x=torch.randn(30, 8), edge_index=edges, y=torch.arange(30) % 3)
    return Case(module, data, 1 + 2)


def timm_vit() -> Case:
    """Positions, head; in two blocks attention weights, projection, two in the perceptron, two paths."""
    timm = library("timm")
    module = timm.models.VisionTransformer(
        img_size=8, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=3, drop_rate=0.1, pos_drop_rate=0.1,
        proj_drop_rate=0.1, attn_drop_rate=0.1, drop_path_rate=0.2,
    )  # fmt: skip
    # rates of paths rise from zero: the first block has none
    return Case(module, (torch.randn(10, 3, 8, 8), torch.arange(10) % 3), 2 + 2 * 4 + 2)


def timm_resnet() -> Case:
    """Four stages of one block; the first path has rate zero."""
    timm = library("timm")
    module = timm.create_model("resnet10t", drop_path_rate=0.2, num_classes=3)
    return Case(module, (torch.randn(8, 3, 32, 32), torch.arange(8) % 3), 3)


def timm_convnext() -> Case:
    """Paths of blocks with a rate above zero."""
    timm = library("timm")
    module = timm.models.ConvNeXt(depths=(1, 1, 2, 1), dims=(8, 8, 16, 16), drop_path_rate=0.2, num_classes=3)
    return Case(module, (torch.randn(64, 3, 32, 32), torch.arange(64) % 3), 4)


CASES: list[Callable[[], Case]] = [
    bert, bert_tokens, albert, gpt2, llama, t5, whisper, vit, lora, torch_transformer, graph_attention, timm_vit,
    timm_resnet, timm_convnext,
]  # fmt: skip


@pytest.mark.parametrize("make", CASES)
def test_every_site_is_found_and_nothing_is_called_a_bug(make: Callable[[], Case]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        case = make()
    state = {name: value.clone() for name, value in case.module.state_dict().items()}
    modes = [part.training for part in case.module.modules()]
    attributes = {name: set(vars(part)) for name, part in case.module.named_modules()}
    report = audit(case.module, case.data, case.loss, budget=10, rates=(), progress=False)
    assert len(report.sites) == case.sites, [item.site.name for item in report.sites]
    assert all(item.site.reason is None and item.penalty is not None for item in report.sites)
    assert tuple(found.code for found in report.findings if found.level == "bug") == case.bugs
    assert [part.training for part in case.module.modules()] == modes
    assert {name: set(vars(part)) for name, part in case.module.named_modules()} == attributes
    assert all(torch.equal(value, case.module.state_dict()[name]) for name, value in state.items())
    if case.loss == "model":
        with torch.no_grad():
            own = float(case.module.eval()(**case.data[0]).loss)
        assert report.clean_loss == pytest.approx(own, rel=1e-5)
