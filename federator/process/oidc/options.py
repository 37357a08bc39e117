"""Settings of signing in through an OpenID Connect issuer. Claims and prefixes mean what the
options `--oidc-*` of kube-apiserver mean.

Read by every process, so it needs no library of tokens.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from federator.kube.tlsserver import is_loopback
from federator.model.errors import FieldError

RESERVED: Final = "system:"
"""Users and groups of Kubernetes itself: no issuer speaks for them."""
CALLBACK: Final = "/signin/callback"
NO_PREFIX: Final = "-"


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """Sign-in of people at the dashboard."""

    issuer_url: str = ""
    """The issuer, as its discovery document names it. Empty: people sign in with a Kubernetes token
    only."""
    client_id: str = "federator"
    """The dashboard's client at the issuer: the audience of its ID tokens."""
    client_secret_file: str = ""
    """File with the client's secret, read again when it changes. Empty for a public client."""
    redirect_url: str = ""
    """The dashboard's own address for people with the path /signin/callback, as it is registered at
    the issuer."""
    ca_file: str = ""
    """PEM authorities of the issuer's certificate. Empty: those that the machine trusts."""
    username_claim: str = "sub"
    """The claim with the user's name."""
    username_prefix: str = ""
    """Prefix of user names. Empty: the issuer and `#`, or nothing for the claim email; `-`:
    nothing."""
    groups_claim: str = "groups"
    """The claim with the user's groups."""
    groups_prefix: str = ""
    """Prefix of groups."""

    @property
    def prefix(self) -> str | None:
        """What comes before user names; None for the issuer's own prefix."""
        return {"": None, NO_PREFIX: ""}.get(self.username_prefix, self.username_prefix)

    def check(self) -> None:
        """Raises FieldError for settings with which nobody could sign in."""
        if not self.issuer_url:
            return
        if not self.client_id:
            raise FieldError("oidc.client_id", "is required with oidc.issuer_url")
        for name, prefix in (
            ("username_prefix", self.username_prefix),
            ("groups_prefix", self.groups_prefix),
        ):
            if prefix.startswith(RESERVED):
                raise FieldError(f"oidc.{name}", f"must not begin with {RESERVED}")
        self._check_redirect()

    def _check_redirect(self) -> None:
        try:
            parts = urlsplit(self.redirect_url)
            plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
            usable = bool(parts.hostname) and (parts.scheme == "https" or plain)
        except ValueError:
            usable = False
        if not usable or (parts.path, parts.query, parts.fragment) != (CALLBACK, "", ""):
            raise FieldError(
                "oidc.redirect_url",
                f"must be https://HOST{CALLBACK}, with the address by which people reach the"
                " dashboard (http on loopback only)",
            )
