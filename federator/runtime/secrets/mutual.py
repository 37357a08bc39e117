"""TLS with the certificate of the pod, as it is in its files at that time."""

import hashlib
import ssl
from pathlib import Path

from federator.runtime.files import switching
from federator.runtime.files.backends import Away


class Mutual:
    """The context for one store. It is made anew when certificate, key or roots have changed:
    making one takes as long as a hundred looks at the files."""

    def __init__(self, identity: Path, trust: str) -> None:
        """`trust`: PEM of the roots of the server's certificate; "" for the pod's own ones."""
        self._identity, self._trust = identity, trust
        self._made: tuple[bytes, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """Certificate and key are of one moment. Raises Away while they cannot be used."""
        identity = self._identity
        try:
            here = switching.present(identity) or identity
            chain, key = here / "tls.crt", here / "tls.key"
            roots = self._trust or (here / "ca.crt").read_text("ascii")
            seen = hashlib.sha256()
            for part in (roots.encode(), chain.read_bytes(), key.read_bytes()):
                seen.update(b"%d:" % len(part) + part)
            if self._made is None or self._made[0] != seen.digest():
                made = ssl.create_default_context(cadata=roots)
                made.load_cert_chain(chain, key)
                self._made = seen.digest(), made
        except (OSError, ValueError) as bad:
            what = bad.strerror if isinstance(bad, OSError) and bad.strerror else type(bad).__name__
            raise Away(f"the identity in {identity} cannot be used: {what}") from None
        return self._made[1]
