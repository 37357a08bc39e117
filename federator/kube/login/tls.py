"""TLS contexts for connections to API servers; keys stay in memory, and equal material shares one
context.

Used by connect.py. Contexts are costly (a thousand clusters behind one CA need one), hence the weak
table.
"""

import contextlib
import hashlib
import os
import ssl
import tempfile
import weakref
from collections.abc import Iterator

_shared: "weakref.WeakValueDictionary[bytes, ssl.SSLContext]" = weakref.WeakValueDictionary()


def client_context(
    *, ca_pem: bytes = b"", cert_pem: bytes = b"", key_pem: bytes = b"", verify: bool = True
) -> ssl.SSLContext:
    """A context that trusts `ca_pem` (empty: what the machine trusts) and shows the client
    certificate, if any.

    `verify` is False only for a person's own kubeconfig that says so. Raises ValueError for
    material that is none.
    """
    name = hashlib.sha256(
        b"\0".join((ca_pem, cert_pem, key_pem, b"1" if verify else b"0"))
    ).digest()
    shared = _shared.get(name)
    if shared is not None:
        return shared
    try:
        context = ssl.create_default_context(cadata=ca_pem.decode("ascii") if ca_pem else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if cert_pem:
            load_certificate(context, cert_pem, key_pem)
    except (ssl.SSLError, UnicodeDecodeError) as exc:
        # The library's own text may quote what it could not read.
        raise ValueError("the certificates or the key cannot be used for TLS") from exc
    _shared[name] = context
    return context


def load_certificate(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes) -> None:
    """Makes new connections of `context` show this certificate. Raises ssl.SSLError."""
    with _as_file(cert_pem + b"\n" + key_pem) as path:
        # Without a password callback OpenSSL asks on the terminal for an encrypted key, and would
        # hang.
        context.load_cert_chain(path, password=lambda: b"")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which `content` can be read meanwhile; in memory where the system can do
    that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("federator-certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="federator-") as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name
