"""What people do with buttons: a page that says what it comes to, and the confirmation, which
writes as the person."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api.raw import Obj
from federator.dashboard import actions
from federator.dashboard.actions import CLUSTER, FEDERATION, WORKLOAD, Action, Made
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.sources.acting import ActingTransport
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.views import action as action_views
from federator.hub.query import pausing
from federator.hub.query.router import Right
from federator.kinds.edits import Patch
from federator.kinds.kind import Kind
from federator.kinds.pods.revisions import Revision
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.control import optimistic
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

FORM_MAX: Final = 4096
"""Bytes of a confirmation."""
PARAMETERS: Final = frozenset({"given"})
_PAUSE: Final = Kind("ConfigMap", "", "v1", "configmaps", "configmap", ("cm",), namespaced=True)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is changed."""

    of: str
    kind: Kind
    namespace: str
    name: str
    where: tuple[str, ...]
    """The parts of the address of its page."""

    @property
    def ref(self) -> ObjectRef:
        return self.kind.ref(self.namespace, self.name)

    def right(self, verb: str) -> Right:
        return Right(verb, self.kind.group, self.kind.plural, name=self.name)


def workload(kind: Kind, namespace: str, name: str) -> Subject:
    return Subject(WORKLOAD, kind, namespace, name, ("workloads", kind.kind, namespace, name))


def cluster(name: str) -> Subject:
    return Subject(CLUSTER, gathering.CLUSTERS, "", name, ("clusters", name))


PAUSE: Final = Subject(FEDERATION, _PAUSE, pausing.PAUSE.namespace, pausing.PAUSE.name, ())


async def buttons(
    sources: Sources, request: Request, subject: Subject, obj: Obj
) -> list[dict[str, str]]:
    """The buttons on the page of this object: none without the right to change it."""
    if not await sources.rights.acts(request.reader, subject.right("patch"), subject.namespace):
        return []
    fitting = [each for each in actions.of(subject.of) if each.fits(subject.kind, obj)]
    return action_views.buttons(fitting, subject.where)


async def of_federation(sources: Sources, request: Request) -> list[dict[str, str]]:
    """The buttons that are about everything."""
    if not await sources.rights.acts(request.reader, PAUSE.right("patch"), PAUSE.namespace):
        return []
    return await buttons(sources, request, PAUSE, await _read(sources, PAUSE))


async def on_workload(sources: Sources, request: Request) -> Shown:
    return await _action(sources, request, workload(*await gathering.allowed(sources, request)))


async def on_cluster(sources: Sources, request: Request) -> Shown:
    name = await gathering.cluster_name(sources, request)
    return await _action(sources, request, cluster(name))


async def on_federation(sources: Sources, request: Request) -> Shown:
    """A button that is about everything."""
    return await _action(sources, request, PAUSE)


@dataclass(frozen=True, slots=True)
class Act:
    """An action that is asked for."""

    sources: Sources
    request: Request
    subject: Subject
    action: Action
    obj: Obj
    """As the host has it now."""

    def page(self) -> dict[str, Any]:
        return action_views.form(self.action, self.subject.kind, self.obj, self.subject.where)

    def client(self) -> Client:
        """Acts as the person."""
        user, host = self.sources.rights.acting(self.request.reader), self.sources.host
        assert user is not None
        return host.on(ActingTransport(host.transport, user))


async def _action(sources: Sources, request: Request, subject: Subject) -> Shown:
    action = actions.named(subject.of, request.given["action"])
    if action is None:
        known = ", ".join(each.name for each in actions.of(subject.of))
        raise RequestRefused(404, f"There is no such action; there are {known}.")
    if sources.rights.acting(request.reader) is None:
        raise RequestRefused(
            403, "This dashboard does not let you change anything (dashboard.act_as)."
        )
    if not await sources.rights.acts(request.reader, subject.right("patch"), subject.namespace):
        raise gathering.denied("patch", subject.kind, subject.name, subject.namespace)
    act = Act(sources, request, subject, action, await _read(sources, subject))
    return await (_shown(act) if request.form is None else _done(act))


async def _read(sources: Sources, subject: Subject) -> dict[str, Any]:
    if subject.of != FEDERATION:
        return await gathering.read(sources, subject.kind, subject.namespace, subject.name)
    try:
        return await pausing.read(sources.host)
    except errors.ApiError:
        raise RequestRefused(502, gathering.SILENT) from None


