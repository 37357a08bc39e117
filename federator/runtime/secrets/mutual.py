"""TLS with the certificate of the pod, as it is in its files at that time."""

import ssl
from pathlib import Path

from federator.runtime.files import switching
from federator.runtime.files.backends import Away


def context(identity: Path, trust: str) -> ssl.SSLContext:
    """`trust`: PEM of the roots of the server's certificate; "" for the pod's own trust bundle.
    Certificate and key are of one moment. Raises Away while they cannot be used."""
    try:
        here = switching.present(identity) or identity
        roots = trust or (here / "ca.crt").read_text("ascii")
        made = ssl.create_default_context(cadata=roots)
        made.load_cert_chain(here / "tls.crt", here / "tls.key")
    except (OSError, ValueError) as bad:
        what = bad.strerror if isinstance(bad, OSError) and bad.strerror else type(bad).__name__
        raise Away(f"the identity in {identity} cannot be used: {what}") from None
    return made
