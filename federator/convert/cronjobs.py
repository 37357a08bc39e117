"""CronJob -> a drafted PinterestCronJob. Pure; one row of `convert.DRAFTERS`.

Its job template is converted as a Job is; the PinterestJobSet that comes of it is the template of
each run.
"""

from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.convert import deployments, jobs
from federator.convert.drafts import Draft, Drafts, Item, only_fields
from federator.kinds.cronjob import schema

_SAID: Final = (
    "schedule",
    "timeZone",
    "concurrencyPolicy",
    "startingDeadlineSeconds",
    "suspend",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
"""Fields that mean the same."""
_KNOWN: Final = frozenset({*_SAID, "jobTemplate"})


def draft(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for fields of the wrong type."""
    spec = raw.mapping(item.obj, "spec")
    only_fields(spec, _KNOWN, {}, "spec")
    run = raw.mapping(spec, "jobTemplate")
    # Who owns a run is said of its Job: the labels of the template are those of each run.
    of_run = {**raw.mapping(run, "metadata"), "name": item.name, "namespace": item.namespace}
    made = jobs.draft_run(replace(item, obj={**item.obj, "metadata": of_run}), drafts)
    run_meta = {
        name: value
        for name, value in made.obj["metadata"].items()
        if name in ("labels", "annotations")
    }
    template: dict[str, Any] = {"metadata": run_meta} if run_meta else {}
    template["spec"] = made.obj["spec"]
    made.item, made.obj = (
        item,
        {
            "apiVersion": schema.API_VERSION,
            "kind": schema.KIND,
            "metadata": deployments.metadata(item),
            "spec": {name: spec[name] for name in _SAID if name in spec}
            | {"jobTemplate": template},
        },
    )
    return made
