"""Seeds and the like as people name them on a command line: `0-99`, `7`, `3791,4002`."""

from argparse import ArgumentTypeError

from federator.model import shards


def numbers(text: str) -> list[int]:
    """The numbers in order. Raises ArgumentTypeError on anything that is not rising and
    non-negative.
    """
    try:
        ranges = shards.parse(text)
    except ValueError as exc:
        raise ArgumentTypeError(f"{exc}; give numbers as in 0-99 or 7,12-15") from exc
    if not ranges:
        raise ArgumentTypeError("none is named; give numbers as in 0-99 or 7,12-15")
    return [number for low, high in ranges for number in range(low, high + 1)]
