"""One target under atheris, which is guided by the coverage of our own code. Run by `fuzz`, one
process per target.
"""

import sys

import atheris

with atheris.instrument_imports(include=["federator"]):
    from tests.fuzz.fuzz import once
    from tests.fuzz.targets import TARGETS


def main(name: str, seconds: str) -> None:
    """Ends the process when the time is up, or at the first finding."""
    target = TARGETS[name]
    atheris.Setup(
        [sys.argv[0], f"-max_total_time={seconds}", "-max_len=8192"],
        lambda data: once(target, data),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
