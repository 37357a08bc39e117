"""Pins the images of objects to digests: a tag may be moved between a verdict and the last copy.

An image with a digest stays as it is, and nobody is asked. A tag is resolved at its registry, if
the policy names that host: image names come from workflow files, and no host is contacted because a
file names it.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import hosts
from federator.gateway.artifacts.ports import ArtifactRefused, Problem, Reason
from federator.gateway.artifacts.registry import Registry, Repository
from federator.model import errors, sources

FRESH_S: Final = 5.0
"""For so many seconds a tag is taken to stand for the digest that its registry has named."""
_FRESH_MAX: Final = 4096
IMAGES_MAX: Final = 64
"""Different images of one submission."""
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_IMAGE: Final = re.compile(
    r"(?P<name>[a-z0-9]+([._/-]+[a-z0-9]+)*)(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(@(?P<digest>[^@]+))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image reference in its parts."""

    where: Repository
    tag: str
    digest: str

    @property
    def pinned(self) -> str:
        return f"{self.where}@{self.digest}"


def parsed(text: str) -> Image | None:
    """The parts of an image reference as container runtimes read it; None for none."""
    first, slash, rest = text.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = "docker.io", text if slash else f"library/{text}"
    match = _IMAGE.fullmatch(rest)
    if match is None or len(text) > sources.LONGEST or sources.host_problem(first):
        return None
    digest = match["digest"] or ""
    if digest and not sources.DIGEST.fullmatch(digest):
        return None
    return Image(Repository(first, match["name"]), match["tag"] or "latest", digest)


def named(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """(path, the entry that holds it, its field) of each image that an object names, in whatever
    template it is: containers, and volumes that are images."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from named(entry, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for field in _CONTAINERS:
        entries = value.get(field)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and isinstance(entry.get("image"), str):
                yield errors.join(path, f"{field}[{index}].image"), entry, "image"
    volumes = value.get("volumes")
    for index, entry in enumerate(volumes if isinstance(volumes, list) else ()):
        image = entry.get("image") if isinstance(entry, dict) else None
        if isinstance(image, dict) and isinstance(image.get("reference"), str):
            yield errors.join(path, f"volumes[{index}].image.reference"), image, "reference"
    for field, entry in value.items():
        yield from named(entry, errors.join(path, field))


class Images:
    """Resolves tags at registries."""

    def __init__(self, registry: Registry | None, monotonic: Callable[[], float]) -> None:
        self._registry, self._monotonic = registry, monotonic
        self._fresh: dict[tuple[str, str], tuple[float, str]] = {}
        """(policy, image) -> (until when it is fresh, pinned image)."""

    async def pin(self, objects: Sequence[dict[str, Any]], policy: Policy) -> Mapping[str, str]:
        """Writes the digest of every image into the objects, and returns image -> pinned image.
        Raises ArtifactRefused with all problems."""
        places = [
            (f"workflow.objects[{index}].{path}", entry, field)
            for index, obj in enumerate(objects)
            for path, entry, field in named(obj)
        ]
        wanted = {entry[field]: path for path, entry, field in reversed(places)}
        if len(wanted) > IMAGES_MAX:
            message = f"name {len(wanted)} images; a submission has at most {IMAGES_MAX}"
            raise ArtifactRefused(Problem(Reason.IMAGE, "workflow.objects", message))
        outcomes = await asyncio.gather(
            *(self._resolved(image, path, policy) for image, path in wanted.items())
        )
        if problems := [each for each in outcomes if isinstance(each, Problem)]:
            raise ArtifactRefused(*sorted(problems, key=lambda each: each.path))
        pinned = dict(zip(wanted, map(str, outcomes), strict=True))
        for _, entry, field in places:
            entry[field] = pinned[entry[field]]
        return pinned

    async def _resolved(self, text: str, path: str, policy: Policy) -> str | Problem:
        image = parsed(text)
        if image is None:
            return Problem(Reason.IMAGE, path, f"{text[:120]!r} is not the name of an image")
        if image.digest:
            return image.pinned
        host = image.where.host
        if self._registry is None or hosts.access(host, policy) is None:
            message = (
                f"the tag {image.tag} is not resolved: name {host} in spec.registries of the"
                f" SubmissionPolicy {policy.name}, or write the image with a digest"
            )
            return Problem(Reason.IMAGE, path, message)
        until_s, pinned = self._fresh.get((policy.name, text), (0.0, ""))
        if pinned and self._monotonic() < until_s:
            return pinned
        try:
            digest = await self._registry.digest(image.where, image.tag, policy)
        except ArtifactRefused as problem:
            first = problem.problems[0]
            missing = first.reason is Reason.NOT_FOUND
            return Problem(Reason.IMAGE if missing else first.reason, path, first.message)
        while len(self._fresh) >= _FRESH_MAX:
            self._fresh.pop(next(iter(self._fresh)))
        pinned = f"{image.where}@{digest}"
        self._fresh[policy.name, text] = self._monotonic() + FRESH_S, pinned
        return pinned
