"""The user of a client certificate that the handshake has verified. Pure but for the clock."""

from dataclasses import dataclass
from typing import Final

from federator.gateway.api.problems import Problem
from federator.gateway.options import GatewayOptions
from federator.kube.clock import Clock
from federator.kube.tlsserver import Certificate

NAME_MAX: Final = 256
GROUPS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Certificates:
    """How certificates name users."""

    options: GatewayOptions
    clock: Clock

    def user(self, certificate: Certificate) -> tuple[str, tuple[str, ...]]:
        """Name and groups, with their prefixes. Raises `Problem` 401 for a certificate that has
        ended meanwhile, or names no single user."""
        if certificate.ends_s <= self.clock.now():
            raise Problem(401, "Unauthorized", "The client certificate has expired.")
        field = self.options.clients_username
        names = {
            "CommonName": (certificate.name,) if certificate.name else (),
            "URI": certificate.uris,
            "Email": certificate.emails,
        }[field]
        if len(names) != 1:
            sentence = f"The client certificate has {len(names)} names of the type {field}, not 1."
            raise Problem(401, "Unauthorized", sentence)
        groups = tuple(dict.fromkeys(certificate.groups))
        if len(groups) > GROUPS_MAX or not all(map(_is_name, (*names, *groups))):
            sentence = (
                "The client certificate has a name or an organisation that is empty, longer than"
                f" {NAME_MAX} characters or not printable ASCII, or more than {GROUPS_MAX}"
                " organisations."
            )
            raise Problem(401, "Unauthorized", sentence)
        prefix = self.options.clients_groups_prefix
        name = f"{self.options.clients_username_prefix}{names[0]}"
        return name, tuple(f"{prefix}{group}" for group in groups)


def _is_name(text: str) -> bool:
    """Names are sent as headers of impersonation, and shown in the audit."""
    printable = text.isascii() and text.isprintable() and text == text.strip()
    return 0 < len(text) <= NAME_MAX and printable
