"""A process that has imported all of `federator` and forks a child for each command it is asked for.

A command line costs about a second of processor time to import and a tenth of that to run. A forked
child is a process of its own: it has its own arguments, environment, working directory, standard
streams, process group and exit status, and it shares nothing with its siblings but imported modules.

Started by `starting.py`, as `server.py SOCKET`. A client connects to SOCKET (one connection for each
command), sends a request with three file descriptors, receives the process id, and later the exit
status. A child that has ended stays a zombie until its client disconnects, so that a client never
signals a process id that was given to another process. A client that disconnects earlier ends its
child. The end of standard input ends the server and all children.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

GRACE_S = 5.0
"""From SIGTERM to SIGKILL, for children without a client."""
REQUEST_MAX = 1 << 17
"""Bytes of a request: arguments and environment."""


def import_all() -> None:
    """Imports every module of `federator`, so that no child has to. Errors end the server."""
    import federator

    for module in pkgutil.walk_packages(federator.__path__, "federator."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def run(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """In the child: becomes the command, and ends with its exit status."""
    code = 1
    try:
        _become(request, streams)
        code = _command(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_flushed(code))


def _become(request: dict[str, Any], streams: list[int]) -> None:
    if request["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1 << 16)  # the server's own, and those of other children
    # A run of the tests in the background of a shell ignores SIGINT, and so would the command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()


def _command(arguments: list[str]) -> int:
    """Runs the command line as `python -m federator` does; returns its exit status."""
    from federator import __main__ as program

    sys.argv = [str(program.__file__), *arguments]
    try:
        program.main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    return 0


def _flushed(code: int) -> int:
    """What an interpreter does at its end: threads, exit functions, buffers."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    return code


@dataclass(slots=True)
class Child:
    """One command."""

    pid: int
    handle: int
    """A pidfd: it becomes readable when the child ends."""
    client: socket.socket | None
    """None once it has disconnected."""
    ended: bool = False
    kill_at: float | None = None
    """Set once the child was told to end."""


class Server:
    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.children: list[Child] = []
        self.ready = selectors.DefaultSelector()
        self.ready.register(listening, selectors.EVENT_READ, self.accept)
        self.ready.register(0, selectors.EVENT_READ, self.stop)
        self.stopping = False

    def serve(self) -> None:
        """Until standard input ends and no child is left."""
        while not self.stopping or self.children:
            ending = [child for child in self.children if child.kill_at is not None]
            for key, _ in self.ready.select(0.2 if ending else None):
                key.data()
            for child in ending:
                if not child.ended and child.kill_at and time.monotonic() > child.kill_at:
                    _signal(child.pid, signal.SIGKILL)

    def accept(self) -> None:
        client, _ = self.listening.accept()
        self.ready.register(client, selectors.EVENT_READ, lambda: self.request(client))

    def request(self, client: socket.socket) -> None:
        """Forks the child of a client that has sent its request."""
        data, streams = b"", list[int]()
        with contextlib.suppress(OSError):  # it has disconnected
            data, streams, _, _ = socket.recv_fds(client, REQUEST_MAX, 3)
        self.ready.unregister(client)
        if not data:
            client.close()
            return
        pid = os.fork()
        if pid == 0:
            run(json.loads(data), streams)
        for stream in streams:
            os.close(stream)
        child = Child(pid, os.pidfd_open(pid), client)
        self.children.append(child)
        self.ready.register(child.handle, selectors.EVENT_READ, lambda: self.ended(child))
        self.ready.register(client, selectors.EVENT_READ, lambda: self.left(child))
        with contextlib.suppress(OSError):
            client.send(b"%d" % pid)

    def ended(self, child: Child) -> None:
        """Reports the exit status, as `subprocess` counts it: -N for signal N."""
        child.ended = True
        self.ready.unregister(child.handle)
        how = os.waitid(os.P_PIDFD, child.handle, os.WEXITED | os.WNOWAIT)
        assert how is not None
        code = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
        if child.client is not None:
            with contextlib.suppress(OSError):
                child.client.send(b"%d" % code)
        if child.client is None or self.stopping:
            self.forget(child)

    def left(self, child: Child) -> None:
        """Its client has disconnected."""
        assert child.client is not None
        self.ready.unregister(child.client)
        child.client.close()
        child.client = None
        if child.ended:
            self.forget(child)
        else:
            self.end(child)

    def end(self, child: Child) -> None:
        _signal(child.pid, signal.SIGTERM)
        child.kill_at = time.monotonic() + GRACE_S

    def forget(self, child: Child) -> None:
        """Lets a child that has ended go, and its process id with it."""
        os.waitpid(child.pid, 0)
        os.close(child.handle)
        self.children.remove(child)
        if child.client is not None:
            self.ready.unregister(child.client)
            child.client.close()
            child.client = None

    def stop(self) -> None:
        """The tests have ended, however they did."""
        self.ready.unregister(0)
        self.ready.unregister(self.listening)
        self.listening.close()
        self.stopping = True
        for child in list(self.children):
            if child.ended:
                self.forget(child)
            else:
                self.end(child)


def _signal(pid: int, number: signal.Signals) -> None:
    """To the child, and to its group if it leads one."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def main() -> None:
    """Serves at the address in its argument; prints a line when it does."""
    import_all()
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(sys.argv[1])
        listening.listen(64)
        print("serving", flush=True)
        Server(listening).serve()


if __name__ == "__main__":
    main()
