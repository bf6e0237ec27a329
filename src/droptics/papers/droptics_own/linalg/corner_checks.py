"""What more claims on algebra, bounds, layers and transforms compare, in branches that single instances pass by."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import optimize, sparse
from scipy.sparse.linalg import aslinearoperator
from torch import Tensor, nn
from torch.nn import functional

from droptics.arrays import Array
from droptics.bounds import completion, completion_alpha, completion_constant, data_norm, rademacher, relu, relu_alpha
from droptics.data import Entries, Moments, Sample
from droptics.envelopes import envelope
from droptics.evidence.claims import Comparison, compare
from droptics.layers import DropConnect, ExplicitDropout, VarianceHead
from droptics.linalg import k_support_shrink
from droptics.linalg.gram import _by_panels
from droptics.linalg.krylov import Operator
from droptics.linalg.sums import products
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Product
from droptics.models import Connections, DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import certify, optimum, optimum_of_map
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.optima.shrunk_checks import _least
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, sample, tensor, uniform
from droptics.penalties import MonteCarlo, criterion, penalty, risk


def proximal_batches(scale: float) -> list[Comparison]:
    """Proximal maps of squared k-support norms, in batches: least nearby, with the slopes of differences."""
    found: list[Comparison] = []
    values = normal(1, 3, 5)
    for k in (1, 2, 4, 5):
        free = values.clone().requires_grad_()
        strength = tensor(0.7).requires_grad_()
        told = k_support_shrink(free, strength, k)
        for row, one in zip(values, told.detach(), strict=True):
            found.append(compare(k_support_shrink(row, 0.7, k), "==", scale * one, f"alone and in a batch, k = {k}"))
            found.append(compare(one, "==", scale * _proximal(row, 0.7, k), f"by weights of the entries, k = {k}"))
            least = float((row - one).square().sum() + 0.7 * k_support(one, k) ** 2)
            for seed in range(6):
                near = one + 1e-3 * normal(seed, 5)
                other = (row - near).square().sum() + 0.7 * k_support(near, k) ** 2
                found.append(compare(least, "<=", float(other), f"least nearby, k = {k}"))
        slope = torch.autograd.grad(told.square().sum(), (free, strength))
        step = 1e-6
        for number, way in enumerate((normal(9, 3, 5), tensor(1.0))):
            moved = [
                k_support_shrink(
                    values + sign * step * way if number == 0 else values, 0.7 if number == 0 else 0.7 + sign * step, k
                )
                for sign in (1.0, -1.0)
            ]
            change = (moved[0].square().sum() - moved[1].square().sum()) / (2 * step)
            found.append(
                compare((slope[number] * way).sum(), "==", scale * change, f"slope {number}, k = {k}", precision=1e-5)
            )
    return found


def _proximal(values: Tensor, strength: float, k: int) -> Tensor:
    """Argmin |v - w|^2 + s min_t sum_i w_i^2 / t_i over 0 <= t_i <= 1, sum t_i <= k: w_i = v_i t_i / (t_i + s).

    What is left, s sum_i v_i^2 / (t_i + s), is least where t_i = level |v_i| - s, cut to [0, 1].
    """
    sizes = values.abs().numpy()

    def weights(level: float) -> Array:
        return np.clip(level * sizes - strength, 0, 1)

    full = (1 + strength) / sizes.min()
    level = full if len(sizes) <= k else optimize.brentq(lambda level: weights(level).sum() - k, 0, full, xtol=1e-14)
    shares = torch.from_numpy(weights(level))
    return values * shares / (shares + strength)


def products_and_maps(scale: float) -> list[Comparison]:
    """Products in blocks, and optima of maps given as arrays, sparse matrices and operators."""
    found: list[Comparison] = []
    for *stack, rows, left, right in ((5, 3, 4), (3000, 3, 300), (2100, 400, 5), (2, 700, 3, 4), (2, 3, 40, 70, 2)):
        a, b = normal(2, *stack, rows, left), normal(3, *stack, rows, right)
        wanted = torch.from_numpy(np.einsum("...ni,...nj->...ij", a.numpy(), b.numpy()))
        found.append(compare(products(a, b), "==", scale * wanted, f"product of {rows} rows"))
        free = a.clone().requires_grad_()
        found.append(compare(products(free, b).detach(), "==", wanted, f"with a derivative, {rows} rows"))
    energy = Operator.of(torch.full((3, 2), 2.0**100)).energy  # squares beyond single precision
    found.append(compare(energy / 2.0**200, "==", 6.0 * scale, "squared norm of single precision"))
    wide = normal(4, 9, 7)
    found.append(compare(_by_panels(wide), "==", scale * wide.mT @ wide, "panels"))
    for map_ in (normal(5, 9, 6) * (normal(6, 9, 6) > 0), normal(5, 6, 9) * (normal(6, 6, 9) > 0)):
        found += _optima_of_map(map_, scale)
    return found


def _optima_of_map(map_: Tensor, scale: float) -> list[Comparison]:
    """The optimum of a map in every form, against every rank, and the products of its operators."""
    found: list[Comparison] = []
    rows, columns = map_.shape
    forms = {
        "array": map_.numpy(),
        "sparse": sparse.csr_matrix(map_.numpy()),
        "operator": aslinearoperator(map_.numpy()),
        "sparse tensor": map_.to_sparse(),
    }
    law = Bernoulli(0.4, 3)
    best = optimum_of_map(map_, law)
    spectrum = torch.linalg.svdvals(map_)
    lam = 0.4 / 0.6 / 3
    # ranks whose cut values stay positive; the least of them all
    least, rank = min(
        (float(spectrum[r:].square().sum() + lam * spectrum[:r].sum() ** 2 / (1 + lam * r)), r)
        for r in range(1, 4)
        if spectrum[r - 1] > lam * spectrum[:r].sum() / (1 + lam * r)
    )
    for name, form in {"tensor": map_, **forms}.items():
        told_map = optimum_of_map(form, law)
        U, V = told_map.model.tensors
        own = (map_ - U @ V.mT).square().sum() + 3 * lam * (U.square().sum(0) * V.square().sum(0)).sum()
        found.append(compare(told_map.objective, "==", scale * least, f"optimum of a map, {name}", precision=1e-10))
        found.append(compare(own, "==", least, f"reached by its factors, {name}", precision=1e-10))
        found.append(same(told_map.rank, rank, f"its rank, {name}"))
        found.append(compare(told_map.bound, "<=", least, f"bound, {name}"))
        if name == "tensor":
            continue
        acting = Operator.of(form)
        block, other = normal(7, columns, 2), normal(8, rows, 2)
        found.append(compare(acting.energy, "==", scale * map_.square().sum(), f"energy, {name}"))
        found.append(compare(acting.times(block), "==", map_ @ block, f"product, {name}"))
        found.append(compare(acting.transposed(other), "==", map_.mT @ other, f"transposed, {name}"))
    found.append(compare(float(best.certified and best.reason is None), "==", 1.0, "certified"))
    return found


def stated_bounds(scale: float) -> list[Comparison]:
    """Bounds of completed matrices from models and data are the formulas of the theorem, constants included."""
    found: list[Comparison] = []
    rows, columns = torch.arange(40) % 8, (torch.arange(40) * 3 // 2) % 6
    data = Entries(rows, columns, uniform(1, 40) - 0.5, (8, 6))
    model = Factorization(0.4 * normal(2, 8, 3), 0.4 * normal(3, 6, 3))
    for smoothing in (0.25, 0.5):
        p, q = (
            (1 - smoothing) * torch.bincount(side, minlength=size).double() / 40 + smoothing / size
            for side, size in ((rows, 8), (columns, 6))
        )
        alpha = 3 * ((p @ model.U.square()) * (q @ model.V.square())).sum()
        found.append(compare(completion_alpha(model, data, smoothing), "==", scale * alpha, f"alpha, {smoothing}"))
        told = completion(model, data, smoothing=smoothing, confidence=0.9)
        index = math.ceil(4 * math.log2(float(alpha)))
        grid, failure = 2 ** (index / 4), 0.1 / ((math.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)
        ratio = math.log(14) / math.log(8)
        K = math.sqrt(2 * ratio) / (1 - smoothing) + ratio * math.sqrt(6 * math.log(8) / 40) / (3 * smoothing)
        found.append(compare(completion_constant((8, 6), 40, smoothing), "==", scale * K, f"constant, {smoothing}"))
        error = ((model.U[rows] * model.V[columns]).sum(1) - data.values).square().mean()
        terms = [
            float(error),
            8 * K * math.sqrt(grid * 8 * math.log(8) / 40),
            4 * math.sqrt(math.log(2 / failure) / 80),
        ]
        found.append(compare(list(told.terms.values()), "==", [scale * term for term in terms], f"terms, {smoothing}"))
        found.append(compare(told.value, "==", scale * sum(terms), f"bound, {smoothing}"))
    # the longer side counts, whichever it is; numbers alone assume the condition, data mix their marginals by half
    for shape in ((9, 5), (5, 9), (7, 7)):
        long, short, ratio = max(shape), min(shape), math.log(sum(shape)) / math.log(max(shape))
        K = math.sqrt(2 * ratio) + ratio * (short / long) ** 0.25 / 3
        found.append(compare(completion_constant(shape), "==", scale * K, f"constant under the condition, {shape}"))
        told = completion(alpha=0.7, shape=shape, examples=200, risk=0.2, confidence=0.9)
        whole = 0.2 + 8 * K * math.sqrt(0.7 * long * math.log(long) / 200) + 4 * math.sqrt(math.log(20) / 400)
        found.append(compare(told.value, "==", scale * whole, f"bound under the condition, {shape}"))
        fitted = completion(alpha=0.7, shape=shape, examples=200, confidence=0.9)
        found.append(compare(fitted.value, "==", scale * (whole - 0.2), f"without a risk, {shape}"))
    usual, half = completion(model, data), completion(model, data, smoothing=0.5, confidence=0.95)
    found.append(compare(usual.value, "==", scale * half.value, "half of the marginals, 95 % by default"))
    printed = completion(alpha=0.7, shape=(5, 9), examples=200, risk=0.2, printed=True)
    whole = 0.2 + 8 * math.sqrt((2 * 0.7 * 9 * math.log(9) + math.log(2 / 0.05) / 4) / 200)
    found.append(compare(printed.value, "==", scale * whole, "as printed"))
    return found


def stated_network_bounds(scale: float) -> list[Comparison]:
    """Bounds of two-layer networks from models and data are the formulas of the theorems, constants included."""
    found: list[Comparison] = []
    net = ReLUNet([0.5 * normal(4, 3, 4), 0.3 * normal(5, 1, 3)], [torch.zeros(3).double(), torch.zeros(1).double()])
    examples = Sample(normal(6, 30, 4), uniform(7, 30, 1) - 0.5)
    hidden = examples.inputs @ net.weights[0].mT
    for symmetrized in (False, True):
        energies = hidden.square().mean(0) / 2 if symmetrized else torch.relu(hidden).square().mean(0)
        alpha = (net.weights[1][0].abs() * energies.sqrt()).sum()
        found.append(compare(relu_alpha(net, examples, symmetrized), "==", scale * alpha, f"alpha, {symmetrized}"))
        upper = rademacher(net, examples, retentivity=0.2, symmetrized=symmetrized)
        root = math.sqrt(2) if symmetrized else 0.2**-0.5
        norm = math.sqrt(30 * 4)
        found.append(compare(upper.value, "==", scale * 2 * float(alpha) * norm / 30 * root, f"upper, {symmetrized}"))
        lower = rademacher(net, examples, side="lower", symmetrized=symmetrized)
        found.append(compare(lower.value, "==", scale * float(alpha) * norm / 60, f"lower, {symmetrized}"))
        told = relu(net, examples, retentivity=0.2, symmetrized=symmetrized, confidence=0.9)
        index = math.ceil(4 * math.log2(float(alpha)))
        grid, failure = 2 ** (index / 4), 0.1 / ((math.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)
        signs = (1, -1) if symmetrized else (1,)
        base = sum(
            float((net.outputs(s * examples.inputs).clamp(-1, 1) - examples.targets).square().mean()) for s in signs
        ) / len(signs)
        tail = 12 * math.sqrt(math.log(2 / failure) / 60)
        value = base + 8 * 2 * grid * norm / 30 * root + tail
        found.append(compare(told.value, "==", scale * value * (2 if symmetrized else 1), f"risk, {symmetrized}"))
    other = normal(8, 4, 4)
    moment = other @ other.mT
    told_norm = (examples.inputs * torch.linalg.solve(moment, examples.inputs.mT).mT).sum().sqrt()
    found.append(compare(data_norm(examples, moment), "==", scale * told_norm, "norm by other examples"))
    return found


def transformed_answers(scale: float) -> list[Comparison]:
    """Penalties and criteria under torch.func: batches, gradients and directional derivatives are those one by one."""
    found: list[Comparison] = []
    data, law = sample(1, 5, 3, 2), Product([Bernoulli(0.3, 3), Bernoulli(tensor([0.2, 0.5]), 2)])
    first, last, biases = normal(2, 4, 2, 3), normal(3, 2, 2), (normal(4, 2), normal(5, 2))

    def whole(weight: Tensor) -> Tensor:
        return criterion(ReLUNet([weight, last], list(biases)), data, law).value

    each = torch.stack([whole(weight) for weight in first])
    found.append(compare(torch.func.vmap(whole)(first), "==", scale * each, "criteria in a batch"))
    slopes = []
    for weight in first:
        leaf = weight.clone().requires_grad_()
        slopes.append(torch.autograd.grad(whole(leaf), leaf)[0])
    found.append(compare(torch.func.grad(whole)(first[0]), "==", scale * slopes[0], "gradient"))
    batch = torch.func.vmap(torch.func.grad(whole))(first)
    found.append(compare(batch, "==", scale * torch.stack(slopes), "gradients in a batch"))
    way = normal(6, 2, 3)
    value, change, *_ = torch.func.jvp(whole, (first[0],), (way,))
    found.append(compare(change, "==", scale * (slopes[0] * way).sum(), "along a direction"))
    found.append(compare(value, "==", each[0], "with its value"))
    pair, coins = (normal(7, 3, 2, 4), normal(8, 3, 4)), Bernoulli(0.3, 4)

    def drawn(left: Tensor) -> Tensor:
        return penalty(TwoLayerLinear(left, pair[1]), data, coins, MonteCarlo(50, seed=1)).value

    alone = torch.stack([drawn(left) for left in pair[0]])
    found.append(compare(torch.func.vmap(drawn)(pair[0]), "==", scale * alone, "random masks in a batch"))

    def fields(left: Tensor) -> Tensor:
        told = penalty(TwoLayerLinear(left, pair[1]), data, coins, MonteCarlo(300, seed=1, confidence=0.9))
        assert told.guaranteed is not None
        parts = told.value, told.lower, told.upper, *told.guaranteed, told.error, told.cost, told.confidence
        return torch.stack([torch.as_tensor(part, dtype=left.dtype) for part in parts])

    singly = scale * torch.stack([fields(left) for left in pair[0]])
    found.append(compare(torch.func.vmap(fields)(pair[0]), "==", singly, "estimates by random masks in a batch"))

    def closed(left: Tensor) -> Tensor:
        return penalty(TwoLayerLinear(left, pair[1]), data, coins).value

    there, spectra = normal(10, 4), normal(9, 3, 4)
    for name, function, points in (
        ("a penalty", closed, pair[0]),
        ("random masks", drawn, pair[0]),
        ("proximal maps", lambda values: (there * k_support_shrink(values, 0.4, 2)).sum(), spectra),
        ("strengths", lambda rate: (there * k_support_shrink(spectra[0], rate, 2)).sum(), tensor([0.1, 0.4, 1.5])),
    ):
        own = []
        for point in points:
            leaf = point.clone().requires_grad_()
            own.append(torch.autograd.grad(function(leaf), leaf)[0])
        batch = torch.func.vmap(torch.func.grad(function))(points)
        found.append(compare(batch, "==", scale * torch.stack(own), f"gradients of {name} in a batch"))
        values = torch.func.vmap(function)(points)
        found.append(compare(values, "==", scale * torch.stack([function(point) for point in points]), name))
    return [*found, *_proximal_maps(scale)]


def _proximal_maps(scale: float) -> list[Comparison]:
    """Proximal maps of rows and of columns, and along directions of their values and of their strengths."""
    found: list[Comparison] = []
    there, spectra = normal(10, 4), normal(9, 3, 4)

    def shrunk(values: Tensor) -> Tensor:
        return k_support_shrink(values, 0.4, 2)

    rows = torch.stack([shrunk(row) for row in spectra])
    found.append(compare(torch.func.vmap(shrunk)(spectra), "==", scale * rows, "proximal maps in a batch"))
    _, bent, *_ = torch.func.jvp(shrunk, (spectra[0],), (there,))
    slope = torch.autograd.functional.jacobian(shrunk, spectra[0])
    found.append(compare(bent, "==", scale * slope @ there, "a proximal map along a direction"))
    columns = torch.func.vmap(shrunk, in_dims=1, out_dims=1)(spectra.mT)
    found.append(compare(columns, "==", scale * rows.mT, "proximal maps of columns"))
    rates, ways = tensor([0.1, 0.4, 1.5]), normal(11, 3)

    def along(values: Tensor, rate: Tensor, way: Tensor) -> Tensor:
        found: Tensor = torch.func.jvp(lambda v, r: k_support_shrink(v, r, 2), (values, rate), (there, way))[1]
        return found

    both = []
    for values, rate, way in zip(spectra, rates, ways, strict=True):
        first, second = torch.autograd.functional.jacobian(lambda v, r: k_support_shrink(v, r, 2), (values, rate))
        both.append(first @ there + second * way)
    moved = torch.func.vmap(along)(spectra, rates, ways)
    found.append(compare(moved, "==", scale * torch.stack(both), "along values and strengths in a batch"))
    return found


def single_precision(scale: float) -> list[Comparison]:
    """Envelopes in single precision lie within their error; certificates say why; data change their precision."""
    found: list[Comparison] = []
    two, deep = (
        TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)),
        DeepLinear([normal(3, 3, 4), normal(4, 3, 3), normal(5, 2, 3)]),
    )
    cases = (
        ("one rate", two, Bernoulli(0.3, 3), sample(1, 9, 4, 2)),
        ("unequal rates", two, Bernoulli(tensor([0.1, 0.3, 0.6]), 3), sample(1, 9, 4, 2)),
        ("moments", two, Bernoulli(0.3, 3), moments(6, 2, 4)),
        ("deep", deep, Product([Bernoulli(0.3, 3), Bernoulli(0.4, 3)]), sample(1, 9, 4, 2)),
    )
    for name, model, law, data in cases:
        weights = [part.float() for part in model.tensors]
        low = DeepLinear(weights) if isinstance(model, DeepLinear) else TwoLayerLinear(weights[0], weights[1])
        wide = [part.double() for part in weights]
        high = DeepLinear(wide) if isinstance(model, DeepLinear) else TwoLayerLinear(wide[0], wide[1])
        known = data.to(dtype=torch.float32)
        exact = envelope(high, known.to(dtype=torch.float64), law)
        told = envelope(low, known, law)
        gap = (told.value.double() - exact.value).abs()
        found.append(compare(gap, "<=", told.error, f"rounding of the envelope, {name}", precision=0.0))
        found.append(compare(told.value.double(), "==", scale * exact.value, f"envelope, {name}", precision=1e-4))
        whole = penalty(high, known.to(dtype=torch.float64), law).value
        found.append(compare(exact.value, "<=", whole / min(scale, 1.0), f"below the penalty, {name}"))
        proof = certify(low, known, law)
        objective = risk(high, known.to(dtype=torch.float64)) + whole
        found.append(compare(proof.objective, "==", scale * objective, f"objective of a certificate, {name}"))
        found.append(compare(proof.gap, "==", proof.objective - proof.bound, f"gap, {name}"))
        if name in ("one rate", "moments"):
            wide_data = known.to(dtype=torch.float64)
            second = wide_data if isinstance(wide_data, Moments) else Moments.of_sample(wide_data)
            values = torch.linalg.svdvals(second.yx @ torch.linalg.inv(torch.linalg.cholesky(second.xx)).mT)
            least = second.yy.trace() - values.square().sum() + _least(values, 0.3 / 0.7, 3)[1]
            # lowered by what single moments may be off
            found.append(compare(proof.bound, "==", scale * least, f"bound, {name}", precision=1e-4))
            found.append(compare(proof.bound, "<=", scale * least, f"bound from below, {name}"))
        else:  # attained here by the optimum
            full = known.to(dtype=torch.float64)
            reached = criterion(optimum(type(high), full, law).model, full, law).value
            found.append(compare(proof.bound, "==", scale * reached, f"bound, {name}"))
        found.append(compare(proof.relative_gap, "==", scale * proof.gap / proof.bound, f"relative gap, {name}"))
        found.append(compare(float(proof.reason is not None), "==", 1.0, f"a reason, {name}"))
    cells = Connections(normal(7, 2, 3), normal(8, 4, 3))
    law, data = Bernoulli(0.3, 12), moments(9, 2, 4)
    proof = certify(cells, data, law)
    kept = criterion(cells, data, law).value
    found.append(compare(proof.objective, "==", scale * kept, "objective of connections"))
    found.append(compare(proof.bound, "<=", kept, "bound of connections"))
    table = Sample(normal(1, 4, 3), normal(2, 4, 2), weights=uniform(3, 4) + 0.1)
    narrow = table.to(dtype=torch.float32)
    found.append(
        compare(narrow.inputs, "==", scale * table.inputs.float(), "inputs in another precision", precision=1e-7)
    )
    assert isinstance(Moments.of_map(torch.eye(2).double()).to(dtype=torch.float32).xx, Tensor)
    return found


def small_layers(scale: float) -> list[Comparison]:
    """Layers with masks on weights, and with variances, in the forms that defaults leave out."""
    found: list[Comparison] = []
    head, inputs = linear_head(1, 4, 3), normal(2, 6, 4)
    rates = tensor([0.1, 0.3, 0.5, 0.2])
    kept, chances = every_coin(rates.tolist())
    with torch.no_grad():
        outputs = torch.stack([head(inputs * mask / (1 - rates)) for mask in kept])
        mean = torch.tensordot(chances, outputs, 1)
        moved = outputs - mean
        joint = torch.einsum("m,mni,mnj->nij", chances, moved, moved)
        for full in (False, True):
            told_mean, told = VarianceHead(head, rates, full=full)(inputs)
            wanted = joint if full else joint.diagonal(dim1=1, dim2=2)
            found.append(compare(told, "==", scale * wanted, f"variance, full {full}"))
            found.append(compare(told_mean, "==", mean, f"mean, full {full}"))
        for per_example in (False, True):
            layer = DropConnect.of(head, 0.3, per_example=per_example).train()
            torch.manual_seed(4)
            told = layer(inputs)
            torch.manual_seed(4)
            shape = (6, 3, 4) if per_example else (3, 4)
            weights = functional.dropout(head.weight.expand(shape), 0.3)
            wanted = torch.einsum("noi,ni->no", weights.expand(6, 3, 4), inputs) + head.bias
            found.append(compare(told, "==", scale * wanted, f"weights that drop, per example {per_example}"))
            found.append(compare(layer.eval()(inputs), "==", head(inputs), "in evaluation mode"))
            fresh = DropConnect(4, 3, 0.6, bias=False, per_example=per_example, dtype=torch.float64).train()
            torch.manual_seed(5)
            told = fresh(inputs)
            torch.manual_seed(5)
            weights = functional.dropout(fresh.weight.expand(shape), 0.6).expand(6, 3, 4)
            wanted = torch.einsum("noi,ni->no", weights, inputs)
            found.append(compare(told, "==", scale * wanted, f"a layer without offsets, per example {per_example}"))
            found.append(compare(fresh.eval()(inputs), "==", inputs @ fresh.weight.mT, "the same, in evaluation mode"))
    return found


def explicit_layers(scale: float) -> list[Comparison]:
    """Explicit penalties of tokens, over elements, as bounds, to second order and in half precision."""
    found: list[Comparison] = []
    head, inputs = linear_head(1, 4, 3), normal(2, 6, 4)
    one = linear_head(3, 4, 1)
    uniform_kept, odds = every_coin([0.3] * 4)
    with torch.no_grad():
        masked = torch.stack([head(inputs * mask / 0.7) for mask in uniform_kept])
        single = torch.stack([one(inputs * mask / 0.7) for mask in uniform_kept])
        squares = torch.tensordot(odds, (masked - head(inputs)).square().sum(-1), 1)
        entropy = torch.tensordot(odds, torch.logsumexp(masked, -1), 1) - torch.logsumexp(head(inputs), -1)
        margin = torch.tensordot(odds, functional.softplus(single[..., 0]), 1) - functional.softplus(one(inputs)[:, 0])
    told_squares = ExplicitDropout(0.3, head, Squared()).train()
    passed = told_squares(inputs.reshape(2, 3, 4))
    found.append(compare(passed, "==", scale * inputs.reshape(2, 3, 4), "inputs pass"))
    found.append(compare(told_squares.penalties, "==", scale * squares.reshape(2, 3), "squared penalties of tokens"))
    told_squares.eval()(inputs)
    nothing = [*told_squares.penalties.tolist(), float(told_squares.penalty)]
    found.append(compare(nothing, "==", 0.0, "none in eval mode"))
    shared = ExplicitDropout(0.3, head, Squared(), over="elements").train()
    shared(inputs)
    found.append(compare(shared.penalty, "==", scale * squares.mean() / 3, "over elements"))
    for name, layer_head, loss, truth in (
        ("classes", head, CrossEntropy(), entropy),
        ("margin", one, Logistic(), margin),
    ):
        bound = ExplicitDropout(0.3, layer_head, loss, "bound").train()
        bound(inputs)
        found.append(compare(bound.penalties, ">=", scale * truth, f"bound, {name}", precision=1e-12))
        # the average inside the logarithm, after each mask's mean move is taken away
        logits = [
            functional.pad(part, (0, int(name == "margin"))) for part in (masked if name == "classes" else single)
        ]
        with torch.no_grad():
            plain = functional.pad(layer_head(inputs), (0, int(name == "margin")))
            chances, moved = plain.softmax(-1), torch.stack(logits) - plain
            centered = moved - (chances * moved).sum(-1, keepdim=True)
            inside = torch.tensordot(odds, (chances * centered.exp()).sum(-1), 1).log()
        found.append(compare(bound.penalties, "==", scale * inside, f"the average inside the logarithm, {name}"))
        near = ExplicitDropout(1e-4, layer_head, loss, "second-order").train()
        near(inputs)
        out = layer_head(inputs).detach()
        rows = []
        for i in range(6):
            leaf = out[i].detach().requires_grad_()
            function = (
                (lambda z: torch.logsumexp(z, -1)) if name == "classes" else (lambda z: functional.softplus(z[0]))
            )
            hessian = torch.autograd.functional.hessian(function, leaf)
            moves = layer_head.weight * inputs[i]
            rows.append(0.5 * 1e-4 / (1 - 1e-4) * torch.einsum("ok,op,pk->", moves, hessian, moves))
        found.append(
            compare(near.penalties * 1e4, "==", scale * 1e4 * torch.stack(rows).detach(), f"second order, {name}")
        )
    rough = nn.Linear(4, 3).half()
    half = ExplicitDropout(0.3, rough, Squared()).train()
    half(inputs.half())
    weight = rough.weight.detach().double()
    wanted_half = 0.3 / 0.7 * (inputs.half().double().square() @ weight.square().sum(0))
    found.append(compare(half.penalties, "==", scale * wanted_half, "half precision", precision=1e-5))
    return found
