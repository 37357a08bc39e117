"""Native objects that several files of the contract suite send."""

from typing import Any

from tests.contract.speaking import Object


def template(image: str = "registry/app:1", *, app: str = "web", **spec: Any) -> Object:
    """A pod template with one container."""
    container = {"name": "app", "image": image}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def deployment(
    name: str = "web", *, replicas: int | None = 3, image: str = "registry/app:1", **spec: Any
) -> Object:
    """A valid Deployment; replicas None leaves them to others."""
    chosen = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            **chosen,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }


def job(name: str = "work", **spec: Any) -> Object:
    """A valid Job."""
    return {
        "metadata": {"name": name},
        "spec": {"template": template(app="job", restartPolicy="Never"), **spec},
    }


def containers(found: Object) -> list[tuple[str, str]]:
    """The containers of a workload as (name, image)."""
    return [
        (each["name"], each["image"]) for each in found["spec"]["template"]["spec"]["containers"]
    ]


def owners(found: Object) -> list[tuple[str, str, str]]:
    """Who owns fields of an object: (manager, operation, subresource), in the order of the
    server.
    """
    entries = found["metadata"].get("managedFields", [])
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries
    ]


def owned_by(
    found: Object, manager: str, operation: str = "Apply", subresource: str = ""
) -> Object:
    """The fields that a manager owns, as FieldsV1."""
    for entry in found["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (
            manager,
            operation,
            subresource,
        ):
            assert entry["fieldsType"] == "FieldsV1"
            fields: Object = entry["fieldsV1"]
            return fields
    return {}
