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
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from federator.runtime.files import switching
from federator.runtime.identity import certificates
from federator.runtime.identity.certificates import Refused
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


def renew(order: dict[str, Any]) -> dict[str, Any]:
    """Makes a key and writes its certificate. Raises Refused, OSError."""
    identity = parse(order["id"])
    key = certificates.new_key()
    _say({"csr": certificates.request(key, str(identity)).decode("ascii")})
    answer = _heard()
    chain, bundle = answer["chain"].encode(), certificates.joined(answer["bundle"].encode())
    now_s = time.time()
    facts = asdict(certificates.checked(chain, bundle, identity, key.public_key(), now_s))

    def fill(tree: Path) -> None:
        switching.place(tree / KEY, certificates.key_pem(key), int(order["mode"], 8))
        switching.place(tree / CERTIFICATE, chain, 0o644)
        switching.place(tree / BUNDLE, bundle, 0o644)
        switching.place(tree / FACTS, json.dumps(facts).encode(), 0o644)

    switching.switch(Path(order["folder"]), fill, switching.stamp(now_s))
    return facts


def inspect(order: dict[str, Any]) -> dict[str, Any]:
    """Checks the files of a kubelet. Raises Refused, OSError."""
    chain = Path(order["chain"]).read_bytes()
    bundle = Path(order["bundle"]).read_bytes()
    return asdict(certificates.checked(chain, bundle, parse(order["id"]), None, time.time()))


def main() -> None:
    """One order. What goes wrong is an outcome too; a key is never in it."""
    order = _heard()
    try:
        _say({"facts": renew(order) if "folder" in order else inspect(order)})
    except Refused as refused:
        _say({"refused": refused.reason, "message": refused.message})
    except OSError as bad:
        message = f"{bad.strerror}: {bad.filename or order.get('folder', '')}"
        _say({"refused": "NotWritten", "message": message})


if __name__ == "__main__":
    main()
