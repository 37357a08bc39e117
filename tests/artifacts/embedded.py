"""A store and credentials in memory, for tests of the gateway: the same versions and refusals, no
network."""

from dataclasses import dataclass, field, fields

from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts.ports import Build, Fetched, Reason, refused
from federator.gateway.artifacts.registry import digest_of
from federator.gateway.artifacts.secrets import Login
from federator.model import sources
from federator.model.sources import Reference


@dataclass(slots=True)
class _Stored:
    fetched: Fetched
    envelopes: list[bytes] = field(default_factory=list)


class EmbeddedStore:
    """An ArtifactStore whose versions are put into it."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], str] = {}
        self._stored: dict[tuple[str, str], _Stored] = {}
        self.reachable = True
        """False: answers as a store does that cannot be reached."""

    async def push(
        self, ref: Reference, version: str, file: bytes, build: Build, policy: Policy
    ) -> str:
        """Stores a version, in place of one of that name; returns its digest."""
        self._check_reachable(ref)
        digest = digest_of(file)
        self._versions[str(ref), version] = digest
        said = {field.name: getattr(build, field.name) for field in fields(Build)}
        properties = {name: text for name, text in said.items() if text}
        self._stored.setdefault((str(ref), digest), _Stored(Fetched(digest, file, properties)))
        return digest

    async def attach(
        self, ref: Reference, version: str, digest: str, envelope: bytes, policy: Policy
    ) -> None:
        """Stores a signed statement beside a version."""
        self._found(ref, digest).envelopes.append(envelope)

    async def digest_of(self, ref: Reference, version: str, policy: Policy) -> str:
        self._check_reachable(ref)
        if sources.DIGEST.fullmatch(version):
            return version
        digest = self._versions.get((str(ref), version))
        if digest is None:
            raise refused(Reason.NOT_FOUND, "version", f"{ref}:{version} is not at {ref.host}")
        return digest

    async def fetch(self, ref: Reference, version: str, digest: str, policy: Policy) -> Fetched:
        return self._found(ref, digest).fetched

    async def envelopes(
        self, ref: Reference, version: str, digest: str, policy: Policy
    ) -> tuple[bytes, ...]:
        return tuple(self._found(ref, digest).envelopes)

    def _found(self, ref: Reference, digest: str) -> _Stored:
        self._check_reachable(ref)
        stored = self._stored.get((str(ref), digest))
        if stored is None:
            raise refused(Reason.NOT_FOUND, "version", f"{ref}@{digest} is not at {ref.host}")
        return stored

    def _check_reachable(self, ref: Reference) -> None:
        if not self.reachable:
            raise refused(Reason.STORE_UNREACHABLE, "artifact", f"{ref.host} does not answer")


class StaticSecrets:
    """Credentials by the name of their Secret."""

    def __init__(self, logins: dict[str, Login]) -> None:
        self.logins = logins

    async def login(self, name: str, host: str) -> Login:
        return self.logins[name]
