"""A part of the story of deploy/: cron jobs, whose runs the hub makes, and which go to their clusters
and back.
"""

import json

from tests.e2e import workloads
from tests.e2e.federations import Fleet, until

SPACE = ("-n", "feed")
LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "600"}


def tell(fleet: Fleet) -> None:
    _a_cron_job_replaces_its_run(fleet)
    _a_cron_job_goes_to_its_clusters_and_back(fleet)


def _a_cron_job_replaces_its_run(fleet: Fleet) -> None:
    """The next minute's run takes the place of one that lasts longer: the hub makes and deletes job
    sets.
    """
    template = workloads.jobset("every", "feed", 1, 1)["spec"]
    template["template"]["metadata"] = {"annotations": LONG}
    cron = workloads.cronjob("every", "feed", "* * * * *", template, concurrencyPolicy="Replace")
    fleet.host("apply", "-f", fleet.manifest(cron))

    def runs() -> list[str]:
        found = fleet.host.json("get", "pjs", *SPACE, "-l", "pinterest.com/cronjob=every")["items"]
        return [one["metadata"]["name"] for one in found]

    until(lambda: len(runs()) == 1, lambda: f"there is no run: {runs()}", within_s=90)
    (first,) = runs()
    until(
        lambda: first not in runs(), lambda: f"the first run is still there: {runs()}", within_s=90
    )
    fleet.host("delete", "pcj", "every", *SPACE)


def _a_cron_job_goes_to_its_clusters_and_back(fleet: Fleet) -> None:
    """The hub makes, changes and deletes the object by which clusters run it; a member process makes
    the CronJob, tells it from when on it runs, and puts back what others change.
    """
    template = workloads.jobset("sweep", "feed", 1, 1)["spec"]
    template["placement"] = {"clusters": {"names": ["a", "b"]}}
    native = {"runs": "Native", "concurrencyPolicy": "Forbid"}
    cron = workloads.cronjob("sweep", "feed", "0 0 1 1 *", template, **native)
    fleet.host("apply", "-f", fleet.manifest(cron))

    def schedules() -> list[str]:
        made = fleet.spread("cronjobs", "feed", "sweep").values()
        return [one["spec"]["schedule"] for one in made if not one["spec"]["suspend"]]

    until(lambda: schedules() == ["0 0 1 1 *"] * 2, lambda: f"CronJobs: {schedules()}")
    patch = json.dumps({"spec": {"schedule": "0 0 2 1 *"}})
    fleet.members["a"]("patch", "cronjobs", "sweep", *SPACE, "--type=merge", "-p", patch)
    until(lambda: schedules() == ["0 0 1 1 *"] * 2, lambda: f"not put back: {schedules()}")
    back = json.dumps({"spec": {"runs": "Hub"}})
    fleet.host("patch", "pcj", "sweep", *SPACE, "--type=merge", "-p", back)
    until(
        lambda: not fleet.spread("cronjobs", "feed", "sweep"),
        lambda: "a member still has the CronJob",
    )
    fleet.host("delete", "pcj", "sweep", *SPACE)
