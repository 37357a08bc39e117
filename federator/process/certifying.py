"""A server's own certificate, made in a child process: what makes it takes 8 MB, which a hub would
keep for its whole life. Keys pass a pipe that only the two hold.

`python -m federator.process.certifying WHAT DNS NOW_S` is that process. It prints a certificate,
its key and its authority, as PEM, as JSON.
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

WITHIN_S: Final = 30.0
_SOURCES: Final = str(Path(__file__).parents[2])

Pems = tuple[bytes, bytes, bytes]
"""Certificate, key and authority."""


async def made(what: str, dns: str, now_s: float) -> Pems:
    """A fresh certificate for the server that `what` says, with this DNS name. Where no child
    process makes it in time, this one does."""
    try:
        return await _in_child(what, dns, repr(now_s))
    except (OSError, ValueError, LookupError) as trouble:
        log.warning("no other process makes the certificate of the %s: %s", what, trouble)
        return await asyncio.to_thread(_made, what, dns, now_s)


async def _in_child(*arguments: str) -> Pems:
    """Raises OSError, ValueError or LookupError."""
    path = [_SOURCES, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # no module of the folder that the process happens to be in
        "-m",
        __name__,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            output, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    made = json.loads(output)
    return made["cert"].encode(), made["key"].encode(), made["ca"].encode()


def _made(what: str, dns: str, now_s: float) -> Pems:
    from federator.kube import selfsigned  # costs the 8 MB

    identity = selfsigned.made(what, dns=(dns,), now_s=now_s)
    return identity.cert_pem, identity.key_pem, identity.ca_pem


if __name__ == "__main__":
    cert, key, ca = (pem.decode() for pem in _made(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    sys.stdout.write(json.dumps({"cert": cert, "key": key, "ca": ca}))
