"""`federator`, also reached as `kubectl federator`: hands over to the command line."""

import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    program = "kubectl federator" if "kubectl-federator" in sys.argv[0] else "federator"
    if sys.argv[1:2] == ["runtime"]:
        # It runs in every pod: nothing of the command line is imported that it does not need.
        from federator.cli.running.runtime import runtime

        runtime(sys.argv[2:], prog_name=f"{program} runtime")
    from federator.cli.main import cli

    cli(prog_name=program)


if __name__ == "__main__":
    main()
