"""Training on one GPU: 50 runs of the 120 x 80, width 20 experiment (mianjy2018-alg1), and as many as fill it.

Everything is wall time with synchronization, in one call, random numbers included unless a row says otherwise:
- the persistent kernel against the compiled kernel on one CPU thread, one-by-one modules with autograd on the GPU, the
  same runs as batched products (eager and captured as a graph);
- the kernel alone at 50, 528 and 2112 runs, with the fraction reached of the limits: operations (21 thousand a
  run-step, against the rate of a large float32 product measured here) and memory (888 bytes a run-step, against that
  of a copy); one program holds one run, so that 50 runs are bound by the latency of three reductions a step;
- Penalized (L-BFGS) against Dropout until 1 % above the optimum.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache, partial

from harness import Row, clock, report  # isort: skip  (sets the number of threads before torch is loaded)

import torch

from bench_training import DROP, ETA, INPUTS, LAM, OUTPUTS, RUNS, WIDTH, descend, ours, population, start
from droptics.data import Moments
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import optimum
from droptics.training import Cosine, Dropout, Inverse, Penalized, Recording, train, triton_steps
from droptics.training.draws import Stream

DEVICE = "cuda"
STEPS = 10_000
BYTES = 4 * (INPUTS + OUTPUTS + WIDTH + 2)
FLOPS = 2 * (2 * INPUTS * WIDTH + 3 * OUTPUTS * WIDTH)


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Median wall seconds, after one call that compiles what has to be compiled."""
    call()
    found = []
    for _ in range(repeats):
        begin = clock(DEVICE)
        call()
        found.append(clock(DEVICE) - begin)
    return statistics.median(found)


@cache
def problem() -> tuple[TwoLayerLinear, Moments]:
    model = TwoLayerLinear(*(tensor.to(DEVICE) for tensor in start(RUNS).tensors))
    return model, Moments.of_map(population()).to(DEVICE)


def on_gpu(steps: int, engine: str) -> torch.Tensor:
    return descend(*problem(), steps, engine)


def modules(steps: int) -> None:
    """One run as people write it, on the GPU: nn.Linear, nn.Dropout, autograd, torch SGD."""
    matrix = population().to(DEVICE)
    net = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, WIDTH, bias=False),
        torch.nn.Dropout(DROP),
        torch.nn.Linear(WIDTH, OUTPUTS, bias=False),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=ETA * (1 - DROP) / 2)
    for _ in range(steps):
        x = torch.randn(1, INPUTS, device=DEVICE)
        loss = (net(x) - x @ matrix.T).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def ceilings() -> tuple[float, float, float]:
    """Float32 operations and bytes per second of a large product and a large copy; seconds of a graph node."""
    size = 8192
    a, b = (torch.randn(size, size, device=DEVICE) for _ in range(2))
    flops = 2 * size**3 / seconds(lambda: a @ b, 5)
    source = torch.empty(2**28, device=DEVICE)
    target = torch.empty_like(source)
    bandwidth = 2 * source.numel() * 4 / seconds(lambda: target.copy_(source), 5)
    small = torch.zeros(64, device=DEVICE)
    small.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(1000):
            small.add_(1)
    node = seconds(graph.replay, 5) / 1000
    return flops, bandwidth, node


