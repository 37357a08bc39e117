"""What servers on loopback show: one certificate of this process, made anew for each, and nothing
of it in files."""

import functools
import ssl
import time
from dataclasses import dataclass

from federator.kube import selfsigned
from federator.kube.login import tls


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server on loopback shows: `ca_pem` for its clients, `context` for itself."""

    ca_pem: bytes
    context: ssl.SSLContext


@functools.cache
def server_identity() -> ServerIdentity:
    """The one identity of this process, for 127.0.0.1, ::1 and localhost."""
    made = selfsigned.made(
        "federator embedded API",
        dns=("localhost",),
        addresses=("127.0.0.1", "::1"),
        now_s=time.time(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_certificate(context, made.cert_pem, made.key_pem)
    return ServerIdentity(made.ca_pem, context)
