"""`federator pods`: options that exclude each other."""

from tests.unit.cli.files import run


def test_runtimes_of_one_shard_are_refused_instead_of_showing_those_of_all() -> None:
    done = run("pods", "pjs/train", "-o", "runtime", "--shard", "3")

    assert done.exit_code == 2
    assert "leave --shard out" in done.stderr
