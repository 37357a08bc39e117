"""`federator`, also reached as `kubectl federator`: hands over to the command line."""

import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    from federator.cli.main import cli

    cli(prog_name="kubectl federator" if "kubectl-federator" in sys.argv[0] else "federator")


if __name__ == "__main__":
    main()
