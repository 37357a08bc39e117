"""The failure policy of a job set as the podFailurePolicy of its Jobs."""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.jobset.endfields import MAX_RULES
from federator.model.errors import FieldError

_ACTIONS: Final = {
    "FailJobSet": "FailJob",
    "FailShard": "FailIndex",
    "Ignore": "Ignore",
    "Count": "Count",
}
PATH: Final = "spec.failurePolicy.rules"


def rules(obj: Obj) -> list[dict[str, Any]]:
    """The rules of each Job. A rule without a container becomes one for each container of the
    template: injected containers end in their own way. Raises FieldError for a container that the
    template does not have, and for more rules than a Job takes.
    """
    pod = raw.mapping(obj, "spec", "template", "spec")
    every = [
        raw.text(container, "name")
        for field in ("containers", "initContainers")
        for container in raw.objects(pod, field)
    ]
    made: list[dict[str, Any]] = []
    for number, rule in enumerate(raw.objects(obj, "spec", "failurePolicy", "rules")):
        action = _ACTIONS.get(raw.text(rule, "action"), "Count")
        codes = raw.mapping(rule, "onExitCodes")
        if not codes:
            conditions = [
                {
                    "type": raw.text(condition, "type"),
                    "status": raw.text(condition, "status", default="True"),
                }
                for condition in raw.objects(rule, "onPodConditions")
            ]
            made.append({"action": action, "onPodConditions": conditions})
            continue
        named = raw.text(codes, "containerName")
        if named and named not in every:
            path = f"{PATH}[{number}].onExitCodes.containerName"
            raise FieldError(path, f"{named} is no container of the template")
        match = {
            "operator": raw.text(codes, "operator", default="In"),
            "values": sorted(set(raw.items(codes, "values"))),
        }
        made += [
            {"action": action, "onExitCodes": {"containerName": name, **match}}
            for name in ([named] if named else every)
        ]
    if len(made) > MAX_RULES:
        message = f"become {len(made)} rules of a Job, which takes {MAX_RULES}: name containers"
        raise FieldError(PATH, message)
    return made
