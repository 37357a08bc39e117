"""What an operator has to set in the RuntimeProfiles of `config`, and has left as it was."""

from collections.abc import Iterator
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model.errors import FieldError

PEM: Final = "-----BEGIN CERTIFICATE-----"
BUNDLES: Final = frozenset(
    {
        "FEDERATOR_TRUST_BUNDLE",
        "FEDERATOR_SECRETS_TRUST_BUNDLE",
        "FEDERATOR_CONFIG_TRUST_BUNDLE",
    }
)
"""Variables that hold certificates in PEM."""
DOMAIN: Final = "federator.example"


def left(profile: Obj) -> Iterator[FieldError]:
    """A variable of a container that no pod can use, by its field."""
    for field in ("initContainers", "sidecars"):
        for at, entry in enumerate(raw.objects(raw.mapping(profile, "spec"), field)):
            for index, variable in enumerate(raw.objects(raw.mapping(entry, "container"), "env")):
                if problem := _problem(raw.text(variable, "name"), raw.text(variable, "value")):
                    path = f"spec.{field}[{at}].container.env[{index}].value"
                    yield FieldError(path, problem)


def _problem(name: str, value: str) -> str:
    if name in BUNDLES and value and PEM not in value:
        return (
            f"{name} holds no certificate in PEM, but {value[:60]!r}; put the root of your trust"
            " domain there (config/profiles/README.md)"
        )
    if name == "FEDERATOR_TRUST_DOMAIN" and value == DOMAIN:
        return f"{name} is the example {DOMAIN!r}; put your trust domain there, as in the signer"
    return ""
