"""Plans of edits, before anything is applied."""

from typing import Final

from federator.dashboard import edits
from federator.dashboard.routes.route import Request, Route, Shown, Sources
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.views import plan as plan_views
from federator.model.manifests import Unreadable

FORM_MAX: Final = edits.TEXT_MAX + 64 * 1024
"""Bytes of a form: manifests, and what stands around them."""
PARAMETERS: Final = frozenset({"namespace", "lose", "delete", "scale", "losses"})


async def plan(sources: Sources, request: Request) -> Shown:
    """What the edits of the form, or of the address, would come to. The leading hub computes it,
    and checks the reader's rights."""
    given = request.parameters if request.form is None else request.form
    view = plan_views.form(given)
    try:
        wanted = await sources.compute(edits.of, given)
        if not wanted:
            if request.form is not None:
                view["problems"] = ["There is no edit: paste or upload objects, or name some."]
            return Shown("Plan", view, 200 if request.form is None else 422)
        asked = wanted.asked(losses=view["losses"])
        document = await sources.leader.plan(request.reader, asked)
    except Unreadable as bad:
        return Shown("Plan", {**view, "problems": list(bad.sentences)}, 422)
    except NoAnswer as none:
        return Shown("Plan", {**view, "problems": [none.message]}, none.status)
    return Shown("Plan", {**view, "plan": plan_views.outcome(document, wanted.ignored)})


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "/plan",
        plan,
        "plan.html.j2",
        "Plan",
        refreshes=False,
        parameters=PARAMETERS,
        form_max=FORM_MAX,
    ),
)
