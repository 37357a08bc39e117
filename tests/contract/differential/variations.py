"""Ways to vary a request: metadata, fields, patches and options, good and bad. Drawn from by
`generate`.
"""

import random
from typing import Any

from tests.contract.differential.kinds import DROP, Kind, Object, put, some

MANAGERS = ("one", "two", "three")
_METADATA: dict[str, list[Any]] = {
    "metadata.labels.app": ["a", "b", "bad value", None],
    "metadata.labels.tier": ["x", "y"],
    "metadata.annotations": [{"note": "1"}, {"note": "2"}, {"a b": "1"}, None, {"note": 5}],
    "metadata.finalizers": [
        ["example.com/hold"],
        [],
        ["unqualified"],
        ["example.com/hold", "example.com/more"],
    ],
    "metadata.ownerReferences": [
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}],
        [],
        [{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u-1"}],
        [
            {"apiVersion": "v1", "kind": "X", "name": name, "uid": f"u-{name}", "controller": True}
            for name in "ab"
        ],
    ],
    "metadata.creationTimestamp": ["2001-02-03T04:05:06Z"],
    "metadata.managedFields": [[], [{}]],
    "metadata.unknown": [1],
}


def decorate(rng: random.Random, metadata: Object) -> None:
    """Adds valid metadata now and then."""
    if rng.random() < 0.3:
        metadata["annotations"] = {name: rng.choice("12") for name in some(rng, "mno")}
    if rng.random() < 0.1:
        metadata["finalizers"] = [f"example.com/{name}" for name in some(rng, ["hold", "more"], 1)]
    if rng.random() < 0.1:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}
        metadata["ownerReferences"] = [
            owner | rng.choice([{}, {"controller": True}, {"blockOwnerDeletion": True}])
        ]


def changes(rng: random.Random, kind: Kind) -> list[list[Any]]:
    """One to three changes as [dotted path, value]."""
    found = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        source = kind.tweaks if kind.tweaks and rng.random() < 0.75 else _METADATA
        path = rng.choice(list(source))
        found.append([path, rng.choice(list(source[path]))])
    return found


def status_changes(rng: random.Random, kind: Kind) -> list[list[Any]]:
    """Changes of the status. Which metadata a status write may change is another question for every
    kind.
    """
    source = kind.status or {}
    return [
        [path, rng.choice(list(source[path]))]
        for path in some(rng, sorted(source), min(1, len(source)))[:2]
    ]


def vary(rng: random.Random, body: Object, kind: Kind, chance: float) -> None:
    """Changes a body in place with this probability."""
    if rng.random() < chance:
        for path, value in changes(rng, kind):
            put(body, path, value)


def vary_identity(rng: random.Random, body: Object, kind: Kind, chance: float = 0.12) -> None:
    """Gives a body another name, namespace, kind or version with this probability, in place."""
    if rng.random() >= chance:
        return
    metadata = body["metadata"]
    choice = rng.randrange(8)
    if choice == 0:
        metadata["name"] = rng.choice(["Bad_Name", "", "x" * 260, "a/b", "-a"])
    elif choice == 1:
        metadata["namespace"] = rng.choice(["elsewhere", "{ns}"])
    elif choice == 2 and kind.strategic:
        body["kind"] = "Other"
    elif choice == 3:
        body["apiVersion"] = rng.choice(["v9", "apps/v1", "odd/x/y"])
    elif choice == 4:
        del body["kind"], body["apiVersion"]
    elif choice == 5:
        metadata["resourceVersion"] = "1"
    elif choice == 6:
        metadata["uid"] = "u-5"
    else:
        metadata.pop("name", None)


