"""Two versions of droptics on the same small questions: what got slower?

    python benchmarks/versions.py OLD NEW                     two checkouts, or their src folders
    python benchmarks/versions.py OLD NEW optimum head        only questions whose names contain one of the words
    python benchmarks/versions.py OLD NEW --out FILE.json     keep what was measured

Each version runs in a process of its own on one thread. They take many short turns at every question on one
core, so that whatever else the machine does hits both; the ratio is the median over turns of CPU seconds of NEW over
CPU seconds of OLD, printed with the quartiles. Where code lies in memory makes one process up to twice as slow as
another at a question of 100 microseconds, so several pairs of processes take turns. Every question that lost more than
a tenth is named, and the exit status says so.

Questions are small on purpose: where a call takes microseconds, every check and every error bound shows. What large
problems take is measured by the other scripts of this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOST = 1.1
TURN = 0.01  # seconds of one turn

Question = Callable[[], Callable[[], object]]
QUESTIONS: dict[str, Question] = {}


def question(name: str) -> Callable[[Question], Question]:
    """Register a function that prepares a question and returns the call to time."""

    def register(prepare: Question) -> Question:
        QUESTIONS[name] = prepare
        return prepare

    return register


def _two_layer(kind: str = "moments", dtype: str = "float64") -> Any:
    import torch  # noqa: PLC0415 - in the process that measures only

    from droptics import Moments, Sample, TwoLayerLinear  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64).to(getattr(torch, dtype))  # noqa: E731
    inputs = draw(50, 5)
    sample = Sample(inputs, inputs @ draw(5, 3) + draw(50, 3) / 10)
    data = sample if kind == "sample" else Moments.of_sample(sample)
    return TwoLayerLinear(draw(3, 4), draw(5, 4)), data


def _linear(ask: str, kind: str, masks: str = "Bernoulli(0.5, 4)", method: str = "ClosedForm()") -> Question:
    def prepare() -> Callable[[], object]:
        import droptics  # noqa: PLC0415

        model, data = _two_layer(kind)
        law, how = eval(masks, vars(droptics).copy() | _names()), eval(method, _names())
        function = getattr(droptics, ask)
        if ask in ("penalty", "criterion"):
            return lambda: function(model, data, law, how)
        return lambda: function(model, data, law)

    return prepare


def _names() -> dict[str, Any]:
    import droptics  # noqa: PLC0415

    return {name: getattr(droptics, name) for name in ("Bernoulli", "Block", "ClosedForm", "MonteCarlo", "Enumerate")}


for _ask in ("penalty", "criterion", "certify", "induced", "envelope", "equalize"):
    for _kind in ("moments", "sample"):
        QUESTIONS[f"{_ask}, two layers, {_kind}"] = _linear(_ask, _kind)
QUESTIONS["penalty, two layers, moments, DropBlock"] = _linear("penalty", "moments", "Block(0.5, 4, 2)")
for _ask in ("penalty", "criterion"):
    for _kind in ("moments", "sample"):
        for _method in ("MonteCarlo(200)", "Enumerate()"):
            QUESTIONS[f"{_ask}, two layers, {_kind}, {_method}"] = _linear(_ask, _kind, method=_method)


@question("penalty and its gradient, two layers, moments")
def _() -> Callable[[], object]:
    from droptics import Bernoulli, penalty  # noqa: PLC0415

    model, data = _two_layer()
    model = type(model)(model.U.requires_grad_(True), model.V.requires_grad_(True))
    masks = Bernoulli(0.5, 4)

    def ask() -> object:
        model.U.grad = model.V.grad = None
        return penalty(model, data, masks).value.backward()

    return ask


def _optimum(kind: str, masks: str, family: str = "TwoLayerLinear", dtype: str = "float64") -> Question:
    def prepare() -> Callable[[], object]:
        import droptics  # noqa: PLC0415

        _, data = _two_layer(kind, dtype)
        law = eval(masks, _names())
        kind_of = getattr(droptics, family)
        return lambda: droptics.optimum(kind_of, data, law)

    return prepare


for _kind in ("moments", "sample"):
    QUESTIONS[f"optimum, two layers, {_kind}"] = _optimum(_kind, "Bernoulli(0.5, 4)")
    QUESTIONS[f"optimum, two layers, {_kind}, DropBlock"] = _optimum(_kind, "Block(0.5, 4, 2)")
QUESTIONS["optimum, two layers, sample, float32"] = _optimum("sample", "Bernoulli(0.5, 4)", dtype="float32")
QUESTIONS["optimum, linear head, sample"] = _optimum("sample", "Bernoulli(0.5, 5)", "LastLayer")
QUESTIONS["optimum, DropConnect, moments"] = _optimum("moments", "Bernoulli(0.5, 20)", "Connections")


@question("optimum, linear head, 2000 x 128")
def _() -> Callable[[], object]:
    import torch  # noqa: PLC0415

    from droptics import Bernoulli, LastLayer, Sample, optimum  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    features = torch.relu(torch.randn(2000, 128, generator=generator))
    sample, masks = Sample(features, torch.randn(2000, 10, generator=generator)), Bernoulli(0.5, 128)
    return lambda: optimum(LastLayer, sample, masks)


@question("optimum of a map, 120 x 80")
def _() -> Callable[[], object]:
    import torch  # noqa: PLC0415

    from droptics import Bernoulli, Moments, TwoLayerLinear, optimum  # noqa: PLC0415

    data = Moments.of_map(torch.randn(120, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    masks = Bernoulli(0.5, 20)
    return lambda: optimum(TwoLayerLinear, data, masks)


def _deep(ask: str, kind: str) -> Question:
    def prepare() -> Callable[[], object]:
        import torch  # noqa: PLC0415

        import droptics  # noqa: PLC0415

        _, data = _two_layer(kind)
        generator = torch.Generator().manual_seed(1)
        sizes = ((4, 5), (4, 4), (3, 4))
        weights = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes]
        model, masks = droptics.DeepLinear(weights), droptics.Product([droptics.Bernoulli(0.5, 4)] * 2)
        if ask == "optimum":
            return lambda: droptics.optimum(droptics.DeepLinear, data, masks)
        function = getattr(droptics, ask)
        return lambda: function(model, data, masks)

    return prepare


for _ask in ("penalty", "criterion", "induced", "envelope", "optimum"):
    QUESTIONS[f"{_ask}, deep linear, moments"] = _deep(_ask, "moments")
QUESTIONS["penalty, deep linear, sample"] = _deep("penalty", "sample")


def _relu(ask: str, method: str) -> Question:
    def prepare() -> Callable[[], object]:
        import torch  # noqa: PLC0415

        import droptics  # noqa: PLC0415

        _, data = _two_layer("sample")
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((4, 5), (3, 4))]
        model, masks = (
            droptics.ReLUNet(weights),
            droptics.Product([droptics.Bernoulli(p, n) for p, n in ((0.2, 5), (0.5, 4))]),
        )
        function, how = getattr(droptics, ask), eval(method, _names())
        return lambda: function(model, data, masks, how)

    return prepare


for _method in ("ClosedForm()", "MonteCarlo(200)"):
    QUESTIONS[f"penalty, ReLU network, {_method}"] = _relu("penalty", _method)


@question("penalty, last layer of a module, sample")
def _() -> Callable[[], object]:
    import torch  # noqa: PLC0415

    from droptics import Bernoulli, LastLayer, penalty  # noqa: PLC0415

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).double()
    model, (_, data), masks = LastLayer.of(module), _two_layer("sample"), Bernoulli(0.5, 4)
    return lambda: penalty(model, data, masks)


@question("penalty, factorization, 100 entries")
def _() -> Callable[[], object]:
    import torch  # noqa: PLC0415

    from droptics import Bernoulli, Entries, Factorization, penalty  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    place = torch.arange(100)
    data = Entries(place // 10, place % 10, draw(100), (10, 10))
    model, masks = Factorization(draw(10, 4), draw(10, 4)), Bernoulli(0.5, 4)
    return lambda: penalty(model, data, masks)


def _masks(law: str, ask: str) -> Question:
    def prepare() -> Callable[[], object]:
        import torch  # noqa: PLC0415

        masks, generator = eval(law, _names()), torch.Generator().manual_seed(0)
        if ask == "multipliers":
            return lambda: masks.multipliers(100, generator)
        return lambda: getattr(masks, ask)

    return prepare


for _law in ("Bernoulli(0.5, 8)", "Block(0.5, 8, 2)"):
    QUESTIONS[f"masks, {_law}, 100 draws"] = _masks(_law, "multipliers")
    QUESTIONS[f"masks, {_law}, made"] = lambda law=_law: lambda: eval(law, _names())  # type: ignore[misc]


def _layer(name: str, arguments: str, shape: tuple[int, ...]) -> Question:
    def prepare() -> Callable[[], object]:
        import torch  # noqa: PLC0415

        import droptics.layers as layers  # noqa: PLC0415

        torch.manual_seed(0)
        layer = eval(f"layers.{name}({arguments})", {"layers": layers, "torch": torch})
        layer.train()
        inputs = torch.randn(*shape)
        return lambda: layer(inputs)

    return prepare


QUESTIONS["layer, DropBlock, 8 x 16 x 14 x 14"] = _layer("DropBlock", "0.1, 3", (8, 16, 14, 14))
QUESTIONS["layer, DropConnect, 32 x 64"] = _layer("DropConnect", "64, 10, drop=0.3", (32, 64))
QUESTIONS["layer, ExplicitDropout, 32 x 64"] = _layer("ExplicitDropout", "0.3, torch.nn.Linear(64, 10)", (32, 64))


def serve(words: list[str]) -> None:
    """Answer names of questions with CPU seconds a call, one line each; first the names themselves."""
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    calls: dict[str, tuple[Callable[[], object], int]] = {}
    for name, prepare in QUESTIONS.items():
        if words and not any(word in name for word in words):
            continue
        try:
            call = prepare()
            for _ in range(3):
                call()
            begin, count = time.perf_counter(), 0
            while time.perf_counter() - begin < TURN:
                call()
                count += 1
            calls[name] = (call, max(count, 1))
        except Exception as problem:
            print(f"{name}: {problem}", file=sys.stderr)
    print(json.dumps(list(calls)), flush=True)
    for line in sys.stdin:
        call, count = calls[line.strip()]
        begin = time.process_time()
        for _ in range(count):
            call()
        print((time.process_time() - begin) / count, flush=True)


def _start(tree: Path, words: list[str]) -> subprocess.Popen[str]:
    source = tree / "src" if (tree / "src").is_dir() else tree
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(source.resolve())}
    command = [sys.executable, __file__, "--serve", *words]
    server = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if hasattr(os, "sched_setaffinity"):  # both on one core, with the same neighbours: they never run at once
        os.sched_setaffinity(server.pid, {max(os.sched_getaffinity(0))})
    return server


def _asked(server: subprocess.Popen[str], name: str) -> float:
    assert server.stdin is not None
    assert server.stdout is not None
    print(name, file=server.stdin, flush=True)
    return float(server.stdout.readline())


def compare(old: Path, new: Path, words: list[str], rounds: int, pairs: int) -> list[dict[str, Any]]:
    """One row per question that both versions know, from several pairs of fresh processes."""
    turns: dict[str, list[tuple[float, float]]] = {}
    for _ in range(pairs):
        for name, taken in _turns(old, new, words, rounds).items():
            turns.setdefault(name, []).extend(taken)
    return [_row(name, taken) for name, taken in turns.items()]


def _turns(old: Path, new: Path, words: list[str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    servers = _start(old, words), _start(new, words)
    known = [json.loads(server.stdout.readline()) for server in servers]  # type: ignore[union-attr]
    names = [name for name in known[0] if name in known[1]]
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            first, second = (0, 1) if turn % 2 == 0 else (1, 0)
            taken = {first: _asked(servers[first], name), second: _asked(servers[second], name)}
            turns[name].append((taken[0], taken[1]))
    for server in servers:
        server.stdin.close()  # type: ignore[union-attr]
        server.wait()
    return turns


def _row(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = sorted(new / old for old, new in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {"question": name, "old": before, "new": after, "ratio": middle, "low": low, "high": high}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rounds", type=int, default=40, help="turns of every pair of processes")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--about", default="", help="a sentence on the two versions, kept in the file")
    options = parser.parse_intermixed_args()
    rows = compare(options.old, options.new, options.words, options.rounds, options.pairs)
    width = max(len(row["question"]) for row in rows)
    print(f"{'question':<{width}} {'old us':>9} {'new us':>9}  ratio  quartiles")
    for row in rows:
        print(
            f"{row['question']:<{width}} {row['old'] * 1e6:9.1f} {row['new'] * 1e6:9.1f}  {row['ratio']:.3f}"
            f"  {row['low']:.3f} to {row['high']:.3f}{'  LOST' if row['ratio'] > LOST else ''}"
        )
    if options.out is not None:
        about = f"{options.about} {options.pairs} pairs of processes, {options.rounds} turns each, on one core.".strip()
        where = {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "versions": {"python": platform.python_version()},
        }
        options.out.write_text(json.dumps({**where, "about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    lost = [row["question"] for row in rows if row["ratio"] > LOST]
    print(f"more than {LOST - 1:.0%} slower: {'; '.join(lost) if lost else 'none'}")
    return 1 if lost else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    else:
        sys.exit(main())
