"""Sets of shard indexes as sorted, disjoint, inclusive ranges, in the format of a Job's
`completedIndexes` (`0-3,7`)."""

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def parse(text: str) -> Ranges:
    """Reads `0-3,7`. Raises ValueError on anything that is not sorted, disjoint and
    non-negative."""
    ranges: list[Range] = []
    for part in text.split(",") if text else ():
        low_text, dash, high_text = part.partition("-")
        if not _is_index(low_text) or (dash and not _is_index(high_text)):
            raise ValueError(f"{part!r} is not an index or a range of indexes")
        low, high = int(low_text), int(high_text or low_text)
        if high < low or (ranges and low <= ranges[-1][1]):
            raise ValueError(f"{text!r} is not sorted and disjoint at {part!r}")
        ranges.append((low, high))
    return normal(ranges)


def _is_index(part: str) -> bool:
    """ASCII digits only: int() would accept blanks, underscores and other scripts."""
    return part.isascii() and part.isdigit()


def text(ranges: Iterable[Range]) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def normal(ranges: Iterable[Range]) -> Ranges:
    """Sorted and disjoint, with adjacent ranges joined."""
    if isinstance(ranges, tuple) and len(ranges) < 2:
        return ranges
    out: list[Range] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def size(ranges: Iterable[Range]) -> int:
    return sum(high - low + 1 for low, high in ranges)


def union(left: Iterable[Range], right: Iterable[Range]) -> Ranges:
    return normal([*left, *right])


def minus(left: Sequence[Range], right: Sequence[Range]) -> Ranges:
    """What is in `left` and not in `right`; both sorted and disjoint. Linear time: a member may
    report ten thousand pieces."""
    out: list[Range] = []
    first = 0
    for low, high in left:
        while first < len(right) and right[first][1] < low:
            first += 1
        start, at = low, first
        while at < len(right) and right[at][0] <= high:
            if right[at][0] > start:
                out.append((start, right[at][0] - 1))
            start = right[at][1] + 1
            at += 1
        if start <= high:
            out.append((start, high))
        first = max(at - 1, first)
    return tuple(out)


def intersect(left: Sequence[Range], right: Sequence[Range]) -> Ranges:
    """What is in both; both sorted and disjoint. Linear time."""
    out: list[Range] = []
    here = there = 0
    while here < len(left) and there < len(right):
        low, high = max(left[here][0], right[there][0]), min(left[here][1], right[there][1])
        if low <= high:
            out.append((low, high))
        if left[here][1] < right[there][1]:
            here += 1
        else:
            there += 1
    return normal(out)


def shifted(ranges: Iterable[Range], by: int) -> Ranges:
    return tuple((low + by, high + by) for low, high in ranges)


def take(ranges: Sequence[Range], count: int) -> tuple[Ranges, Ranges]:
    """The first `count` indexes, and the rest."""
    taken: list[Range] = []
    rest: list[Range] = []
    left = count
    for low, high in ranges:
        length = high - low + 1
        if left >= length:
            taken.append((low, high))
        elif left > 0:
            taken.append((low, low + left - 1))
            rest.append((low + left, high))
        else:
            rest.append((low, high))
        left -= min(left, length)
    return tuple(taken), tuple(rest)


def in_pieces(previous: Ranges, wanted: Ranges) -> Ranges:
    """The indexes of `wanted` in pieces, one Job each. A piece within `wanted` stays exactly as it
    is.

    New indexes become pieces of their own and are never joined to a neighbour, because joining
    would restart its Job. A piece that lost indexes is cut to what is left.

        previous 0-4, 5-9; wanted 0-11: pieces 0-4, 5-9, 10-11
    """
    goal = normal(wanted)
    pieces: list[Range] = []
    for piece in previous:
        pieces.extend(intersect((piece,), goal))
    pieces.extend(minus(goal, normal(pieces)))
    return tuple(sorted(pieces))
