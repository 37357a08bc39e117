"""Asks the real control plane what it answers to the requests in `tests/unit/embedded/recorded`,
and writes that down there.

Run as `python -m tests.controlplane.record`. A request without an answer is a new case. The unit
tests of the embedded API hold its schema layer against these answers, so that it stays true to a
real server on machines without one.
"""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.controlplane import build
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane

FOLDER = Path(__file__).parents[1] / "unit" / "embedded" / "recorded"
NAMESPACE = "recorded"
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "generation")


def ask(cluster: Cluster, step: dict[str, Any]) -> tuple[int, Any]:
    """(status, body) of one request."""
    request = urllib.request.Request(
        cluster.url + step["path"],
        data=json.dumps(step["body"]).encode() if "body" in step else None,
        method=step["method"],
        headers={
            "Authorization": f"Bearer {cluster.token}",
            "Content-Type": step.get("type", "application/json"),
        },
    )
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def settled(value: Any) -> Any:
    """The answer without what differs from run to run."""
    if isinstance(value, list):
        return [settled(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("fieldsType") == "FieldsV1":
        return {**value, "time": "2026-01-01T00:00:00Z"} if "time" in value else value
    return {key: settled(child) for key, child in value.items() if key not in _VOLATILE}


def record(cluster: Cluster, path: Path) -> None:
    """Replays one file. Steps of a story go one after another; `resourceVersion` of a PUT is the
    last one heard.
    """
    stories = json.loads(path.read_text())
    for story in stories:
        heard: dict[str, Any] = {}
        for step in story["steps"]:
            if step["method"] == "PUT" and heard:
                step["body"]["metadata"]["resourceVersion"] = heard["metadata"]["resourceVersion"]
            code, answer = ask(cluster, step)
            if step["method"] == "PUT":
                step["body"]["metadata"].pop("resourceVersion", None)
            step["code"] = code
            if code < 300:
                heard = answer
                step["answer"] = settled(answer)
                step.pop("message", None)
            else:
                step["message"] = answer["message"]
                step.pop("answer", None)
    lines = ",\n".join(json.dumps(story, separators=(",", ":")) for story in stories)
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{path.name}: {len(stories)} stories")


def main() -> None:
    """Records every file, the CRDs' first: the others use what it defines."""
    binaries = build.find()
    if binaries is None:
        raise SystemExit("no real control plane: run `make kube` first")
    with ControlPlane(binaries) as plane:
        cluster = plane.cluster("record")
        cluster.ask("/api/v1/namespaces", "POST", {"metadata": {"name": NAMESPACE}})
        widgets = json.loads((FOLDER / "widgets.json").read_text())
        cluster.ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST", widgets)
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{widgets['metadata']['name']}")
        for path in sorted(FOLDER.glob("*.json")):
            if path.name != "widgets.json":
                record(cluster, path)


if __name__ == "__main__":
    main()
