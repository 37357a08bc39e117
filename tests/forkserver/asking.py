"""Asks the fork server (`server.py`) for one command. Imports little, because `main` is a program
that documents call in pipes: it stands for `federator` on a PATH.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def ask(
    server: str,
    arguments: Sequence[str],
    streams: Sequence[int],
    *,
    environment: Mapping[str, str],
    directory: str,
    session: bool = False,
) -> tuple[socket.socket, int]:
    """Starts `federator ARGUMENTS` with these file descriptors as standard streams.

    Returns the connection, which ends the command when it is closed and from which the exit status
    is read, and the process id. Raises OSError if there is no server.
    """
    request = {
        "arguments": list(arguments),
        "environment": dict(environment),
        "directory": directory,
        "session": session,
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(server)
        socket.send_fds(connection, [json.dumps(request).encode()], list(streams))
        answer = connection.recv(64)
        if not answer:
            raise ConnectionError(f"the fork server at {server} does not answer")
        return connection, int(answer)
    except BaseException:
        connection.close()
        raise


def main(server: str) -> None:
    """The command line of this process, run by the server; passes SIGTERM and SIGINT on."""
    connection, pid = ask(
        server, sys.argv[1:], (0, 1, 2), environment=os.environ, directory=os.getcwd()
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: os.kill(pid, received))
    with connection:
        code = int(connection.recv(64) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
