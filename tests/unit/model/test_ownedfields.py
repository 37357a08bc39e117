"""Fields that we applied once and want no more are found in what server-side apply remembers of us,
and only there.
"""

from typing import Any

import pytest

from federator.model.kubernetes.owned_fields import leftover, of, removals, surplus

WANT: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["a"]},
    "spec": {
        "replicas": 0,
        "ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}],
        "args": ["x"],
    },
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        (
            {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:replicas": {}, "f:args": {}},
            },
            "",
        ),
        ({"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}}, "f:metadata f:labels f:tier"),
        ({"f:spec": {"f:strategy": {"f:type": {}}}}, "f:spec f:strategy"),
        ({"f:metadata": {"f:finalizers": {'v:"a"': {}}}}, ""),
        ({"f:metadata": {"f:finalizers": {'v:"b"': {}}}}, 'f:metadata f:finalizers v:"b"'),
        (
            {
                "f:spec": {
                    "f:ports": {
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}}
                    }
                }
            },
            "",
        ),
        (
            {
                "f:spec": {
                    "f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}, "f:name": {}}}
                }
            },
            "f:name",
        ),
        (
            {"f:spec": {"f:ports": {'k:{"port":81,"protocol":"TCP"}': {"f:port": {}}}}},
            'k:{"port":81,"protocol":"TCP"}',
        ),
        (
            {"f:spec": {"f:args": {"i:0": {}}, "f:ports": {"k:no JSON": {}, "k:[]": {}, "x": {}}}},
            "",
        ),
    ],
)
def test_the_first_field_that_is_wanted_no_more_is_named(
    fields: dict[str, Any], expected: str
) -> None:
    found = leftover(fields, WANT)

    assert found.endswith(expected)
    assert bool(found) == bool(expected)


def test_only_what_this_manager_applied_to_the_object_itself_counts() -> None:
    mine: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    entries = [
        {"manager": "us", "operation": "Update", "fieldsV1": {"f:a": {}}},
        {"manager": "us", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:b": {}}},
        {"manager": "them", "operation": "Apply", "fieldsV1": {"f:c": {}}},
        "nonsense",
        {"manager": "us", "operation": "Apply", "fieldsV1": mine},
    ]

    assert of({"managedFields": entries}, "us", "Apply") == mine
    assert of({"managedFields": entries}, "us", "Update") == {"f:a": {}}
    assert (
        of(
            {"managedFields": [{"manager": "us", "operation": "Apply", "fieldsV1": None}]},
            "us",
            "Apply",
        )
        == {}
    )
    assert of({"managedFields": None}, "us", "Apply") == {}
    assert of({}, "us", "Apply") == {}


def test_what_was_set_under_several_versions_counts_together() -> None:
    fields: tuple[dict[str, Any], ...] = (
        {"f:spec": {"f:replicas": {}}},
        {"f:spec": {"f:args": {".": {}}}, "f:data": {}},
    )
    entries = [{"manager": "us", "operation": "Update", "fieldsV1": one} for one in fields]

    found = of({"managedFields": entries}, "us", "Update")
    assert found == {"f:spec": {"f:replicas": {}, "f:args": {".": {}}}, "f:data": {}}


def test_a_merge_patch_takes_off_what_is_ours_and_wanted_no_more() -> None:
    live = {
        "metadata": {"labels": {"app": "web", "tier": "1", "theirs": "x"}, "finalizers": ["a"]},
        "spec": {
            "replicas": 0,
            "paused": True,
            "ports": [{"port": 80, "name": "http"}],
            "args": ["x"],
            "volumes": [{"name": "v"}],
        },
    }
    fields = {
        "f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}, "f:gone": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:paused": {},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}, "f:name": {}}},
            "f:volumes": {'k:{"name":"v"}': {"f:name": {}}},
        },
    }

    assert removals(fields, live, WANT, complete=True) == {
        "metadata": {"labels": {"tier": None}},
        "spec": {"paused": None, "ports": WANT["spec"]["ports"], "volumes": None},
    }
    assert removals(fields, live, {}, complete=True) == {
        "metadata": {"labels": {"app": None, "tier": None}},
        "spec": {"paused": None, "ports": None, "replicas": None, "volumes": None},
    }
    assert removals(fields, live, live, complete=True) == {}


def test_maps_and_lists_that_have_one_owner_are_made_what_is_wanted() -> None:
    fields: dict[str, Any] = {"f:nodeSelector": {}, "f:tolerations": {}, "f:securityContext": {}}
    live = {
        "nodeSelector": {"a": "1", "b": "2"},
        "tolerations": [{"key": "a", "value": "x"}],
        "securityContext": {"u": 1},
    }
    want = {
        "nodeSelector": {"b": "2", "c": "3"},
        "tolerations": [{"key": "a"}],
        "securityContext": {},
    }

    assert removals(fields, live, want, complete=True) == {
        "nodeSelector": {"a": None, "c": "3"},
        "tolerations": [{"key": "a"}],
    }
    assert removals(fields, live, want, complete=False) == {"nodeSelector": {"a": None, "c": "3"}}
    assert removals(fields, live, {}, complete=True) == {
        "nodeSelector": None,
        "tolerations": None,
        "securityContext": None,
    }


RULES: dict[str, Any] = {
    "f:spec": {
        "f:rules": {},
        "f:boxes": {'k:{"name":"app"}': {".": {}, "f:name": {}, "f:sources": {}}},
    }
}


@pytest.mark.parametrize(
    ("live", "want", "expected"),
    [
        ({"rules": [{"host": "a", "path": "/"}]}, {"rules": [{"path": "/"}]}, True),
        ({"rules": [{"path": "/"}]}, {"rules": [{"path": "/", "host": None}]}, False),
        (
            {"rules": [{"at": {"path": "/", "port": {"name": "x"}}}]},
            {"rules": [{"at": {"path": "/"}}]},
            True,
        ),
        ({"rules": ["a"]}, {"rules": ["a"]}, False),
        ({"rules": [{"host": "a"}]}, {}, False),
        ({"theirs": [{"host": "a"}]}, {"theirs": [{}]}, False),
        (
            {
                "boxes": [
                    {
                        "name": "app",
                        "sources": [{"token": {"path": "t", "expirationSeconds": 3600}}],
                        "more": 1,
                    }
                ]
            },
            {"boxes": [{"name": "app", "sources": [{"token": {"path": "t"}}]}]},
            False,
        ),
        (
            {
                "boxes": [
                    {"name": "app", "sources": [{"token": {"path": "t", "expirationSeconds": 60}}]}
                ]
            },
            {"boxes": [{"name": "app", "sources": [{"token": {"path": "t"}}]}]},
            True,
        ),
    ],
)
def test_a_field_too_many_is_suspected_only_within_items_that_nobody_tells_apart(
    live: dict[str, Any], want: dict[str, Any], expected: bool
) -> None:
    assert surplus(RULES, {"spec": live}, {"spec": want}) is expected
