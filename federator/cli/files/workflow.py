"""`federator workflow validate | push | attest | check`: workflow files on their way into an
artifact store, with the gateway's own reading, stores and checks.

The stores see the caller's own credentials: those that `docker login` has left, without programs
that such a file may name.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.api.submissionpolicy import Policy
    from federator.gateway.artifacts.artifacts import Artifacts
    from federator.gateway.artifacts.secrets import Login
    from federator.model.sources import Reference

DOCKER: Final = "docker-config"
"""Stands in place of a Secret for the caller's own credentials."""
PREDICATE_MAX: Final = 128 * 1024


@click.group()
def workflow() -> None:
    """Check, store and sign workflow files for the submission gateway."""


def _artifact(command: common.F) -> common.F:
    command = click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        help="A SubmissionPolicy: certificates and further hosts are read from spec.registries.",
    )(command)
    return click.argument("artifact", metavar="SOURCE@VERSION")(command)


def _rendering(command: common.F) -> common.F:
    command = click.option(
        "--param",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter of the submission; may be repeated.",
    )(command)
    return click.option(
        "-n", "--namespace", default="default", show_default=True, help="Namespace."
    )(command)


@workflow.command()
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@_rendering
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="Print the objects.")
def validate(file: str, parameters: tuple[str, ...], namespace: str, output: str | None) -> None:
    """Check a workflow file and the objects that these parameters make of it. Parameters without
    default need a value."""
    from federator.gateway.artifacts import workflows

    with _telling():
        loaded = workflows.load(Path(file).read_bytes())
        objects, values = workflows.render(loaded, _given(parameters), namespace)
    if output:
        common.show(common.dump({"kind": "List", "apiVersion": "v1", "items": objects}, output))
        return
    common.say(f"workflow {loaded.name} is valid: {len(objects)} objects")
    for name, value in values.items():
        common.say(f"  {name} = {workflows.text_of(value)}")


@workflow.command()
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@_artifact
def push(file: str, artifact: str, policy_file: str | None) -> None:
    """Check a workflow file, store it as SOURCE@VERSION, and print its digest.

    SOURCE is oci://HOST/REPOSITORY or https://HOST/PATH.
    """
    from federator.gateway.artifacts import workflows

    content = Path(file).read_bytes()
    ref, version = _parsed(artifact)
    with _telling():
        build = workflows.load(content).build

    async def run() -> str:
        async with _stores(policy_file, ref) as (all_, policy):
            return await all_.store(ref).push(ref, version, content, build, policy)

    with _telling():
        common.say(common.run(run()))


@workflow.command()
@_artifact
@click.option(
    "--key",
    required=True,
    type=click.Path(dir_okay=False, exists=True),
    help="Private key in PEM, without password: Ed25519, ECDSA P-256 or RSA.",
)
@click.option(
    "--type",
    "kind",
    required=True,
    type=click.Choice(["provenance", "review"]),
    help="What the statement says.",
)
@click.option(
    "--predicate",
    required=True,
    type=click.Path(dir_okay=False, exists=True),
    help="JSON file: SLSA provenance v1, or a review (docs/reference/review.schema.json).",
)
def attest(artifact: str, policy_file: str | None, key: str, kind: str, predicate: str) -> None:
    """Sign a statement about SOURCE@VERSION and store it beside the version."""
    from federator.gateway.artifacts import envelopes, statements

    ref, version = _parsed(artifact)
    body = _predicate(predicate, kind)
    private = Path(key).read_bytes()
    predicate_type = statements.REVIEW if kind == "review" else statements.PROVENANCE

    async def run() -> str:
        async with _stores(policy_file, ref) as (all_, policy):
            store = all_.store(ref)
            digest = await store.digest_of(ref, version, policy)
            payload = statements.made(predicate_type, body, str(ref), digest)
            try:
                envelope = envelopes.sealed(payload, statements.PAYLOAD_TYPE, private)
            except ValueError as bad:
                common.fail(f"{key} {bad}")
            await store.attach(ref, version, digest, envelope, policy)
            return digest

    with _telling():
        common.say(f"{kind} of {common.run(run())} is signed and stored")