def without_nulls(value: Any) -> Any:
    """What a client that applies writes: it leaves out what it does not want to say."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return value


def tree(changed: list[list[Any]]) -> Object:
    """The changes as a merge patch; DROP becomes null."""
    found: Object = {}
    for path, value in changed:
        # A list cannot be merged into: the change begins at the list.
        parts = path.split(".")
        numbers = [position for position, part in enumerate(parts) if part.isdigit()]
        if numbers:
            continue
        put(found, path, None if value == DROP else value)
    return found


def merge_patch(rng: random.Random, kind: Kind) -> Any:
    """A merge patch; sometimes nonsense."""
    if rng.random() < 0.05:
        return rng.choice(["text", b"{", b"", {"metadata": []}, b"null"])
    found = tree(changes(rng, kind))
    if rng.random() < 0.1:
        found.setdefault("metadata", {})
        if isinstance(found["metadata"], dict):
            found["metadata"] |= rng.choice([{"resourceVersion": "1"}, {"name": "other"}])
    return found


def json_patch(rng: random.Random, kind: Kind) -> Any:
    """A JSON patch; sometimes nonsense."""
    if rng.random() < 0.08:
        return rng.choice([{}, [{"op": "odd", "path": "/x"}], b"[", [{"op": "add"}], [5], []])
    found = []
    for path, value in changes(rng, kind):
        pointer = "/" + path.replace(".", "/").replace(",", ".")
        if value == DROP:
            found.append({"op": "remove", "path": pointer})
        else:
            found.append(
                {"op": rng.choice(["add", "replace", "add"]), "path": pointer, "value": value}
            )
    extra = rng.random()
    if extra < 0.1:
        found.insert(
            0,
            {
                "op": "test",
                "path": "/metadata/labels/part",
                "value": rng.choice(["difference", "x"]),
            },
        )
    elif extra < 0.15:
        found.append(
            {"op": "move", "from": "/metadata/labels/part", "path": "/metadata/labels/app"}
        )
    elif extra < 0.2:
        found.append(
            {"op": "copy", "from": "/metadata/labels/part", "path": "/metadata/labels/tier"}
        )
    return found


def strategic_patch(rng: random.Random, kind: Kind) -> Any:
    """A strategic merge patch with directives where the kind has lists that merge."""
    found = tree(changes(rng, kind))
    spec = kind.plain().get("spec", {})
    if isinstance(spec.get("template"), dict) and rng.random() < 0.6:
        found["spec"] = {"template": {"spec": _containers(rng)}}
    elif "containers" in spec and rng.random() < 0.6:
        found["spec"] = _containers(rng)
    elif kind.plural == "services" and rng.random() < 0.6:
        item = rng.choice(
            [
                {"port": 80, "targetPort": 8081},
                {"port": 80, "$patch": "delete"},
                {"port": 7000, "name": "n"},
            ]
        )
        found["spec"] = {"ports": [item]}
    if rng.random() < 0.1:
        found.setdefault("metadata", {})
        if isinstance(found["metadata"], dict):
            found["metadata"]["labels"] = {
                "$patch": rng.choice(["replace", "delete", "odd"]),
                "app": "a",
            }
    # Beside a new list of them a real server takes either of the two first.
    if rng.random() < 0.1 and "finalizers" not in found.setdefault("metadata", {}):
        found["metadata"]["$deleteFromPrimitiveList/finalizers"] = ["example.com/hold"]
    return found


def _containers(rng: random.Random) -> Object:
    item: Object = {"name": rng.choice(["app", "log", "new"])}
    item |= rng.choice(
        [
            {"image": "reg/app:9"},
            {"$patch": "delete"},
            {"env": [{"name": "A", "value": "9"}]},
            {"$patch": "replace", "image": "reg/app:5"},
        ]
    )
    found: Object = {"containers": [item]}
    if rng.random() < 0.2:
        found["$setElementOrder/containers"] = [{"name": "log"}, {"name": "app"}]
    if rng.random() < 0.1:
        found["$retainKeys"] = ["containers"]
    return found


def create_query(rng: random.Random, *, calm: bool = False) -> Object:
    """Options of a creation."""
    found: Object = {}
    if rng.random() < 0.3:
        found["fieldManager"] = rng.choice(MANAGERS)
    if calm:
        return found
    if rng.random() < 0.12:
        found["dryRun"] = rng.choice(["All", "All", "All", "Odd"])
    if rng.random() < 0.25:
        found["fieldValidation"] = rng.choice(["Strict", "Warn", "Ignore", "Strict", "Odd"])
    if rng.random() < 0.03:
        found["fieldManager"] = "x" * 130
    return found


def update_query(rng: random.Random) -> Object:
    """Options of a replacement or patch."""
    found = create_query(rng)
    if rng.random() < 0.03:
        found["force"] = "true"
    return found


def apply_query(rng: random.Random) -> Object:
    """Options of an apply; the manager is left out now and then."""
    found = create_query(rng)
    if rng.random() < 0.97:
        found["fieldManager"] = rng.choice(MANAGERS)
    if rng.random() < 0.4:
        found["force"] = rng.choice(["true", "true", "false"])
    return found


def delete_options(rng: random.Random, key: str) -> tuple[Object, Any]:
    """(query, body) of a deletion."""
    query: Object = {}
    body: Any = None
    if rng.random() < 0.2:
        query["propagationPolicy"] = rng.choice(["Foreground", "Background", "Orphan", "Odd"])
    if rng.random() < 0.2:
        query["gracePeriodSeconds"] = rng.choice(["0", "5", "-1", "x"])
    if rng.random() < 0.12:
        query["dryRun"] = rng.choice(["All", "Odd"])
    if rng.random() < 0.3:
        body = {"apiVersion": "v1", "kind": "DeleteOptions"}
        choice = rng.randrange(6)
        if choice == 0:
            body["preconditions"] = {"uid": rng.choice([f"@uid {key}", "u-9"])}
        elif choice == 1:
            body["preconditions"] = {
                "resourceVersion": rng.choice([f"@rv {key}", f"@old {key}", "1"])
            }
        elif choice == 2:
            body["propagationPolicy"] = rng.choice(["Foreground", "Orphan", "Odd"])
        elif choice == 3:
            body["gracePeriodSeconds"] = rng.choice([0, 3])
        elif choice == 4:
            body["orphanDependents"] = rng.choice([True, False])
        else:
            body["unknown"] = 1
    return query, body


def list_query(rng: random.Random, name: str, key: str) -> Object:
    """Options of a list, always of the sequence's own objects."""
    found: Object = {"labelSelector": "seq={ns}"}
    more = ["app=a", "app!=a", "app in (a,b)", "app", "!app", "app=", "app==b", "app notin (a)"]
    if rng.random() < 0.5:
        found["labelSelector"] += "," + rng.choice(more)
    elif rng.random() < 0.08:
        found["labelSelector"] = rng.choice(["a=b=c", "app in a", "-x", "app=a b"])
    if rng.random() < 0.3:
        values = [
            f"metadata.name={name}",
            f"metadata.name!={name}",
            "metadata.namespace={ns}",
            "spec.odd=1",
            "x",
            "status.phase=Running",
            "type=Normal",
        ]
        found["fieldSelector"] = rng.choice(values)
    choice = rng.random()
    if choice < 0.1:
        found["resourceVersion"] = f"@rv {key}"
        found["resourceVersionMatch"] = "Exact"
    elif choice < 0.15:
        found |= {
            "resourceVersion": "0",
            "resourceVersionMatch": rng.choice(["Exact", "NotOlderThan", "Odd"]),
        }
    elif choice < 0.2:
        found["resourceVersionMatch"] = "Exact"
    elif choice < 0.25:
        found["resourceVersion"] = rng.choice(["x", "-1"])
    elif choice < 0.3:
        found |= {"resourceVersion": f"@rv {key}", "resourceVersionMatch": "NotOlderThan"}
    elif choice < 0.33:
        found["sendInitialEvents"] = "true"
    elif choice < 0.36:
        found["limit"] = rng.choice(["x", "0"])
    return found


def watch_query(rng: random.Random) -> Object:
    """Options of a watch of the sequence's own objects."""
    found: Object = {
        "labelSelector": rng.choice(["seq={ns}", "seq={ns}", "seq={ns},part=difference"])
    }
    choice = rng.random()
    if choice < 0.6:
        found["resourceVersion"] = "@start"
    elif choice < 0.75:
        found |= {
            "resourceVersion": "",
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
            "allowWatchBookmarks": "true",
        }
    elif choice < 0.85:
        found["resourceVersion"] = "0"
    if rng.random() < 0.05:
        found["resourceVersionMatch"] = "Exact"
    return found
