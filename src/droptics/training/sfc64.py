"""NumPy's numbers from SFC64 by compiled loops, the same ones from the same generator: normals in float32, and coins.

NumPy calls its generator through two pointers for every number, 8 ns on aarch64 and 15 on x86_64. Here SFC64 and the
first test of the ziggurat (Marsaglia and Tsang 2000), which accepts 98.8 %, are one loop over registers. State is read
from and left in the memory of the generator itself, so that NumPy goes on from where the loop ended.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba.np.random._constants import fi_float as FI
from numba.np.random._constants import ki_float as KI
from numba.np.random._constants import wi_float as WI

from droptics.arrays import Array
from droptics.compiling import njit

# Where the tail begins, and its inverse.
TAIL, INVERSE = np.float32(3.6541528853610088), np.float32(0.27366123732975828)
HALF, ONE, UNIT, DOUBLE = np.uint64(0xFFFFFFFF), np.uint64(1), np.float32(2.0**-24), 2.0**-53
# The ninth bit is the sign: a second half of the table takes the place of a test.
SIGNED = np.concatenate([WI, -WI])


def words_of(generator: np.random.Generator) -> Array:
    """The memory of an SFC64: three words, a counter, and in the fifth whether half a word is left, and which."""
    address = generator.bit_generator.ctypes.state_address
    return np.ctypeslib.as_array((ctypes.c_uint64 * 5).from_address(address))


@njit(nogil=True)
def _next(words: Array) -> np.uint64:
    """32 random bits: the lower half of a word, or the upper half that the call before left."""
    if words[4] & HALF:
        left = words[4] >> np.uint64(32)
        words[4] = left << np.uint64(32)
        return left
    found = words[0] + words[1] + words[3]
    words[3] += np.uint64(1)
    words[0] = words[1] ^ (words[1] >> np.uint64(11))
    words[1] = words[2] + (words[2] << np.uint64(3))
    words[2] = (words[2] << np.uint64(24) | words[2] >> np.uint64(40)) + found
    words[4] = found & ~HALF | np.uint64(1)
    return found & HALF


@njit(nogil=True)
def _uniform(words: Array) -> np.float32:
    """A number in [0, 1), a multiple of 2^-24."""
    return np.float32(_next(words) >> np.uint64(8)) * UNIT


@njit(nogil=True)
def _value(bits: np.uint64) -> np.float32:
    """The number that these bits stand for where the first test accepts them."""
    return np.float32(np.intp(bits >> np.uint64(9))) * SIGNED[bits & np.uint64(0x1FF)]


@njit(nogil=True)
def _accepted(bits: np.uint64) -> np.bool_:
    """The first test: the bits lie in the rectangle of their step."""
    return np.intp(bits >> np.uint64(9)) < np.intp(KI[bits & np.uint64(0xFF)])


@njit(nogil=True)
def _drawn(words: Array) -> np.float32:
    """One number: from a rectangle, from the wedge beside it, from the tail beyond all of them, or from new bits."""
    while True:
        bits = _next(words)
        value = _value(bits)
        if _accepted(bits):
            return value
        step = np.intp(bits & np.uint64(0xFF))
        if step == 0:
            while True:
                beyond = -INVERSE * np.log1p(-_uniform(words))
                bound = -np.log1p(-_uniform(words))
                if bound + bound > beyond * beyond:
                    return -(TAIL + beyond) if bits & np.uint64(0x20000) else TAIL + beyond
        height = (FI[step - 1] - FI[step]) * _uniform(words) + FI[step]
        if height < np.exp(-0.5 * np.float64(value) * np.float64(value)):
            return value


@njit(nogil=True)
def fill_normal(words: Array, into: Array) -> None:
    """Fill `into`, float32 (n,), with the next standard normal numbers of the generator that the words belong to."""
    i, size = np.uint64(0), np.uint64(len(into))
    while i < size:
        a, b, c, counter, half = words[0], words[1], words[2], words[3], words[4]
        odd = half & HALF
        while not odd and i + ONE < size:  # both halves of a word at a time, while both are accepted
            found = a + b + counter
            low, high = found & HALF, found >> np.uint64(32)
            if not _accepted(low) & _accepted(high):
                break
            into[i], into[i + ONE] = _value(low), _value(high)
            i += ONE + ONE
            counter += ONE
            a = b ^ (b >> np.uint64(11))
            b = c + (c << np.uint64(3))
            c = (c << np.uint64(24) | c >> np.uint64(40)) + found
            half = found & ~HALF
        words[0], words[1], words[2], words[3], words[4] = a, b, c, counter, half
        if i < size:
            into[i] = _drawn(words)
            i += ONE


@njit(nogil=True)
def toss(words: Array, drops: Array, values: Array, into: Array) -> None:
    """Fill `into` (masks, coins) with values[c] where NumPy's next double is at least drops[c], and zero where not."""
    a, b, c, counter = words[0], words[1], words[2], words[3]
    for mask in range(into.shape[0]):
        for coin in range(into.shape[1]):
            found = a + b + counter
            counter += np.uint64(1)
            a = b ^ (b >> np.uint64(11))
            b = c + (c << np.uint64(3))
            c = (c << np.uint64(24) | c >> np.uint64(40)) + found
            kept = np.intp(found >> np.uint64(11)) * DOUBLE >= drops[coin]
            into[mask, coin] = values[coin] * kept  # a branch would be guessed wrong every other time
    words[0], words[1], words[2], words[3] = a, b, c, counter
