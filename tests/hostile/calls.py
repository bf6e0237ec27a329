"""Every public callable, one valid call of it, and the hostile values of each of its parameters.

A new public name is covered without a line here when its parameters have names or annotations that are known below;
otherwise the test that calls it says what to add.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import importlib
import inspect
import math
import pkgutil
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from cases import entries, measurements, normal, sample, small_network
from sklearn.base import ClassifierMixin
from torch import Tensor, nn

import droptics
from droptics.annotations import described
from droptics.attacks import Pgd, Threat
from droptics.audits import audit
from droptics.data import Data, Moments, Sample
from droptics.estimates import Bound, Estimate
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli, Product
from droptics.models import Autoencoder, DeepLinear, Factorization, LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.optima import optimum
from droptics.predictions import Predictive, predictive
from droptics.rates import Fit
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, hold_out_users
from droptics.training import Plain, Settings, train

NOT_ROOMS = {"__main__", "cli", "files", "gpu", "papers", "terminal"}


def public() -> dict[str, Callable[..., Any]]:
    """Every public function and class that can be called, by its shortest name."""
    found: dict[str, Any] = {name: getattr(droptics, name) for name in droptics._SPELLINGS}
    for module in pkgutil.iter_modules(droptics.__path__):
        if module.name in NOT_ROOMS:
            continue
        room = importlib.import_module(f"droptics.{module.name}")
        names = getattr(room, "__all__", None)
        if names is None and module.name in droptics._SPELLINGS:
            names = [key for key, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__]
        for name in names or ():
            if not name.startswith("_") and not any(getattr(room, name) is known for known in found.values()):
                found[f"{module.name}.{name}"] = getattr(room, name)
    return {
        name: value
        for name, value in found.items()
        if callable(value)
        and not inspect.isabstract(value)
        and not (isinstance(value, type) and issubclass(value, BaseException))
    }


def returned() -> set[type]:
    """Classes that public functions return, and what these hold: made by the library, not by its callers."""
    found: set[type] = set()
    callables = [value for value in public().values() if not isinstance(value, type)]
    for kind in public().values():  # answers of methods, too
        if isinstance(kind, type):
            members = (getattr(item, "__func__", item) for key, item in vars(kind).items() if not key.startswith("_"))
            callables += [
                getattr(item, "fget", item) for item in members if inspect.isroutine(getattr(item, "fget", item))
            ]
    open_ = [_hints(value).get("return") for value in callables]
    while open_:
        hint = open_.pop()
        open_ += get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint) and hint not in found and not hasattr(hint, "__post_init__"):
            found.add(hint)
            open_ += get_type_hints(hint).values()
    return found


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError):  # names that only a type checker knows
        return {}


def two_layer() -> TwoLayerLinear:
    return TwoLayerLinear(normal(3, 5, seed=1), normal(4, 5, seed=2))


def relu(outputs: int = 1, width: int = 6) -> ReLUNet:
    return ReLUNet([normal(width, 4, seed=1), normal(outputs, width, seed=2)])


def deep() -> DeepLinear:
    return DeepLinear([normal(3, 4, seed=1), normal(2, 3, seed=2), normal(3, 2, seed=3)])


def classifier() -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return net


def labeled(count: int = 8) -> Sample:
    return Sample(normal(count, 4, seed=6).sigmoid(), torch.arange(count) % 3)


def signed(count: int = 8) -> Sample:
    inputs = normal(count, 4, seed=6)
    return Sample(inputs, torch.sign(inputs[:, :1]))


def ratings() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 20 * 15, 150))
    return pairs // 15, pairs % 15, rng.normal(size=len(pairs))


def fitted() -> DropoutCompletion:
    return DropoutCompletion(2, 0.3, sweeps=2).fit(ratings())


def report() -> Any:
    return audit(classifier(), (labeled().inputs, labeled().targets), draws=2, rates=(0.3,), progress=False)


def run() -> Any:
    return train(two_layer(), sample(), Plain(), steps=2, step_size=1e-3)


def prediction() -> Predictive:
    return predictive(TwoLayerLinear(normal(1, 5, seed=1), normal(4, 5, seed=2)), labeled().inputs, Bernoulli(0.3, 5))


def claim() -> Any:
    return next(item for item in importlib.import_module("droptics.papers").claims() if item.id == "thesis-thm17")


@cache
def table() -> Path:
    """A file of ratings, gone with the process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "ratings.csv"
    path.write_text("user,item,rating\n1,2,3.5\n")
    return path


