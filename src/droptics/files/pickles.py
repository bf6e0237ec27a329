"""Pickles, followed opcode by opcode without making anything of them.

Their readers refuse foreign classes and believe the rest: the size of a storage, of which torch reads as many bytes
whether its member has them or not; a place in a table that is then made as long; values that refer to each other so
often that a key made of them is never hashed to its end.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WIDTHS = {
    "ComplexDouble": 16,
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "Untyped"), 1),
}
"""Bytes of an entry, by what torch calls a storage."""
_MOST = 2 * 10**6  # opcodes, about thirty a tensor; each is remembered
_FREE, _RATIO = 10**6, 100  # values that a pickle may unfold to however short it is, and per byte
_BROKEN = (EOFError, IndexError, KeyError, AttributeError, TypeError, OverflowError)
_CHANGING = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")


@dataclass(slots=True)
class _Node:
    """What stands for a value: how many values it unfolds to, itself where it is text or a number, its parts."""

    size: int = 1
    value: Any = None
    parts: tuple[_Node, ...] = ()


def check_pickle(content: bytes, storages: Mapping[str, int], where: str) -> None:
    """Refuse a pickle that asks for more of a storage than its member holds (`storages`, in bytes), or never ends.

    Cost: O(opcodes). Claim: none, a rule about files.
    """
    try:
        _follow(content, storages, where)
    except _BROKEN as error:
        raise ValueError(f"{where} is a broken pickle ({type(error).__name__}: {error}); it is refused") from error


def _follow(content: bytes, storages: Mapping[str, int], where: str) -> None:
    stack: list[_Node] = []
    marks: list[int] = []
    memo: dict[int, _Node] = {}
    unfolded, most = 0, _FREE + _RATIO * len(content)
    for number, (code, argument, place) in enumerate(_opcodes(content)):
        name = code.name
        if name == "MARK":
            marks.append(len(stack))
        elif "PUT" in name or name == "MEMOIZE":
            slot = len(memo) if argument is None else int(argument)
            if slot > (place or 0):
                raise ValueError(f"{where} asks for more memory than it has entries; it is refused")
            memo[slot] = stack[-1]
        elif name.endswith("GET"):
            stack.append(memo[int(argument)])
        else:
            taken = _taken(stack, marks, code)
            if name == "BINPERSID":
                _check_storage(taken[0], storages, where)
            if name in _CHANGING:
                made, added = taken[0], sum(part.size for part in taken[1:])
                made.size += added
            else:
                added = sum(part.size for part in taken)
                made = _Node(1 + added, _width(argument) if name == "GLOBAL" else argument, tuple(taken))
            stack += [made] * len(code.stack_after)
            unfolded += added
        if unfolded > most or number > _MOST:
            raise ValueError(f"{where} unfolds to millions of values, many times its size; it is refused")


def _opcodes(content: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    try:
        yield from pickletools.genops(content)
    except ValueError as error:
        raise EOFError(str(error)) from error


def _taken(stack: list[_Node], marks: list[int], code: pickletools.OpcodeInfo) -> list[_Node]:
    """The values that an opcode takes off the stack."""
    before = list(code.stack_before)
    start = len(stack) - len(before)
    if pickletools.markobject in before:
        start = marks.pop() - before.index(pickletools.markobject)
    if start < 0 or (marks and start < marks[-1]):
        raise IndexError
    taken = stack[start:]
    del stack[start:]
    return taken


class _Width(int):
    """Bytes of an entry that a class of storages says, where a pickle could write a plain number."""


def _width(text: str) -> _Width | None:
    kind = text.rpartition(" ")[2]
    return _Width(WIDTHS[kind.removesuffix("Storage")]) if kind.endswith("Storage") else None


def _check_storage(given: _Node, storages: Mapping[str, int], where: str) -> None:
    values: Iterable[Any] = (part.value for part in given.parts)
    word, width, key, _, count = values
    if word != "storage" or not isinstance(width, _Width) or type(count) is not int:
        raise TypeError
    if not 0 <= count * width <= storages.get(key, 0):
        raise ValueError(
            f"{where} asks for {count * width:,} bytes of a storage that holds {storages.get(key, 0):,}; it is refused"
        )
