"""The custom resource of the contract suite: one kind that uses everything our own kinds use."""

import asyncio
import copy
from typing import Any

from tests.contract.speaking import GROUP, Object, Speaker

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SPEC: Object = {
    "type": "object",
    "description": "What it should be.",
    "required": ["color"],
    "x-kubernetes-validations": [
        {"rule": "self.seq >= oldSelf.seq", "message": "seq may only rise"},
        {
            "rule": "self.replicas <= 100 || has(self.note)",
            "messageExpression": "self.color == 'red' ? 'red is limited to 100' : 'limited to 100'",
            "reason": "FieldValueForbidden",
            "fieldPath": ".replicas",
        },
    ],
    "properties": {
        "color": {"type": "string", "enum": ["red", "green"], "description": "Its color."},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
        "seq": {"type": "integer", "format": "int64", "default": 0},
        "note": {"type": "string", "maxLength": 10, "pattern": "^[a-z]*$"},
        "when": {"type": "string", "format": "date-time"},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "amount": {"x-kubernetes-int-or-string": True},
        "perhaps": {"type": "string", "nullable": True, "default": "set"},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"deep": {"type": "string", "default": "x"}},
        },
        "ports": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "port": {"type": "integer", "minimum": 1},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed is immutable"}
            ],
        },
        "texts": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
STATUS: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}
COLUMNS = [
    {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def definition(plural: str = "widgets", kind: str = "Widget", group: str = GROUP) -> Object:
    """A CustomResourceDefinition; the caller may change it."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": COLUMNS,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A thing of the contract suite.",
                "required": ["spec"],
                "properties": {"spec": SPEC, "status": STATUS},
            }
        },
    }
    names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "shortNames": [plural[:2] + "x"],
    }
    return copy.deepcopy(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )


def widget(name: str, **spec: Any) -> Object:
    """A valid Widget."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"color": "red", **spec},
    }


async def install_widgets(api: Speaker) -> None:
    """Makes the server serve widgets; does nothing when it does already."""
    answer = await api.post(DEFINITIONS, definition())
    assert answer.status in (201, 409)
    await until_served(api, "widgets")


async def until_served(api: Speaker, plural: str, group: str = GROUP) -> None:
    """Waits until the kind answers. A real server needs a moment between Established and the first
    answer.
    """
    async with asyncio.timeout(60):
        while (  # noqa: ASYNC110
            await api.get(f"/apis/{group}/v1/namespaces/{api.namespace}/{plural}")
        ).status != 200:
            await asyncio.sleep(0.05)