async def _shown(act: Act) -> Shown:
    """What it comes to, with the confirmation; before that, the field to fill in."""
    action, page = act.action, act.page()
    title = f"{action.title}: {page['subject']}"
    if not action.fits(act.subject.kind, act.obj):
        return Shown(title, {**page, "problem": "This is not possible as it is now."}, 409)
    given = act.request.parameters.get("given")
    if given is None and action.field is not None and action.field.required:
        return Shown(title, page)
    page |= {"given": given or ""}
    if page["field"] is not None and given is not None:
        page["field"]["value"] = given
    try:
        patch = await _patch(act, given or "")
    except FieldError as bad:
        return Shown(title, {**page, "problem": f"{bad}."}, 422)
    document, warning = await _forecast(act, patch)
    outcome = action_views.outcome(action, act.subject.kind, act.obj, patch, document)
    mark = optimistic.mark(act.obj)
    return Shown(title, {**page, **outcome, "warning": warning, "mark": mark})


async def _patch(act: Act, given: str) -> Patch:
    """The edit. Raises FieldError and `RequestRefused`."""
    kept = await _revisions(act) if act.action.revisions else []
    made = Made(given, act.sources.clock.now(), act.request.reader.user.name, kept)
    return act.action.edit(act.subject.kind, act.obj, made)


async def _revisions(act: Act) -> list[Revision]:
    """Raises `RequestRefused` for a person without the right to list them."""
    kept = await gathering.kept_revisions(act.sources, act.request, act.obj)
    if kept is None:
        where = act.subject.namespace
        raise RequestRefused(
            403, f"You may not list controllerrevisions.apps in {where} on the host."
        )
    return kept


async def _forecast(act: Act, patch: Patch) -> tuple[Mapping[str, Any] | None, str]:
    """(the document of the plan, "") or (None, why there is none)."""
    wanted = actions.asked(act.action, act.subject.kind, act.obj, patch)
    if wanted is None:
        return None, ""
    try:
        return await act.sources.leader.plan(act.request.reader, wanted), ""
    except NoAnswer as none:
        return None, f"There is no forecast. {none.message}"


async def _done(act: Act) -> Shown:
    """Writes the edit into the object that the person has seen, and leads back to its page. Raises
    `RequestRefused` with what happened, or did not."""
    form, subject = act.request.form or {}, act.subject
    mark = form.get("mark", "")
    if mark != optimistic.mark(act.obj) or not act.action.fits(subject.kind, act.obj):
        raise _conflict(subject)
    try:
        patch = await _patch(act, form.get("given", ""))
        if subject.of == FEDERATION:
            await pausing.switch(act.client(), patch, act.obj)
        else:
            await optimistic.patch(act.client(), subject.ref, mark, patch)
    except FieldError as bad:
        raise RequestRefused(422, f"{bad}. Nothing was changed.") from None
    except errors.Conflict:
        raise _conflict(subject) from None
    except (errors.Denied, errors.Invalid, errors.NotFound) as refused:
        status = {errors.Denied: 403, errors.NotFound: 404}.get(type(refused), 422)
        said = plaintext.clipped(str(refused), 400)
        raise RequestRefused(status, f"The host refused. Nothing was changed. {said}") from None
    except errors.ApiError as trouble:
        said = plaintext.clipped(str(trouble), 300)
        raise RequestRefused(
            502,
            "The host did not confirm the change, so it is unknown whether it was made. Look at"
            f" {subject.name} before you try again. {said}",
        ) from None
    page = act.page()
    said = f"Done: {act.action.title.lower()} of {page['subject']}."
    return Shown(act.action.title, {**page, "done": said}, location=page["back"])


def _conflict(subject: Subject) -> RequestRefused:
    what = "The pause" if subject.of == FEDERATION else f"{subject.kind.kind} {subject.name}"
    return RequestRefused(
        409,
        f"{what} was changed meanwhile, perhaps by somebody else or in another tab. Nothing was"
        " changed now. Look at it as it is, and try again.",
    )


_CONFIRMED: Final[dict[str, Any]] = {
    "template": "action.html.j2",
    "refreshes": False,
    "parameters": PARAMETERS,
    "form_max": FORM_MAX,
}
ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "/workloads/{kind}/{namespace}/{name}/act/{action}",
        on_workload,
        section="/workloads",
        **_CONFIRMED,
    ),
    Route("/clusters/{name}/act/{action}", on_cluster, section="/clusters", **_CONFIRMED),
    Route("/act/{action}", on_federation, section="/", **_CONFIRMED),
)