def gram(size: int = 4) -> Tensor:
    factor = normal(size, size, seed=3)
    return factor @ factor.mT


# Arguments of one valid call: by the name of the callable and parameter, by the name of the parameter, by its kind.
CALLS: dict[str, dict[str, Any]] = {
    "Adversarial": {"threat": lambda: Threat("l2", 0.1), "method": Pgd},
    "Autoencoder": {"U": lambda: normal(4, 3)},
    "Block": {"size": lambda: 6, "block": lambda: 2},
    "Bound": {"terms": lambda: {"a": 1.0}},
    "CriticalPoint": {"model": lambda: Autoencoder(normal(4, 3))},
    "DeepLinear": {"weights": lambda: [normal(3, 4), normal(2, 3)]},
    "Discrete": {"masks": lambda: normal(3, 2) + 3, "probabilities": lambda: torch.tensor([0.2, 0.3, 0.5])},
    "Entries": {
        "rows": lambda: torch.tensor([0, 1]),
        "columns": lambda: torch.tensor([1, 0]),
        "values": lambda: normal(2),
        "shape": lambda: (2, 2),
    },
    "Estimate": {
        "value": lambda: torch.tensor(1.0),
        "lower": lambda: torch.tensor(0.0),
        "upper": lambda: torch.tensor(2.0),
    },
    "ExplicitDropout": {"head": lambda: nn.Linear(3, 2)},
    "Factorization": {"U": lambda: normal(6, 4), "V": lambda: normal(5, 4)},
    "LastLayer": {"module": lambda: NET, "head": lambda: NET[3]},
    "Measurements": {"matrices": lambda: normal(7, 6, 5), "values": lambda: normal(7)},
    "MaxNorm": {"radius": lambda: 1.0},
    "Moments": {"xx": lambda: gram(2), "yx": lambda: torch.zeros(3, 2).double(), "yy": lambda: gram(3)},
    "Optimum": {"rank": lambda: 1},
    "Product": {"laws": lambda: [Bernoulli(0.5, 2), Bernoulli(0.3, 3)]},
    "ReLUNet": {"weights": lambda: [normal(3, 4), normal(2, 3)]},
    "Reflected": {"loss": CrossEntropy},
    "Report": {"sites": lambda: (), "findings": lambda: (), "loss": lambda: "Squared", "network": lambda: "net"},
    "Sample": {"inputs": lambda: normal(5, 4), "targets": lambda: normal(5, 2)},
    "Site": {"module": lambda: NET, "layer": lambda: NET[1], "shape": lambda: (5,)},
    "SlidingBlock": {"size": lambda: 6, "block": lambda: 2},
    "Threat": {"norm": lambda: "l2", "radius": lambda: 0.1},
    "attack": {"model": classifier, "data": labeled},
    "attacks.affine_map": {"model": lambda: nn.Linear(4, 3).double(), "inputs": lambda: normal(5, 4)},
    "attacks.linear_attack": {"model": lambda: nn.Linear(4, 3).double()},
    "attacks.margins": {"outputs": lambda: normal(8, 3)},
    "attacks.proportion": {"count": lambda: 2, "total": lambda: 5},
    "attacks.smallest_margins": {"model": lambda: nn.Linear(4, 3).double()},
    "audit": {"module": classifier, "data": labeled, "rates": lambda: (0.3,), "draws": lambda: 2},
    "audits.Finding": {"level": lambda: "note"},
    "audits.AuditedSite": {"shape": lambda: (3,)},
    "audits.SiteReport": {"site": lambda: report().sites[0].site},
    "audits.audit_numbers": {"report": report},
    "bounds.adversarial": {
        "data_radius": lambda: 2.0,
        "margin": lambda: 1.0,
        "radius": lambda: 0.1,
        "error": lambda: 0.1,
    },
    "bounds.completion": {"alpha": lambda: 1.0, "shape": lambda: (6, 5), "examples": lambda: 20, "risk": lambda: 0.1},
    "bounds.initial_norm": {"inputs": lambda: 4},
    "training.lazy_norm": {"inputs": lambda: 4, "width": lambda: 6},
    "training.lazy_start": {"inputs": lambda: 4, "width": lambda: 6},
    "datasets.read_chunks": {"path": table},
    "evidence.decide": {"claim": claim},
    "evidence.Claim": {"check": lambda: tuple, "control": lambda: tuple},
    "norms.weight_matrices": {"weights": two_layer},
    "norms.weighted_trace": {
        "matrix": lambda: normal(3, 2),
        "row_weights": lambda: torch.tensor([0.2, 0.3, 0.5]).double(),
        "column_weights": lambda: torch.tensor([0.4, 0.6]).double(),
    },
    **{
        f"predictions.{name}": {"prediction": prediction, "targets": lambda: normal(8, 1, seed=9), "level": lambda: 0.5}
        for name in ("calibration", "conformal_factor", "fit_noise")
    },
    "predictions.expected_calibration_error": {
        "probabilities": lambda: normal(8, 3).softmax(-1),
        "labels": lambda: torch.arange(8) % 3,
    },
    "predictive": {"masks": lambda: Bernoulli(0.3, 5)},
    "recommenders.against_popularity": {
        "ranker": lambda: DropoutAutoencoder(0.3, 1.0).fit(ratings()),
        "split": lambda: hold_out_users(ratings(), 0.3),
    },
    "DropoutCompletion": {"width": lambda: 2, "sweeps": lambda: 2},
    "recommenders.RidgeCompletion": {"width": lambda: 2, "sweeps": lambda: 2},
    "DropoutCompletionCV": {
        "widths": lambda: 2,
        "drops": lambda: (0.3,),
        "estimator": lambda: DropoutCompletion(sweeps=2),
    },
    "DropoutAutoencoder": {"drop": lambda: 0.3, "ridge": lambda: 1.0},
    "ImplicitDropoutCompletion": {"width": lambda: 2, "sweeps": lambda: 2},
    "AutoencoderCompletion": {"ridge": lambda: 1.0, "implicit": lambda: 0.5},
    "StackedCompletion": {"members": lambda: [DropoutCompletion(2, sweeps=2)]},
    "recommenders.StackedRanker": {"members": lambda: [DropoutAutoencoder(0.3, 1.0)]},
    "DropoutRegressor": {"hidden": lambda: (3,), "epochs": lambda: 1, "samples": lambda: 5, "batch_size": lambda: 8},
    "DropoutClassifier": {"hidden": lambda: (3,), "epochs": lambda: 1, "samples": lambda: 5, "batch_size": lambda: 8},
    "verify": {"ids": lambda: ["thesis-thm17"]},
    "reproduce": {"ids": lambda: ["mianjy2018-fig1"], "out": lambda: table().parent},
    "bounds.completion_alpha": {"model": lambda: Factorization(normal(6, 4), normal(5, 4)), "data": entries},
    "bounds.completion_condition": {"data": entries},
    "bounds.completion_constant": {"shape": lambda: (6, 5)},
    "bounds.hoeffding": {"ranges": lambda: [1.0, 2.0]},
    "bounds.lazy": {"margin": lambda: 0.1, "steps": lambda: 100, "inputs": lambda: 4},
    "bounds.lazy_setting": {"margin": lambda: 0.1, "steps": lambda: 100.0, "inputs": lambda: 4},
    "bounds.gate_margin": {"data": signed, "width": lambda: 8, "steps": lambda: 5},
    "bounds.linear_margin": {"data": signed},
    "bounds.rademacher": {
        "alpha": lambda: 1.0,
        "norm": lambda: 1.0,
        "examples": lambda: 10,
        "retentivity": lambda: 0.5,
    },
    "bounds.relu": {"model": relu, "data": lambda: signed(40), "retentivity": lambda: 0.5},
    "bounds.relu_alpha": {"model": relu, "data": signed},
    "bounds.surveyed": {"model": relu, "data": signed},
    "coadaptation.accuracy_by_width": {"model": relu, "data": signed},
    "coadaptation.evaluate": {"model": lambda: relu(3), "data": labeled, "kept": lambda: torch.ones(2, 6).double()},
    "coadaptation.evenness": {"values": lambda: normal(4)},
    "coadaptation.export": {
        "model": lambda: relu(3),
        "data": labeled,
        "kept": lambda: torch.tensor([1.0, 1, 1, 0, 0, 0]),
    },
    "coadaptation.smallest": {"model": lambda: relu(3), "data": labeled},
    "coadaptation.subnetwork_outputs": {"model": lambda: relu(3), "kept": lambda: torch.ones(2, 6).double()},
    "coadaptation.Subnetwork": {"kept": lambda: torch.ones(3)},
    "coadaptation.Subnetworks": {"accuracies": lambda: torch.ones(3), "widths": lambda: torch.ones(3)},
    "coadaptation.draw": {"count": lambda: 3},
    "datasets.Ratings": {"users": lambda: np.arange(3), "items": lambda: np.arange(3), "values": lambda: np.ones(3)},
    "datasets.Chunk": {"users": lambda: np.arange(3), "items": lambda: np.arange(3), "values": lambda: np.ones(3)},
    "datasets.planted_ratings": {"size": lambda: (20, 15, 100), "rank": lambda: 2},
    "effective_strength": {"widths": lambda: (3, 4), "drop": lambda: 0.3},
    "evidence.Comparison": {"left": lambda: 1.0, "relation": lambda: "==", "right": lambda: 1.0},
    "evidence.compare": {"left": lambda: 1.0, "relation": lambda: "==", "right": lambda: 1.0},
    "evidence.engine": {"name": lambda: "local"},
    "layers.explicit_consistency": {
        "module": lambda: nn.Sequential(
            droptics.ExplicitDropout(0.5, nn.Linear(3, 2), droptics.CrossEntropy(), "sampled")
        )
    },
    "explicit_penalty": {"module": lambda: nn.Sequential(droptics.ExplicitDropout(0.5, nn.Linear(3, 2)))},
    "landscapes.critical_points": {
        "family": lambda: Autoencoder,
        "data": lambda: Moments.of_map(gram(3)),
        "masks": lambda: Bernoulli(0.3, 2),
    },
    "landscapes.portrait": {
        "data": lambda: Moments.of_map(torch.tensor([[2.0]]).double()),
        "masks": lambda: Bernoulli(0.3, 2),
        "resolution": lambda: 5,
        "steps": lambda: 5,
    },
    "landscapes.hessian_action": {"direction": lambda: (normal(3, 5), normal(4, 5))},
    "linalg.allocate": {
        "values": lambda: torch.tensor([3.0, 2, 1]),
        "strengths": lambda: torch.tensor([0.1, 0.2, 0.3]),
    },
    "linalg.equalize_columns": {"factor": lambda: normal(4, 3), "companions": lambda: normal(4, 3)},
    "linalg.equalize_columns_": {"factor": lambda: normal(4, 3)},
    "linalg.equalizer": {"gram": gram},
    "linalg.k_support_shrink": {"values": lambda: torch.tensor([3.0, 2, 1]), "k": lambda: 2, "strength": lambda: 0.1},
    "linalg.schur_horn": {"values": lambda: torch.tensor([3.0, 1]), "diagonal": lambda: torch.tensor([2.0, 2])},
    "linalg.shrink": {"values": lambda: torch.tensor([3.0, 2, 1]), "strength": lambda: 0.1},
    "linalg.shrink_unequal": {
        "values": lambda: torch.tensor([3.0, 2, 1]),
        "strengths": lambda: torch.tensor([0.1, 0.2, 0.3]),
    },
    "norms.k_support": {"values": lambda: torch.tensor([3.0, 2, 1]), "k": lambda: 2},
    "norms.path_norm": {"weights": two_layer},
    "optimal_factors": {"optimum": lambda: optimum(TwoLayerLinear, sample(), Bernoulli(0.3, 5))},
    "optimal_head": {"model": lambda: LastLayer.of(small_network())},
    "optimum": {"family": lambda: TwoLayerLinear},
    "optimum_of_map": {"matrix": lambda: normal(4, 3)},
    "optima.optimum_of_maps": {"matrices": lambda: normal(2, 4, 3)},
    "optima.deep_optimum": {"masks": lambda: Product([Bernoulli(0.3, 3), Bernoulli(0.2, 2)])},
    "penalties.second_order": {"loss": Squared},
    "perturb": {"model": lambda: classifier().eval()},  # it leaves the mode, and so the draws, to its caller
    "rank_one_network": {"output": lambda: normal(3), "input": lambda: normal(4), "widths": lambda: (2, 3)},
    "recommenders.hold_out_users": {"ratings": ratings},
    "recommenders.ranking": {
        "scores": lambda: np.arange(12.0).reshape(3, 4),
        "seen": lambda: None,
        "relevant": lambda: np.eye(3, 4),
        "at": lambda: (1, 2),
    },
    "equalization.order_gaps": {"model": deep, "masks": lambda: Product([Bernoulli(0.3, 3), Bernoulli(0.2, 2)])},
    "recommenders.diagnose": {"model": fitted},
    "relu_cost": {"model": lambda: relu(3), "sample": sample, "masks": lambda: Bernoulli(0.3, 10)},
    "relu_criterion": {"model": lambda: relu(3), "sample": sample, "masks": lambda: Bernoulli(0.3, 10)},
    "rescale": {"scales": lambda: torch.tensor([1.0, 2, 0.5, 3, 1]).double()},
    "robust_accuracy": {"model": classifier, "data": labeled, "methods": lambda: [Pgd(steps=2)]},
    "robustness_curve": {"model": classifier, "data": labeled, "radii": lambda: [0.1, 0.2]},
    "sub_penalties": {"model": deep, "masks": lambda: Product([Bernoulli(0.3, 3), Bernoulli(0.2, 2)])},
    "train": {"settings": lambda: Settings(steps=2, step_size=1e-3), "objective": Plain},
    "training.Settings": {"steps": lambda: 2, "step_size": lambda: 1e-3},
    "tune_rates": {
        "module": classifier,
        "train": labeled,
        "validation": labeled,
        "fit": lambda: Fit(epochs=1, looks=1),
        "scan": lambda: (0.0, 0.5),
        "progress": lambda: False,
    },
    "training.ResNet": {"width": lambda: 4, "base": lambda: 4},
    "training.SmallCnn": {"width": lambda: 4, "base": lambda: 4},
    "training.LazyRun": {"model": relu, "run": run, "subnetworks": lambda: (relu(),), "drift": lambda: torch.ones(1)},
    "training.train_lazy": {"start": relu, "data": signed, "drop": lambda: 0.5, "steps": lambda: 2},
    "training.Iterate": {"multipliers": lambda: None},
    "training.masked_step": {"multipliers": lambda: torch.ones(5).double()},
    "training.with_previous": {"steps": lambda: [1, 5]},
    "training.log_steps": {"steps": lambda: 100},
}
NAMES: dict[str, Callable[[], Any]] = {
    "model": two_layer,
    "data": sample,
    "masks": lambda: Bernoulli(0.3, 5),
    "drop": lambda: 0.3,
    "inputs": lambda: labeled().inputs,
    "targets": lambda: labeled().targets,
    "threat": lambda: Threat("l2", 0.1),
    "method": lambda: Pgd(steps=2),
    "matrix": gram,
    "U": lambda: normal(3, 5, seed=1),
    "V": lambda: normal(4, 5, seed=2),
    "head": lambda: nn.Linear(3, 2),
    "generator": lambda: torch.Generator().manual_seed(0),
    "confidence": lambda: 0.9,
    "claim": lambda: "thesis-thm18",
}
NET = classifier()


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of the parameters, with ranges; those of a class are its fields or the arguments of __init__."""
    target = function.__init__ if isinstance(function, type) and _written(function) else function
    try:
        return get_type_hints(target, include_extras=True)
    except NameError:
        return {}


def _written(kind: type) -> bool:
    """Whether a dataclass writes its own __init__."""
    return not is_dataclass(kind) or kind.__init__.__code__.co_filename != "<string>"


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The call, by position where that is possible: rules are chosen by their first argument."""
    arguments, positional = dict(arguments), []
    for key, parameter in parameters(function).items():
        if key not in arguments:
            break
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL):
            positional.append(arguments.pop(key))
    result = function(*positional, **arguments)
    # by the rule of scikit-learn an estimator looks at its parameters when it is fitted
    return result.fit(*examples(result)) if hasattr(result, "get_params") else result


