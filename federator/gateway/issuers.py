"""The file with the issuers of tokens that the gateway accepts besides that of the group `oidc`,
such as the issuer of a CI system."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from federator.api import decoding
from federator.api.common import Model
from federator.kinds import read
from federator.kube.clock import Clock
from federator.model.errors import FieldError
from federator.process.oidc import issuer as issuers
from federator.process.oidc import keys
from federator.process.oidc.issuer import Issuer
from federator.process.oidc.tokens import Trust

Text = Annotated[str, Field(min_length=1, max_length=512)]


class IssuerFields(Model):
    """An issuer, and how its claims name users. Prefixes keep its users apart from those of
    others, so they are required."""

    issuer: Text
    """Address of the issuer, as its tokens name it."""
    audiences: Annotated[list[Text], Field(min_length=1, max_length=16)]
    """Audiences of tokens that are for this gateway."""
    username_claim: Text = "sub"
    """The claim with the user's name."""
    username_prefix: Text
    """Prefix of user names."""
    groups_claim: Text = "groups"
    """The claim with the user's groups."""
    groups_prefix: Text
    """Prefix of groups."""
    algorithms: Annotated[list[Text], Field(min_length=1, max_length=16)] = Field(
        default_factory=lambda: sorted(keys.DEFAULT_ALGORITHMS)
    )
    """Algorithms of signatures that count."""
    ca_file: str = ""
    """PEM authorities of the issuer's certificate. Empty: those that the machine trusts."""

    def trust(self) -> Trust:
        """Raises FieldError."""
        return Trust(
            self.issuer,
            frozenset(self.audiences),
            frozenset(self.algorithms),
            self.username_claim,
            self.username_prefix,
            self.groups_claim,
            self.groups_prefix,
        )


def load(path: str, clock: Clock, *, allow_loopback: bool = False) -> Iterator[Issuer]:
    """The issuers of a file. Raises FieldError with the file and the field."""
    try:
        documents = decoding.from_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, FieldError) as bad:
        raise FieldError("gateway.issuers_file", f"{path} cannot be read: {bad}") from None
    given = documents[0] if len(documents) == 1 else None
    try:
        listed = TypeAdapter(list[IssuerFields]).validate_python(given)
    except ValidationError as error:
        where, what = read.from_pydantic(error, given)[0]
        raise FieldError("gateway.issuers_file", f"{path}: {where}: {what}") from None
    for fields in listed:
        try:
            ca_pem = Path(fields.ca_file).read_bytes() if fields.ca_file else b""
            connect = issuers.connecting(ca_pem=ca_pem, allow_loopback=allow_loopback)
            yield Issuer(fields.trust(), connect, clock=clock)
        except (OSError, ValueError) as bad:
            raise FieldError("gateway.issuers_file", f"{path}: {fields.issuer}: {bad}") from None
