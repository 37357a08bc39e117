"""One submission, from a request to objects: resolve, fill in, judge, write, acknowledge.

Nothing is written before the verdict, and nothing is acknowledged before everything is written. A
crash or a lost reply at any point is repaired by the same request: names and records are fixed by
its key (`records`), so what is there is found and what is missing is created.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.api import raw, submissions
from federator.api.submissionpolicy import Policy
from federator.api.submissions import Record
from federator.gateway import records
from federator.gateway.api import problems
from federator.gateway.api.models import SubmissionRequest, Verdict
from federator.gateway.api.problems import Field, Problem
from federator.gateway.artifacts import ports
from federator.gateway.artifacts.ports import Artifact, Rendered, Versions
from federator.gateway.callers import Caller
from federator.gateway.platforms import table
from federator.gateway.platforms.dispatch import Admission, Platforms
from federator.gateway.platforms.events import SubmissionEvent
from federator.model import names
from federator.model.kubernetes import selectors

Obj = dict[str, Any]
WRITE_TRIES: Final = 4
"""How often an object is read again because another request was faster."""
REFUSED: Final = "VerdictRefused"


Policies = Callable[[], Sequence[Policy]]


@dataclass(frozen=True, slots=True)
class Done:
    """What a request came to."""

    record: Record
    objects: tuple[Obj, ...]
    """As they are stored; as they would be for a dry run."""
    verdict: Verdict | None = None
    """None where the submission was there already."""
    created: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the host has of a request before it is worked on."""

    identity: str
    body: str
    """The digest of what must be the same in a repeated request."""
    admission: Admission
    done: Done | None = None
    """Set where the submission is there already: nothing is left to do."""
    known: Record | None = None
    """Of a submission that was interrupted."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits to the platform of the kinds in the workflow."""

    platforms: Platforms
    versions: Versions
    policies: Policies
    now: Callable[[], str]
    draw: Callable[[], str]
    """A new key for a request without one."""

    async def earlier(
        self, caller: Caller, namespace: str, workflow: str, request: SubmissionRequest
    ) -> Earlier:
        """What there is of this request. Shares the host's answers with others, so it takes little
        but time. Raises `Problem`."""
        check_names(namespace, workflow)
        admission = await self.platforms.admit(caller, namespace)
        key = request.idempotency_key or self.draw()
        identity = records.identifier(namespace, workflow, key)
        body = records.body_digest(request.artifact, request.version, request.parameters)
        if not request.idempotency_key or request.dry_run:
            return Earlier(identity, body, admission)
        about = caller, namespace, workflow, identity
        there = await self.platforms.find(*about, without=admission.refused)
        known = submissions.of_submission(there, identity)
        return Earlier(identity, body, admission, _repeated(there, identity, body), known)

    async def submit(
        self,
        caller: Caller,
        namespace: str,
        workflow: str,
        request: SubmissionRequest,
        earlier: Earlier,
    ) -> Done:
        """Raises `Problem`. What it raises after the first write says that the same request
        completes it. `earlier`: looked up after the request came."""
        identity, body, known = earlier.identity, earlier.body, earlier.known
        if known is not None:
            # It was interrupted: a tag may have moved since.
            pinned = {"artifact": known.artifact, "version": known.digest}
            request = request.model_copy(update=pinned)
        about = caller, namespace, workflow, request
        artifact, rendered = await self._rendered(*about, earlier.admission)
        objects = [_named(obj, identity) for obj in rendered.objects]
        record = Record(
            identity,
            body,
            workflow,
            str(artifact.source),
            known.version if known is not None else artifact.version,
            artifact.digest,
            known.by if known is not None else caller.name,
            known.at if known is not None else self.now(),
            commit=artifact.provenance.commit or artifact.workflow.build.commit,
            branch=artifact.provenance.branch or artifact.workflow.build.branch,
            objects=tuple(f"{obj['kind']}/{obj['metadata']['name']}" for obj in objects),
            parameters=dict(rendered.parameters),
        )
        warnings = tuple(str(problem) for problem in artifact.provenance.problems)
        lives = [
            # What ends has a name of its key, so with a new key there is none yet.
            None
            if known is None and records.ends(obj["kind"])
            else await self.platforms.of(obj).live(caller, obj)
            for obj in objects
        ]
        whole = list(zip(objects, lives, strict=True))
        return await self._judged(caller, record, whole, request, warnings)

    async def _rendered(
        self,
        caller: Caller,
        namespace: str,
        workflow: str,
        request: SubmissionRequest,
        admission: Admission,
    ) -> tuple[Artifact, Rendered]:
        groups = set(caller.user.groups)
        allowed = [
            policy
            for policy in self.policies()
            if not policy.groups or not policy.groups.isdisjoint(groups)
        ]
        if not allowed:
            raise Problem(
                403, "Forbidden", "No SubmissionPolicy lets you or one of your groups submit."
            )
        try:
            artifact = await self.versions.resolve(
                request.artifact, request.version, namespace, allowed
            )
            if artifact.workflow.name != workflow:
                message = f"the workflow in the file is {artifact.workflow.name}"
                raise problems.of_fields("WorkflowInvalid", [Field("name", message)])
            # All objects are of one platform: a file that mixes kinds of two is not read.
            admission.check(table.PLATFORMS.name_of(artifact.workflow.objects[0]["kind"]))
            return artifact, await self.versions.render(artifact, request.parameters, namespace)
        except ports.ArtifactRefused as refused:
            raise of_version(refused) from None

    async def _judged(
        self,
        caller: Caller,
        record: Record,
        wanted: Sequence[tuple[Obj, Obj | None]],
        request: SubmissionRequest,
        warnings: tuple[str, ...],
    ) -> Done:
        """Writes what the verdict admits. `wanted`: each object, and what is there of its name."""
        objects = [obj for obj, _ in wanted]
        whole = [_over(obj, live, record) for obj, live in wanted]
        # One create is atomic; of several, none is written before the host has accepted all.
        if request.dry_run or len(objects) > 1:
            tried = [await self._tried(caller, obj, live, record) for obj, live in wanted]
            whole = [made for made, _ in tried]
            wanted = list(zip(objects, (live for _, live in tried), strict=True))
        namespace = raw.text(objects[0], "metadata", "namespace")
        verdict = await self.platforms.of(objects[0]).verdict(namespace, objects)
        if request.dry_run:
            return Done(record, tuple(whole), verdict, warnings=warnings)
        record = replace(record, verdict=verdict.verdict)
        if verdict.verdict == "refused":
            if request.idempotency_key:
                # Another request may have made those of which nothing was read.
                lives = [
                    live or await self.platforms.of(obj).live(caller, obj) for obj, live in wanted
                ]
                wanted = list(zip(objects, lives, strict=True))
            if not any(live is not None and _is_of(live, record) for _, live in wanted):
                raise _refused(verdict)
        stored = [await self._write(caller, obj, live, record) for obj, live in wanted]
        about = SubmissionEvent(
            "Submitted", namespace, record.workflow, record.version, record.by, record.verdict
        )
        for obj in stored:
            self.platforms.of(obj).record_event(about, record.id, obj)
        return Done(record, tuple(stored), verdict, created=True, warnings=warnings)

    async def _tried(
        self, caller: Caller, obj: Obj, live: Obj | None, record: Record
    ) -> tuple[Obj, Obj | None]:
        """The object as it would be written, which the host accepts, and what is there of its name.
        Nothing is changed."""
        platform = self.platforms.of(obj)
        for _ in range(WRITE_TRIES):
            if live is not None:
                _is_of(live, record)
            made = _over(obj, live, record)
            if await platform.write(caller, made, live, dry_run=True) is not None:
                return made, live
            live = await platform.live(caller, obj)
        raise _busy(obj)

    async def _write(
        self, caller: Caller, obj: Obj, live: Mapping[str, Any] | None, record: Record
    ) -> Obj:
        platform = self.platforms.of(obj)
        for _ in range(WRITE_TRIES):
            if live is not None and _is_of(live, record):
                return dict(live)
            stored = await platform.write(caller, _over(obj, live, record), live)
            if stored is not None:
                return {**stored, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
            live = await platform.live(caller, obj)
        raise _busy(obj)


def check_names(namespace: str, workflow: str) -> None:
    """Raises `Problem` for a namespace or workflow that cannot be."""
    for path, text in (("namespace", namespace), ("name", workflow)):
        if problem := selectors.dns1123_label(text):
            raise problems.of_fields("InvalidRequest", [Field(path, problem)], 400)
    if names.is_system_namespace(namespace) or namespace == names.PROBES:
        raise Problem(403, "Forbidden", f"No workload may be submitted in {namespace}.")


def of_version(refused: ports.ArtifactRefused) -> Problem:
    """The same refusal as a problem."""
    reason = refused.reason
    fields = [Field(each.path, each.message) for each in refused.problems]
    made = problems.of_fields(reason.title, fields, reason.status)
    made.retry_after_s = 5 if reason.status == 503 else 0
    return made


def _repeated(there: Sequence[Obj], identity: str, body: str) -> Done | None:
    """A submission that is there already; None where it is not, or not whole. Raises `Problem` for
    another request under its key."""
    record = submissions.of_submission(there, identity)
    if record is None:
        return None
    _check_body(record, body)
    existing = {f"{obj['kind']}/{obj['metadata']['name']}" for obj in there}
    return Done(record, tuple(there)) if existing >= set(record.objects) else None


def _is_of(live: Mapping[str, Any], record: Record) -> bool:
    """Whether an object has what this submission writes, or wrote it before a later one. Raises
    `Problem` for another request under its key."""
    known = submissions.of_submission([live], record.id)
    if known is not None:
        _check_body(known, record.body)
    return known is not None


def _check_body(record: Record, body: str) -> None:
    if record.body != body:
        raise Problem(
            409,
            "KeyReused",
            "The idempotencyKey was used for a submission with another artifact, version or other"
            " parameters. Use another key, or send the request as it was.",
        )


def _named(obj: Mapping[str, Any], identity: str) -> Obj:
    meta = obj["metadata"]
    name = records.name_of(obj["kind"], raw.text(meta, "name"), identity)
    return {**obj, "metadata": {**meta, "name": name}}


def _over(obj: Obj, live: Mapping[str, Any] | None, record: Record) -> Obj:
    """The object with its record: a new one, or in place of `live`. Raises `Problem` for a live
    object that this workflow did not make."""
    if live is None:
        return records.marked(obj, record, ())
    earlier = submissions.read(live)
    if not any(each.workflow == record.workflow for each in earlier[:1]):
        what = f"{obj['kind']}/{obj['metadata']['name']}"
        owner = f"the workflow {earlier[0].workflow}" if earlier else "no workflow"
        raise Problem(
            409,
            "ObjectExists",
            f"{what} exists already, and {owner} has made it. Delete it, or rename the object in"
            " this workflow.",
        )
    made, meta = records.marked(obj, record, earlier), raw.mapping(live, "metadata")
    kept = {
        name: {**raw.text_map(meta, name), **made["metadata"][name]}
        for name in ("labels", "annotations")
    }
    return {
        **live,
        "spec": obj["spec"],
        "metadata": {**meta, **kept},
    }


def _busy(obj: Obj) -> Problem:
    return Problem(
        409,
        "Conflict",
        f"Other requests change {obj['kind']}/{obj['metadata']['name']} all the time. Send the"
        " same request again.",
        retry_after_s=problems.BUSY_S,
    )


def _refused(verdict: Verdict) -> Problem:
    refused = [each for each in verdict.workloads if each.verdict == "refused"]
    first = refused[0]
    fix = (
        f" It would be admitted after this change: {first.fixes[0].change}." if first.fixes else ""
    )
    return Problem(
        422,
        REFUSED,
        f"{first.kind} {first.name}: {first.message}.{fix}",
        fields=[Field(f"{each.kind}/{each.name}", each.message) for each in refused],
        verdict=verdict.model_dump(mode="json", by_alias=True, exclude_none=True),
    )
