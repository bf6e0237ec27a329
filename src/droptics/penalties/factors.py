r"""A mask law as independent factors, with their exponential moments in closed form.

Outputs move by d = sum_j (z_j - 1) g_j. Where the law falls apart into independent coins, normals or short lists, so
does every E exp(w . d) = prod_f E exp(w . d_f), real w for certified bounds and imaginary ones for Fourier integrals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import Model
from droptics.penalties.unit_outputs import unit_outputs

# Masks of a law that is written out.
LISTED = 4096
# Elements of the largest intermediate tensor: a few of them stay in the cache of a core.
ROOM = 2**18


@dataclass(frozen=True, eq=False)
class Coins:
    """Independent coins: coin j moves the outputs by -g_j with probability drop_j, else by drop_j / (1 - drop_j) g_j.

    `values` are (..., outputs, coins), `drop` is (coins,) or (..., coins).
    """

    values: Tensor
    drop: Tensor

    @property
    def count(self) -> int:
        """Terms of the longest sum: how often it is rounded."""
        return self.values.shape[-1]

    @property
    def strength(self) -> Tensor:
        """Variance of every multiplier, (..., coins)."""
        return self.drop / (1 - self.drop)

    @property
    def reach(self) -> Tensor:
        """Most that one output can move, up to a factor of two, (...): what rounding is relative to."""
        return ((1 + self.strength) * self.values.abs().amax(-2)).sum(-1)

    def along(self, directions: Tensor) -> Coins:
        """The law of directions . d, for directions (..., rows, outputs)."""
        return Coins(directions @ self.values, self.drop)

    def centered(self, chances: Tensor) -> Coins:
        """The law of d_k - chances . d, for chances (..., outputs)."""
        return Coins(self.values - (chances.unsqueeze(-1) * self.values).sum(-2, keepdim=True), self.drop)

    def of_each(self) -> Coins:
        """Every output as an example of its own."""
        return Coins(self.values.unsqueeze(-2), self.drop)

    def unsqueezed(self) -> Coins:
        """One more dimension of examples, the same law for all along it."""
        return Coins(self.values.unsqueeze(-3), self.drop)

    def cumulant(self) -> Tensor:
        """Log E exp(d_k), (..., outputs)."""
        drop, strength = self.drop.unsqueeze(-2), self.strength.unsqueeze(-2)
        falls, stays = -self.values, strength * self.values
        far = torch.maximum(falls, stays) > large(self.values)
        near = torch.where(far, torch.zeros_like(falls), self.values)
        small = torch.log1p(drop * excess(-near) + (1 - drop) * excess(strength * near))
        # a coin that never falls has no logarithm, and its other side is certain
        log_drop = drop.clamp_min(torch.finfo(drop.dtype).tiny).log()
        wide = torch.logaddexp(log_drop + falls, torch.log1p(-drop) + stays)
        return torch.where(far, wide, small).sum(-1)

    def overflows(self, order: int = 2) -> Tensor:
        """Whether moments of this order would multiply numbers that are too `large`, (...)."""
        return (self.strength.clamp_min(1) * self.values.abs().amax(-2)).amax(-1) > 2 / order * large(self.values)

    def pair_cumulant(self, left: Tensor, right: Tensor) -> Tensor:
        """Log E exp(d_k + d_l) for pairs k = left, l = right, (..., pairs)."""
        drop, strength = self.drop.unsqueeze(-2), self.strength.unsqueeze(-2)
        values = torch.where(self.overflows()[..., None, None], torch.zeros_like(self.values), self.values)
        falls, stays = torch.expm1(-values), torch.expm1(strength * values)
        mean = drop * excess(-values) + (1 - drop) * excess(strength * values)
        # both of E e^(x + y) - 1 = E (e^x - 1)(e^y - 1) + E (e^x - 1) + E (e^y - 1) are sums without large terms
        falls_left, stays_left = drop * falls, (1 - drop) * stays
        total = falls_left[..., left, :] * falls[..., right, :]
        total = total + stays_left[..., left, :] * stays[..., right, :] + (mean[..., left, :] + mean[..., right, :])
        return torch.log1p(total).sum(-1)

    def tuple_cumulant(self, tuples: Tensor) -> Tensor:
        """Log E exp(d_k + d_l + ...) for every row (k, l, ...), (..., rows); not to the last digit where it is tiny."""
        drop, strength = self.drop.unsqueeze(-2), self.strength.unsqueeze(-2)
        wild = self.overflows(tuples.shape[-1])[..., None, None]
        values = torch.where(wild, torch.zeros_like(self.values), self.values)
        falls, stays = torch.exp(-values), torch.exp(strength * values)

        def product(sides: Tensor, rows: Tensor) -> Tensor:
            return math.prod((sides[..., column, :] for column in rows.mT[1:]), start=sides[..., rows[:, 0], :])

        pieces = tuples.split(max(1, ROOM // max(1, values[..., 0, :].numel())))
        sums = [drop * product(falls, rows) + (1 - drop) * product(stays, rows) for rows in pieces]
        return torch.cat([part.log().sum(-1) for part in sums], -1)

    def characteristic(self, times: Tensor) -> Tensor:
        """E exp(i t d) of the only output at every time t, (..., times)."""
        drop = self.drop.unsqueeze(-2)
        angles = times.unsqueeze(-1) * self.values
        ones = torch.ones_like(angles)
        falls, stays = torch.polar(ones, -angles), torch.polar(ones, self.strength.unsqueeze(-2) * angles)
        return (drop * falls + (1 - drop) * stays).prod(-1)

    def nodes(self, times: Tensor, places: Tensor, tilt: float) -> tuple[Tensor, Tensor]:
        """E exp(sum_k (tilt - i t_k) d_k), (..., nodes), over its value at t = 0, whose logarithm is the second tensor.

        Node n is at t_k = times[places[k, n]], for all outputs k.
        """
        tilted = tilt * self.values.sum(-2)
        falls = self.drop.clamp_min(torch.finfo(tilted.dtype).tiny).log() - tilted
        stays = torch.log1p(-self.drop) + self.strength * tilted
        both = torch.logaddexp(falls, stays)
        angles = times.unsqueeze(-1) * self.values.unsqueeze(-2)
        ones = torch.ones_like(angles)
        sides = torch.polar(ones, angles), torch.polar(ones, -self.strength * angles)
        chances = torch.exp(falls - both).unsqueeze(-2), torch.exp(stays - both).unsqueeze(-2)

        def product(piece: Tensor) -> Tensor:
            down, up = (
                math.prod((side[..., k, rows, :] for k, rows in enumerate(piece)), start=chance)
                for side, chance in zip(sides, chances, strict=True)
            )
            return (down + up).prod(-1)

        return torch.cat([product(piece) for piece in places.split(_share(self.values), -1)], -1), both.sum(-1)


@dataclass(frozen=True, eq=False)
class Normals:
    """Independent normal multipliers: outputs move by sum_j N(0, variance_j) g_j; values (..., outputs, units)."""

    values: Tensor
    variance: Tensor

    @property
    def count(self) -> int:
        return self.values.shape[-1]

    @property
    def reach(self) -> Tensor:
        return (self.variance * self.values.abs().amax(-2).square()).sum(-1)

    def along(self, directions: Tensor) -> Normals:
        return Normals(directions @ self.values, self.variance)

    def centered(self, chances: Tensor) -> Normals:
        return Normals(self.values - (chances.unsqueeze(-1) * self.values).sum(-2, keepdim=True), self.variance)

    def of_each(self) -> Normals:
        return Normals(self.values.unsqueeze(-2), self.variance)

    def unsqueezed(self) -> Normals:
        return Normals(self.values.unsqueeze(-3), self.variance)

    def cumulant(self) -> Tensor:
        return 0.5 * (self.values.square() * self.variance).sum(-1)

    def overflows(self, order: int = 2) -> Tensor:
        return self.reach > 4 / order**2 * large(self.values)

    def pair_cumulant(self, left: Tensor, right: Tensor) -> Tensor:
        return 0.5 * ((self.values[..., left, :] + self.values[..., right, :]).square() * self.variance).sum(-1)

    def tuple_cumulant(self, tuples: Tensor) -> Tensor:
        together = (self.values * self.variance) @ self.values.mT
        pairs = together[..., tuples.unsqueeze(-1), tuples.unsqueeze(-2)]
        return 0.5 * pairs.sum((-2, -1))

    def characteristic(self, times: Tensor) -> Tensor:
        spread = (self.values.square() * self.variance).sum(-1)
        return torch.exp(-0.5 * times.square() * spread).to(torch.promote_types(spread.dtype, torch.complex64))

    def nodes(self, times: Tensor, places: Tensor, tilt: float) -> tuple[Tensor, Tensor]:
        together = (self.values * self.variance) @ self.values.mT
        at = times[places].mT
        real, imaginary = -0.5 * ((at @ together) * at).sum(-1), -tilt * (at @ together).sum(-1)
        return torch.polar(real.exp(), imaginary), 0.5 * tilt**2 * together.sum((-2, -1))


@dataclass(frozen=True, eq=False)
class Listed:
    """A short list of moves (..., outputs, masks) with their probabilities (masks,)."""

    moves: Tensor
    probabilities: Tensor

    @property
    def count(self) -> int:
        return self.moves.shape[-1]

    @property
    def reach(self) -> Tensor:
        return 2 * self.moves.abs().amax((-2, -1))

    def along(self, directions: Tensor) -> Listed:
        return Listed(directions @ self.moves, self.probabilities)

    def centered(self, chances: Tensor) -> Listed:
        return Listed(self.moves - (chances.unsqueeze(-1) * self.moves).sum(-2, keepdim=True), self.probabilities)

    def of_each(self) -> Listed:
        return Listed(self.moves.unsqueeze(-2), self.probabilities)

    def unsqueezed(self) -> Listed:
        return Listed(self.moves.unsqueeze(-3), self.probabilities)

    def cumulant(self) -> Tensor:
        return torch.logsumexp(self.moves + self._logs(), -1)

    def overflows(self, order: int = 2) -> Tensor:
        return self.reach > 2 / order * large(self.moves)

    def pair_cumulant(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.logsumexp(self.moves[..., left, :] + self.moves[..., right, :] + self._logs(), -1)

    def tuple_cumulant(self, tuples: Tensor) -> Tensor:
        pieces = tuples.split(max(1, ROOM // max(1, self.moves[..., 0, :].numel())))
        return torch.cat([torch.logsumexp(self.moves[..., rows, :].sum(-2) + self._logs(), -1) for rows in pieces], -1)

    def characteristic(self, times: Tensor) -> Tensor:
        angles = times.unsqueeze(-1) * self.moves
        return (self.probabilities * torch.polar(torch.ones_like(angles), angles)).sum(-1)

    def nodes(self, times: Tensor, places: Tensor, tilt: float) -> tuple[Tensor, Tensor]:
        logs = tilt * self.moves.sum(-2) + self._logs()
        scale = torch.logsumexp(logs, -1)
        angles = times.unsqueeze(-1) * self.moves.unsqueeze(-2)
        turned, chances = (
            torch.polar(torch.ones_like(angles), -angles),
            torch.exp(logs - scale.unsqueeze(-1)).unsqueeze(-2),
        )
        found = [
            math.prod((turned[..., k, rows, :] for k, rows in enumerate(piece)), start=chances).sum(-1)
            for piece in places.split(_share(self.moves), -1)
        ]
        return torch.cat(found, -1), scale

    def _logs(self) -> Tensor:
        return self.probabilities.clamp_min(torch.finfo(self.probabilities.dtype).tiny).log()


Factor = Coins | Normals | Listed


@singledispatch
def factors(law: MaskLaw, contributions: Tensor) -> list[Factor]:
    """The law of the moves sum_j (z_j - 1) g_j for contributions g (..., outputs, units), as independent factors."""
    count = law.support_count
    if count is None or count > LISTED:
        many = "has no finite list of masks" if count is None else f"has {count} masks, more than {LISTED}"
        raise NoClosedForm(
            f"{type(law).__name__} is not known to fall apart into independent units, and {many}; "
            "use MonteCarlo(), or Enumerate() with a larger limit"
        )
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(LISTED), strict=True))
    moves = contributions @ (masks - 1).mT.to(contributions)
    return [Listed(moves, chances.to(contributions))]


@factors.register
def _(law: Bernoulli, contributions: Tensor) -> list[Factor]:
    return [Coins(contributions, law.drop.to(contributions))]


@factors.register
def _(law: Block, contributions: Tensor) -> list[Factor]:
    together = contributions.unflatten(-1, (len(law.drop), law.block)).sum(-1)
    return [Coins(together, law.drop.to(contributions))]


@factors.register
def _(law: Gaussian, contributions: Tensor) -> list[Factor]:
    return [Normals(contributions, law.variance.to(contributions))]


@factors.register
def _(law: Product, contributions: Tensor) -> list[Factor]:
    parts = contributions.split([part.size for part in law.laws], -1)
    return [factor for part, own in zip(law.laws, parts, strict=True) for factor in factors(part, own)]


def has_factors(law: MaskLaw) -> bool:
    """Whether `factors` knows the law."""
    if isinstance(law, Product):
        return all(has_factors(part) for part in law.laws)
    count = law.support_count
    known = factors.dispatch(type(law)) is not factors.dispatch(MaskLaw)
    return known or (count is not None and count <= LISTED)


def _share(values: Tensor) -> int:
    """How many nodes are worked at a time."""
    return max(1, ROOM // max(1, values[..., 0, :].numel()))


def large(values: Tensor) -> float:
    """Exponents beyond this are not multiplied with each other: the products would overflow (300 in float64)."""
    return 0.42 * math.log(torch.finfo(values.dtype).max)


def excess(exponent: Tensor) -> Tensor:
    """e^x - 1 - x without cancellation; the exponential series near zero."""
    near = exponent.abs() < 0.5
    inside = torch.where(near, exponent, torch.zeros_like(exponent))
    series = torch.ones_like(exponent)
    for order in range(17, 2, -1):
        series = 1 + series * inside / order
    outside = torch.where(near, torch.ones_like(exponent), exponent)
    return torch.where(near, 0.5 * inside.square() * series, torch.expm1(outside) - outside)


@dataclass(frozen=True, eq=False)
class Moves:
    """Outputs under multipliers z, for families linear in the mask, in float64: offset + sum_j z_j features_j head_j.

    offset (..., n, outputs), features (..., n, units), head (..., n or 1, outputs, units).
    """

    offset: Tensor
    features: Tensor
    head: Tensor

    @staticmethod
    def of(model: Model, inputs: Tensor) -> Moves:
        """Read off `unit_outputs`; what the masks leave alone is what is there when all units fall."""
        features, head = unit_outputs(model, inputs)
        nothing = torch.zeros(model.units, dtype=model.dtype, device=model.device)
        offset = model.outputs(inputs, nothing)
        return Moves(offset.double(), features.double(), head.double())

    def some(self, rows: Tensor) -> Moves:
        """Those of some examples, by their numbers."""
        head = self.head if self.head.shape[-3] == 1 else self.head[..., rows, :, :]
        return Moves(self.offset[..., rows, :], self.features[..., rows, :], head)

    def along(self, directions: Tensor) -> Moves:
        """The same for directions . outputs, directions (rows, outputs)."""
        return Moves(self.offset @ directions.mT, self.features, directions @ self.head)

    @property
    def elements(self) -> int:
        """Numbers of one example, all its units and outputs."""
        return self.head.shape[-1] * self.head.shape[-2] * max(self.offset.shape[:-2].numel(), 1)

    def part(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Mean outputs (..., m, outputs) and contributions (..., m, outputs, units) of some examples."""
        head = self.head if self.head.shape[-3] == 1 else self.head[..., start:stop, :, :]
        contributions = self.features[..., start:stop, :].unsqueeze(-2) * head
        return self.offset[..., start:stop, :] + contributions.sum(-1), contributions