def examples(estimator: Any) -> tuple[Any, ...]:
    """What such an estimator is fitted to."""
    if type(estimator).__module__.startswith("droptics.recommenders"):
        return (ratings(),)
    inputs = labeled(12).inputs.numpy()
    return inputs, (labeled(12).targets.numpy() if isinstance(estimator, ClassifierMixin) else inputs[:, 0])


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def valid_arguments(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of one valid call: those without default, and those that are listed above."""
    listed, hints, found = CALLS.get(name, {}), hints_of(function), {}
    for key, parameter in parameters(function).items():
        if key in listed:
            found[key] = listed[key]()
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        elif parameter.default is parameter.empty:
            found[key] = NAMES[key]() if key in NAMES else by_kind(hints.get(key, Any), key)
    return found


def by_kind(hint: Any, key: str) -> Any:
    """A value of the annotated kind."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        tensors = (normal(4, 3), normal(3, 3), normal(4), torch.arange(4) % 2, np.arange(3))
        candidates = (2, 0.5, 1, 0, 0.0, *tensors, "cpu")
        return next(value for value in candidates if parts[1](value))
    if origin is Union or isinstance(hint, types.UnionType):
        return None if type(None) in parts else by_kind(parts[0], key)
    if origin is Literal:
        return parts[0]
    if isinstance(origin, type) and issubclass(origin, tuple):
        return tuple(by_kind(part, key) for part in parts if part is not Ellipsis)
    if origin is not None and isinstance(origin, type) and issubclass(origin, dict | types.MappingProxyType):
        return {}
    plain = {float: 0.5, int: 2, bool: True, str: "text", Tensor: normal(4, 3), Any: 0.5, Path: Path("x")}
    if hint in plain:
        return plain[hint]
    if isinstance(origin, type) and "Mapping" in origin.__name__:
        return {}
    if isinstance(origin, type) and "Sequence" in origin.__name__:
        return [by_kind(parts[0], key)]
    if origin is not None and "Callable" in str(origin):
        return lambda *_: None
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return hint(**valid_arguments(hint.__name__, hint))
    raise LookupError(f"no valid value is known for the parameter {key}: {hint}; add one in tests/hostile/calls.py")


class Hostile(NamedTuple):
    """A value for one parameter, whether it is invalid, and whether its numbers are finite."""

    label: str
    value: Any
    invalid: bool
    finite: bool


class Nothing:
    """An object of no use."""


def scalars() -> Iterator[tuple[str, Any]]:
    yield from (
        ("None", None),
        ("text", "text"),
        ("'1'", "1"),
        ("object", Nothing()),
        ("1j", 1j),
        ("[]", []),
        ("{}", {}),
    )
    yield from ((repr(value), value) for value in (math.nan, math.inf, -math.inf, -1, -1.5, 0, 0.0, 1, 1.5, 2))
    yield from ((repr(value), value) for value in (1e300, -1e300, 1e-300, 10**30, 10**12, True))
    yield from (("np.int64(3)", np.int64(3)), ("np.float32(.5)", np.float32(0.5)), ("tensor(.5)", torch.tensor(0.5)))
    yield from (("ones(2, 2)", torch.ones(2, 2)), ("nan tensor", torch.tensor(math.nan)))


def tensors(valid: Any) -> Iterator[tuple[str, Any]]:
    yield from (("None", None), ("text", "text"), ("object", Nothing()), ("3", 3), ("{}", {}), ("['a']", ["a"]))
    if not isinstance(valid, Tensor):
        return
    empty = valid[:0] if valid.ndim else valid
    yield from (("empty", empty), ("one more dimension", valid[None]), ("scalar", valid.flatten()[0]))
    yield from (("one row more", torch.cat([valid, valid[:1]]) if valid.ndim else valid), ("meta", valid.to("meta")))
    yield from (("complex", valid.to(torch.complex64)), ("bool", valid.bool()), ("sparse", _sparse(valid)))
    if valid.is_floating_point():
        yield from (("integers", valid.long()), ("nan", valid * math.nan), ("infinite", valid / 0))
        yield from (
            ("half", valid.half()),
            ("eight bits", valid.to(torch.float8_e4m3fn)),
            ("zeros", valid * 0),
            ("tiny", valid * 1e-150),
            ("negative", -valid.abs()),
        )
        largest = torch.finfo(valid.dtype).max ** 0.7
        yield ("huge", valid * largest)
    else:
        yield from (("floats", valid.double()), ("negative", -1 - valid), ("too large", valid + 10**6))


def scaled(value: Any, factor: float, dtype: torch.dtype) -> Any:
    """The same model, data, network or tensors in other units and of a given type; what has no numbers stays."""
    if isinstance(value, Tensor):
        return (value * factor).to(dtype) if value.is_floating_point() else value
    if isinstance(value, Moments):
        squared = (part * factor * factor for part in (value.xx, value.yx, value.yy))
        return Moments(*(part.to(dtype) for part in squared))
    if isinstance(value, nn.Module):
        copied = copy.deepcopy(value).to(dtype)
        with torch.no_grad():
            for parameter in copied.parameters():
                parameter.mul_(factor)
        return copied
    if isinstance(value, LastLayer):
        module = scaled(value.module, factor, dtype)
        name = next(name for name, part in value.module.named_modules() if part is value.head)
        return LastLayer(module, module.get_submodule(name))
    if isinstance(value, Model | Data):
        changed = {item.name: scaled(getattr(value, item.name), factor, dtype) for item in fields(value)}
        return type(value)(**changed)
    if isinstance(value, list | tuple) and value and all(isinstance(part, Tensor | Model) for part in value):
        return type(value)(scaled(part, factor, dtype) for part in value)
    return value


def huge(valid: Any) -> Iterator[tuple[str, Any]]:
    """Models, networks and data of finite numbers whose squares, products or sums are none."""
    if not isinstance(valid, Model | Data | nn.Module):
        return
    for dtype, factors in ((torch.float64, (1e70, 1e100, 1e150, 1e200, 1e300)), (torch.float32, (1e9, 1e18, 1e30))):
        for factor in factors:
            with contextlib.suppress(ValueError):  # data say by themselves what is too large
                yield f"times {factor} in {dtype}", scaled(valid, factor, dtype)


def _sparse(valid: Tensor) -> Tensor:
    return valid.to_sparse() if valid.ndim else valid


def hostile(name: str, key: str, hint: Any, valid: Any) -> Iterator[Hostile]:
    """What to try for one parameter; invalid is what its annotation excludes, or what no caller can mean."""
    check = described(hint)
    accepts = (lambda _: True) if check is None else check.accepts
    pairs = tensors(valid) if isinstance(valid, Tensor) else scalars()
    wrong = (
        (type(item).__name__, item)
        for item in (torch.nn.Identity(), Bernoulli(0.5, 3), entries(), measurements(), two_layer())
    )
    for label, value in (*pairs, *huge(valid), *(wrong if not isinstance(valid, float | int | str | bool) else ())):
        finite = is_finite(value)
        bad_numbers = isinstance(value, Tensor) and not finite and check is not None
        yield Hostile(label, value, not accepts(value) or bad_numbers, finite)


def is_finite(value: Any) -> bool:
    """Whether no number in it is NaN or infinite."""
    return not unsound(value)


def unsound(value: Any, depth: int = 0) -> str:
    """What is not finite in a result: "nan", "inf" or nothing; an infinite bound only says that it is vacuous."""
    if isinstance(value, Tensor):
        if value.device.type == "meta" or not value.is_floating_point() or value.layout != torch.strided:
            return ""
        value = value.double()  # of eight bits torch cannot tell
        return "nan" if bool(value.isnan().any()) else "inf" if bool(value.isinf().any()) else ""
    if isinstance(value, np.ndarray):
        return unsound(torch.from_numpy(value.copy())) if value.dtype.kind == "f" else ""
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else "inf" if math.isinf(value) else ""
    parts: list[Any] = []
    if isinstance(value, Estimate):  # where no bound on the rounding is known the interval is the whole line
        ends = (value.lower, value.upper)
        return unsound(value.value) or ("nan" if any(unsound(end) == "nan" for end in ends) else "")
    if isinstance(value, Bound):
        return "nan" if math.isnan(value.value) or any(map(math.isnan, value.terms.values())) else ""
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, item.name, None) for item in fields(value)]
    found = {unsound(part, depth + 1) for part in parts} if depth < 4 else set()
    return "nan" if "nan" in found else "inf" if "inf" in found else ""
