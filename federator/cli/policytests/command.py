"""`federator test DIR`: tests of policies and quotas on files, without a cluster. The decisions are
those of `federator place`, the plans those of `federator plan`.

Exit 0: all tests pass. Exit 1: a test fails, or a file cannot be read. The same files always print
the same output.
"""

import sys
from pathlib import Path

import click

from federator.cli import common
from federator.model.manifests import Unreadable


@click.command()
@click.argument("directory", metavar="DIR")
@click.option(
    "--junit", default="", metavar="FILE", help="Write the results to this file as JUnit XML."
)
def test(directory: str, junit: str) -> None:
    """Run the policy tests of a directory: expected placements, refusals and plans on a fleet in
    files. A test file is YAML with the field tests; other files of the directory may hold fixtures.

    Exit 0: all pass. Exit 1: a test fails, or a file cannot be read.
    """
    from federator.cli.policytests import checking, loading, report

    every: list[report.Ran] = []
    try:
        suites = loading.suites(directory)
    except Unreadable as bad:
        common.fail(*bad.sentences)
    for suite in suites:
        outcomes = tuple((case.name, checking.run(case)) for case in suite.cases)
        ran = report.Ran(suite.file, outcomes, suite.problems)
        for problem in ran.problems:
            common.say(f"error: {problem}", err=True)
        for line in report.lines(ran):
            common.say(line)
        every.append(ran)
    common.say(report.summary(every))
    if junit:
        try:
            Path(junit).write_bytes(report.junit(every))
        except OSError as bad:
            common.fail(f"--junit: {junit} cannot be written: {bad.strerror or bad}")
    sys.exit(1 if report.failed(every) else 0)
