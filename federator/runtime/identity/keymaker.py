"""The child process that makes a key: `python -m federator.runtime.identity.keymaker`.

It makes the key, prints the request for a certificate, reads the answer, checks it and writes the
files. So the sidecar never holds the key, and pays for `cryptography` only while it renews. The
parent speaks to the signer, because it has the token.

One line of JSON each: order in, request out, answer in, outcome out. An order without `folder` only
checks files that somebody else wrote (a kubelet).
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from federator.runtime.files import switching
from federator.runtime.identity import certificates
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.spiffe import parse

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
FACTS: Final = "identity.json"


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _heard() -> dict[str, Any]:
    document = json.loads(sys.stdin.readline())
    assert isinstance(document, dict)
    return document


class Renewal:
    """One key, from its request to the files with its certificate."""

    def __init__(self, order: Mapping[str, Any], wall: Callable[[], float] = time.time) -> None:
        self._order, self._wall = order, wall
        self._id = parse(order["id"])
        self._key = certificates.new_key()

    def request(self) -> dict[str, Any]:
        return {"csr": certificates.request(self._key, str(self._id)).decode("ascii")}

    def finish(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Checks the certificate, writes the files, and says what it says.
        Raises CertificateRefused, OSError."""
        chain, bundle = answer["chain"].encode(), certificates.joined(answer["bundle"].encode())
        now_s, key = self._wall(), self._key
        facts = asdict(certificates.checked(chain, bundle, self._id, key.public_key(), now_s))

        def fill(tree: Path) -> None:
            switching.place(tree / KEY, certificates.key_pem(key), int(self._order["mode"], 8))
            switching.place(tree / CERTIFICATE, chain, 0o644)
            switching.place(tree / BUNDLE, bundle, 0o644)
            switching.place(tree / FACTS, json.dumps(facts).encode(), 0o644)

        switching.switch(Path(self._order["folder"]), fill, switching.stamp(now_s))
        return facts


def renew(order: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a key and writes its certificate. Raises CertificateRefused, OSError."""
    renewal = Renewal(order)
    _say(renewal.request())
    return renewal.finish(_heard())


def refusal(bad: CertificateRefused | OSError, order: Mapping[str, Any]) -> dict[str, Any]:
    """What went wrong, as an outcome. A key is never in it."""
    if isinstance(bad, CertificateRefused):
        return {"refused": bad.reason, "message": bad.message}
    message = f"{bad.strerror}: {bad.filename or order.get('folder', '')}"
    return {"refused": "NotWritten", "message": message}


def inspect(order: dict[str, Any]) -> dict[str, Any]:
    """Checks the files of a kubelet. Raises CertificateRefused, OSError."""
    chain = Path(order["chain"]).read_bytes()
    bundle = Path(order["bundle"]).read_bytes()
    return asdict(certificates.checked(chain, bundle, parse(order["id"]), None, time.time()))


def main() -> None:
    """One order. What goes wrong is an outcome too."""
    order = _heard()
    try:
        _say({"facts": renew(order) if "folder" in order else inspect(order)})
    except (CertificateRefused, OSError) as bad:
        _say(refusal(bad, order))


if __name__ == "__main__":
    main()