@workflow.command()
@click.argument("artifact", metavar="SOURCE@VERSION")
@click.option(
    "--policy", "policy_file", required=True, metavar="FILE", help="The SubmissionPolicy to try."
)
@_rendering
def check(artifact: str, policy_file: str, parameters: tuple[str, ...], namespace: str) -> None:
    """Say what a gateway with this SubmissionPolicy makes of SOURCE@VERSION: its digest, provenance
    and images. Quota and placement are not asked."""
    ref, version = _parsed(artifact)

    async def run() -> None:
        async with _stores(policy_file, ref) as (all_, policy):
            resolved = await all_.resolve(str(ref), version, namespace, [policy])
            rendered = await all_.render(resolved, _given(parameters), namespace)
        shown = resolved.provenance
        common.say(f"{ref}@{resolved.digest}")
        state = "verified" if shown.verified else "not verified"
        common.say(f"provenance: {state} (mode {shown.mode.value})")
        for problem in shown.problems:
            common.say(f"warning: {problem}", err=True)
        if shown.commit:
            common.say(f"  commit {shown.commit} of {shown.repository}, branch {shown.branch}")
            common.say(f"  built by {shown.builder}; signed by {', '.join(shown.keys)}")
        if shown.reviewers:
            authors, reviewers = ", ".join(shown.authors), ", ".join(shown.reviewers)
            common.say(f"  written by {authors}, approved by {reviewers}")
        for obj in rendered.objects:
            common.say(f"{obj['kind']} {namespace}/{obj['metadata'].get('name', '')}")
        for image, pinned in rendered.images.items():
            common.say(f"  image {image} -> {pinned.partition('@')[2]}")

    with _telling():
        common.run(run())


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Ends the command with the sentences of a refusal."""
    from federator.gateway.artifacts.ports import ArtifactRefused

    try:
        yield
    except ArtifactRefused as refusal:
        common.fail(*map(str, refusal.problems))


def _given(parameters: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in parameters]
    if wrong := [name for name, separator, _ in pairs if not separator]:
        common.fail(f"--param {wrong[0]}: NAME=VALUE is expected")
    return {name: value for name, _, value in pairs}


def _parsed(artifact: str) -> "tuple[Reference, str]":
    from federator.model import sources
    from federator.model.errors import FieldError

    source, separator, version = artifact.rpartition("@")
    if not separator:
        common.fail(f"{artifact}: SOURCE@VERSION is expected")
    if not sources.VERSION.fullmatch(version) and not sources.DIGEST.fullmatch(version):
        common.fail(f"{version}: a version has letters, digits and _ . -, at most 128")
    try:
        return sources.reference(source), version
    except FieldError as bad:
        common.fail(bad.message)


def _predicate(file: str, kind: str) -> Mapping[str, object]:
    """The predicate of a file, checked as the gateway checks it."""
    from federator.api import decoding
    from federator.api.decoding import Limits
    from federator.gateway.artifacts import statements
    from federator.model.errors import FieldError

    try:
        content = decoding.from_json(Path(file).read_bytes(), Limits(size=PREDICATE_MAX, depth=32))
    except FieldError as bad:
        common.fail(f"{file}: {bad}")
    if not isinstance(content, dict):
        common.fail(f"{file}: a JSON object is expected")
    try:
        statements.built(content) if kind == "provenance" else statements.review(content)
    except ValueError as bad:
        common.fail(f"{file} {bad}")
    return content


@contextlib.asynccontextmanager
async def _stores(
    policy_file: str | None, ref: "Reference"
) -> "AsyncIterator[tuple[Artifacts, Policy]]":
    """The stores of the network, and the policy under which this command uses them."""
    from federator.gateway.artifacts import artifacts

    policy = _policy(policy_file, ref)
    with tempfile.TemporaryDirectory(prefix="federator-") as folder:
        all_ = artifacts.over_network(
            _DockerLogins(), Path(folder), time.monotonic, allow_loopback=True
        )
        try:
            yield all_, policy
        finally:
            await all_.close()


def _policy(file: str | None, ref: "Reference") -> "Policy":
    """The policy of a file, or one that allows the reference alone; with the caller's own
    credentials in place of Secrets."""
    import dataclasses

    from federator.api import submissionpolicy
    from federator.cli.files import manifests
    from federator.kinds import read

    obj: Mapping[str, object] = {"spec": {"sources": [str(ref)], "provenance": {"mode": "Off"}}}
    if file is not None:
        objects = manifests.read((file,), recursive=False, command="federator workflow")
        named = [each.obj for each in objects if each.obj.get("kind") == submissionpolicy.KIND]
        if len(named) != 1:
            common.fail(f"{file}: one {submissionpolicy.KIND} is expected")
        obj = named[0]
        try:
            read.check(obj)
        except read.InvalidObject as bad:
            common.fail(*(f"{file}: {each}" for each in bad.errors))
    policy = submissionpolicy.to_policy(obj)
    hosts = {
        host: dataclasses.replace(access, secret=DOCKER if _docker(host) is not None else "")
        for host, access in policy.hosts.items()
    }
    return dataclasses.replace(policy, hosts=hosts)


class _DockerLogins:
    """The credentials that `docker login` has left."""

    async def login(self, name: str, host: str) -> "Login":
        from federator.gateway.artifacts.secrets import Login

        return _docker(host) or Login()


def _docker(host: str) -> "Login | None":
    from federator.gateway.artifacts import secrets

    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    path = Path(folder) / "config.json"
    try:
        return secrets.of_docker_config(path.read_text(encoding="utf-8"), host)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as bad:
        common.fail(f"{path}: {bad}")