def nodes_per_step() -> int:
    """Kernels that one step of batched products launches, counted by the profiler."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - loads a tracing library

    on_gpu(1, "products")
    counts = []
    for steps in (1, 21):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as traced:
            on_gpu(steps, "products")
            torch.cuda.synchronize()
        counts.append(sum("launch" in event.name.lower() for event in traced.events()))
    return max(1, round((counts[1] - counts[0]) / 20))


def end_to_end_rows(node: float) -> list[Row]:
    mine = seconds(partial(on_gpu, STEPS, "persistent"), 5)
    graph = seconds(partial(on_gpu, STEPS, "products"))
    eager = seconds(partial(on_gpu, 200, "torch")) * STEPS / 200
    one_by_one = seconds(partial(modules, 300)) * STEPS * RUNS / 300
    host = seconds(partial(ours, STEPS, RUNS), 1)
    found, expected = on_gpu(STEPS, "persistent"), ours(STEPS, RUNS)
    agreement = (
        f"objective {float(found.mean()):.4f} +- {float(found.std()) / RUNS**0.5:.4f} on the GPU, "
        f"{float(expected.mean()):.4f} +- {float(expected.std()) / RUNS**0.5:.4f} on the CPU"
    )
    setup = seconds(partial(on_gpu, 1, "persistent"), 5)
    rate = f"{RUNS * STEPS / mine:.3g} run-steps a second; {setup * 1e3:.1f} ms of it for one step"
    name = f"GPU, {RUNS} runs x {STEPS} single-sample steps, persistent kernel vs"
    rows = [
        Row(f"{name} {label}", mine, other, other / mine, agreement, rate)
        for label, other in (
            ("compiled kernel on one CPU thread", host),
            ("torch modules, autograd, one by one on the GPU", one_by_one),
            ('batched autograd on the GPU (engine="torch")', eager),
            ('captured graph (engine="products")', graph),
        )
    ]
    try:
        nodes = nodes_per_step()
    except Exception as error:  # the profiler is not there on every machine
        return [*rows, Row("captured graph: launch-bound limit", graph, None, None, "", f"no profiler: {error}")]
    limit = nodes * node * STEPS
    note = f"{limit / graph:.0%} of the launch-bound limit: {nodes} nodes of {node * 1e6:.2f} us a step"
    return [*rows, Row("GPU, captured graph vs batched autograd", graph, eager, eager / graph, agreement, note, limit)]


def kernel_rows(flops: float, bandwidth: float) -> list[Row]:
    """The kernel alone, on numbers that lie in memory."""
    rows = []
    law, data = Dropout(Bernoulli(DROP, WIDTH)), Moments.of_map(population()).to(DEVICE)
    for runs, steps in ((RUNS, 10_000), (132, 4096), (264, 2048), (528, 1024), (2112, 512)):
        stream = Stream(data, law, range(runs), 1, torch.device(DEVICE))
        count = min(stream.length, steps)
        draws = stream.next(count)
        drawing = seconds(partial(stream.next, count))
        assert draws.inputs is not None
        assert draws.targets is not None
        assert draws.multipliers is not None
        x, y, z = draws.inputs[:, :, 0], draws.targets[:, :, 0], draws.multipliers[:, :, 0]
        rates = torch.full((runs, count), 2e-4, device=DEVICE)
        weights = [
            torch.nn.functional.pad(tensor.to(DEVICE), (0, triton_steps.power_of_two(WIDTH) - WIDTH))
            for tensor in start(runs).tensors
        ]
        times = {
            warps: seconds(partial(triton_steps.descend, weights, WIDTH, x, y, z, rates, warps), 5)
            for warps in (2, 4, 8, 16)
        }
        chosen = seconds(partial(triton_steps.descend, weights, WIDTH, x, y, z, rates), 5)
        total = runs * count
        limit = max(FLOPS / flops, BYTES / bandwidth) * total
        table = ", ".join(f"{warps} warps {total / value:.3g}" for warps, value in times.items())
        note = (
            f"{total / chosen:.3g} run-steps/s, {chosen / count * 1e6:.2f} us a step; "
            f"{FLOPS * total / chosen / flops:.1%} of the arithmetic and "
            f"{BYTES * total / chosen / bandwidth:.1%} of the memory limit; drawing takes "
            f"{drawing / chosen:.1%} of it; run-steps/s by warps: {table}"
        )
        rows.append(Row(f"GPU, kernel alone, {runs} runs x {count} steps", chosen, None, None, "", note, limit))
    return rows


def to_one_percent_rows() -> list[Row]:
    matrix = population().double()
    law = Bernoulli(DROP, WIDTH)
    best = optimum(TwoLayerLinear, Moments.of_map(matrix), law)
    data = Moments.of_map(matrix).to(DEVICE)
    begin = TwoLayerLinear(*(tensor.double().to(DEVICE) for tensor in start(None).tensors))
    taken: dict[str, int] = {}

    def reach(name: str, objective: Penalized | Dropout, steps: int, every: int, **options: object) -> None:
        run = train(
            begin, data, objective, steps=steps, record=Recording(("objective",), at=range(0, steps + 1, every)),
            bound=best.bound, stop_gap=0.01, **options,  # type: ignore[arg-type]
        )  # fmt: skip
        taken[name] = run.steps if run.stopped == "certificate" else -1

    lbfgs = partial(torch.optim.LBFGS, line_search_fn="strong_wolfe", max_iter=1)
    exact = seconds(partial(reach, "exact", Penalized(law), 500, 2, step_size=1.0, optimizer=lbfgs))
    rows = []
    for name, options in (
        ("batch 128, Adam", {"step_size": 0.01, "batch_size": 128, "optimizer": torch.optim.Adam,
                             "schedule": Cosine(3000), "steps": 3000, "every": 20}),
        ("single samples, persistent kernel", {"step_size": 0.01, "batch_size": 1, "convention": "mianjy2018",
                                               "schedule": Inverse(10_000.0), "steps": 200_000, "every": 2000}),
    ):  # fmt: skip
        other = seconds(partial(reach, name, Dropout(law), **options), 2)  # type: ignore[arg-type]
        rows.append(
            Row(
                f"GPU, 1 % above the optimum, 120 x 80, width 20: Penalized (L-BFGS) vs Dropout, {name}",
                exact,
                other,
                other / exact,
                f"steps {taken['exact']} vs {taken[name]}",
                f"lambda {LAM}",
            )
        )
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    flops, bandwidth, node = ceilings()
    print(f"float32 product {flops / 1e12:.1f} TF/s, copy {bandwidth / 1e12:.2f} TB/s, graph node {node * 1e6:.2f} us")
    rows: list[Row] = []
    for part in (partial(kernel_rows, flops, bandwidth), partial(end_to_end_rows, node), to_one_percent_rows):
        rows += part()
        report("training_gpu", rows)
