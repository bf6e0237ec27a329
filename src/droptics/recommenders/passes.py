"""Sums over rows of factors in one pass, for processors whose registers hold a row: AVX-512 at up to 96 factors.

`dots` and `combine` (vectors.py) by turns wait: to add the lanes of a sum takes steps of which each needs the one
before, and five sums are too few to hide how long a product takes. Here the lanes of eight ratings are added amid the
products of the next eight, and R^T t of the eight before. From the first cache of a Skylake, at width 80, R^T R p takes
4.5 ns a rating where those take 6.3, residuals with squares 5.2 where they take 12; products alone take 2.1 and 3.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from typing import Any

from droptics.linalg.intrinsics import cgutils, intrinsic, ir, types
from droptics.recommenders.vectors import BYTES, EIGHT, INDEX, Writer

# vectors of a row whose factors and sums, with those of eight ratings, 32 registers hold
FUSED = 6 if BYTES == 64 else 0


class _Pass:
    """What `through` does to rows of so many vectors; times are counted in turns of eight ratings."""

    def __init__(self, write: Writer, vectors: int, span: list[Any], with_: Any, held: Any, into: list[Any]) -> None:
        self.write, self.builder, self.vectors, self.held = write, write.builder, vectors, held
        self.places, self.begin, self.end, self.rated = span
        self.with_ = [write.load(there) for there in self.of(with_)]
        self.goals = [self.of(target) for target in into]
        self.sums = [[cgutils.alloca_once_value(self.builder, write.load(there)) for there in goal]
                     for goal in self.goals]  # fmt: skip
        self.kept = [cgutils.alloca_once(self.builder, write.vector) for _ in range(EIGHT)]

    def of(self, row: Any) -> list[Any]:
        """Addresses of the vectors of a row."""
        return [self.write.beyond(row, INDEX(k * self.write.lanes)) for k in range(self.vectors)]

    def rows_at(self, first: Any) -> list[Any]:
        return self.write.addresses(self.places, self.builder.add(self.begin, first))

    def multiply(self, first: Any, meanwhile: Iterator[None]) -> None:
        """Keep the sums of eight ratings before their lanes are added; a step of something else after each vector.

        The pass that has ratings comes first: it asks for rows ahead, for two lines of the cache at a time, which come
        together.
        """
        found = [self.write.zero] * EIGHT
        for row in self.rows_at(self.builder.add(first, INDEX(2 * EIGHT))) if self.rated is not None else []:
            for there in self.of(row)[::2]:
                self.write.ask(there)
        for factor, *lefts in zip(self.with_, *map(self.of, self.rows_at(first)), strict=True):
            found = [self.write.add_product(self.write.load(left), factor, total)
                     for left, total in zip(lefts, found, strict=True)]  # fmt: skip
            next(meanwhile, None)
        _finish(meanwhile)
        for variable, total in zip(self.kept, found, strict=True):
            self.builder.store(total, variable)

    def fold(self, first: Any, length: Any) -> Iterator[None]:
        """From the sums that were kept to t, which is held, and its square in `length`."""
        t = self.write.zero
        for found in self.write.folds([self.builder.load(variable) for variable in self.kept]):
            t = found[0]
            yield
        if self.rated is not None:
            left = self.builder.sub(self.builder.sub(self.end, self.begin), first)
            t = self.builder.fsub(self.write.load_up_to(self.write.row(self.rated, first), left), t)
        self.builder.store(self.write.add_product(t, t, self.builder.load(length)), length)
        self.write.store(t, self.held)

    def combine(self, first: Any) -> Iterator[None]:
        """Add R^T t of eight ratings whose t is held, one after the other."""
        for k, row in enumerate(self.rows_at(first) if self.sums else []):
            factor = self.write.everywhere(self.write.beyond(self.held, INDEX(k)))
            for m, there in enumerate(self.of(row)):
                value = self.write.load(there)
                for total, other in zip(self.sums, (factor, value), strict=False):
                    self.write.grow(total[m], value, other)
            yield

    def store(self) -> None:
        for goal, found in zip(self.goals, self.sums, strict=True):
            for there, total in zip(goal, found, strict=True):
                self.write.store(self.builder.load(total), there)


def _finish(steps: Iterator[None]) -> None:
    deque(steps, 0)


def _by_turns(folded: Iterator[None], combined: Iterator[None]) -> Iterator[None]:
    """A step of a fold, and two ratings of R^T t, which need what is held until the fold is at its end."""
    for _ in range(EIGHT // 2):
        _finish(islice(folded, 1))
        _finish(islice(combined, 2))
        yield
    _finish(folded)


# parameters: numba compiles it as it does kernels, and hands its arguments on one by one
def _through(_: Any, table: Any, span: Any, with_: Any, room: Any, rated: Any, into: Any, back: Any) -> tuple[Any, Any]:
    """|t|^2 of t = R w, or of rated - R w unless `rated` is None, R the rows at a span (places, begin, end).

    R^T t is added to into[0] and the squares of R to into[1], where they are given. There is a row at least, and rows
    are whole vectors, at most FUSED; `room` has place for eight numbers. The last eight ratings first if `back`.
    """

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = Writer(context, builder, table.dtype)
        source, second, slot = map(write.array, (table, with_, room), (given[0], *given[2:4]))
        named, targets = write.parts(span, given[1]), write.parts(into, given[5])
        known = None if rated == types.none else write.array(rated, given[4])
        length = cgutils.alloca_once_value(builder, write.resized(write.zero, EIGHT))
        ratings = builder.sub(named[2], named[1])
        turns = builder.udiv(builder.add(ratings, INDEX(EIGHT - 1)), INDEX(EIGHT))

        def place(turn: Any, before: int = 0) -> Any:
            """Where the eight of a turn, or of one before it, begin."""
            turn = builder.sub(turn, INDEX(before))
            other = builder.sub(builder.sub(turns, INDEX(1)), turn)
            return builder.mul(builder.select(given[6], other, turn), INDEX(EIGHT))

        def all_turns(vectors: int) -> None:
            rows = [write.row(array, INDEX(0)) for array in (second, slot, *targets)]
            work = _Pass(write, vectors, [*named, known], rows[0], rows[1], rows[2:])
            work.multiply(place(INDEX(0)), iter(()))
            with builder.if_then(builder.icmp_unsigned(">", turns, INDEX(1))):
                work.multiply(place(INDEX(1)), work.fold(place(INDEX(0)), length))
                with cgutils.for_range_slice(builder, INDEX(2), turns, INDEX(1)) as (turn, _):
                    folded, combined = work.fold(place(turn, 1), length), work.combine(place(turn, 2))
                    work.multiply(place(turn), _by_turns(folded, combined))
                _finish(work.combine(place(turns, 2)))
            _finish(work.fold(place(turns, 1), length))
            _finish(work.combine(place(turns, 1)))
            work.store()

        after = builder.append_basic_block("after")
        choice = builder.switch(builder.udiv(builder.extract_value(source.shape, 1), INDEX(write.lanes)), after)
        for vectors in range(1, FUSED + 1):
            case = builder.append_basic_block(f"vectors.{vectors}")
            choice.add_case(INDEX(vectors), case)
            builder.position_at_end(case)
            all_turns(vectors)
            builder.branch(after)
        builder.position_at_end(after)
        found = [builder.extract_element(builder.load(length), ir.IntType(32)(k)) for k in range(EIGHT)]
        exact = found if write.bits == 64 else [builder.fpext(part, ir.DoubleType()) for part in found]
        return reduce(builder.fadd, exact)

    return types.float64(table, span, with_, room, rated, into, back), generate


through: Any = intrinsic(_through)
