"""What the arguments of a container say of `federator runtime`, read as its command line reads
them."""

from collections.abc import Sequence
from typing import Final

COMMAND: Final = "runtime"


def roles(args: Sequence[str]) -> list[str]:
    """The roles of an init run or of a sidecar; none for a container that runs something else."""
    if not args or args[0] != COMMAND:
        return []
    return [name for each in option(args, "--roles").split(",") if (name := each.strip())]


def prepares(args: Sequence[str]) -> bool:
    """Whether it is an init run."""
    return "--init" in args


def option(args: Sequence[str], name: str) -> str:
    """Its value, given as `--name=value` or in the next argument; the last one counts."""
    given = ""
    for at, each in enumerate(args):
        if each.startswith(f"{name}="):
            given = each.removeprefix(f"{name}=")
        elif each == name and at + 1 < len(args):
            given = args[at + 1]
    return given
