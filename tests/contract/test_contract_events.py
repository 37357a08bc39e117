"""Events live once and are served twice: as core/v1 and as events.k8s.io/v1."""

from typing import Any

import pytest

from tests.contract.speaking import APPLY, MERGE, TABLE, Object, Speaker

NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
WHEN = "2026-03-01T10:00:00.123456Z"


def new(name: str, namespace: str, **more: Any) -> Object:
    """An event as today's recorders write it, through events.k8s.io."""
    regarding = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "namespace": namespace,
        "uid": "u-1",
        "resourceVersion": "7",
        "fieldPath": "spec.replicas",
    }
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": WHEN,
        "regarding": regarding,
        "note": "Scaled up",
        "reason": "Scaled",
        "action": "Scale",
        "type": "Normal",
        "reportingController": "example.org/scaler",
        "reportingInstance": "scaler-0",
        **more,
    }


def old(name: str, namespace: str, **more: Any) -> Object:
    """An event as recorders of the core group write it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web-1",
            "namespace": namespace,
            "uid": "u-2",
        },
        "message": "Back-off restarting",
        "reason": "BackOff",
        "type": "Warning",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-03-01T09:00:00Z",
        "lastTimestamp": "2026-03-01T09:10:00Z",
        "count": 4,
        **more,
    }


def later(api: Speaker, name: str = "") -> str:
    """The path in events.k8s.io."""
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    return f"{path}/{name}" if name else path


def content(obj: Object) -> Object:
    """An object without its metadata."""
    return {field: value for field, value in obj.items() if field != "metadata"}


async def test_what_is_written_in_the_new_group_is_read_in_the_core_group(api: Speaker) -> None:
    sent = new("a", api.namespace, series={"count": 3, "lastObservedTime": WHEN})
    made = (await api.post(later(api), sent)).object(201)
    assert content(made) == {
        **content(sent),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    read = (await api.get(api.url("events", "a"))).object()
    assert content(read) == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": sent["regarding"],
        "message": "Scaled up",
        "reason": "Scaled",
        "action": "Scale",
        "type": "Normal",
        "eventTime": WHEN,
        "series": {"count": 3, "lastObservedTime": WHEN},
        "reportingComponent": "example.org/scaler",
        "reportingInstance": "scaler-0",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
    }
    assert read["metadata"] == made["metadata"]
    assert (await api.get(later(api, "a"))).object() == made


async def test_what_is_written_in_the_core_group_is_read_in_the_new_group(api: Speaker) -> None:
    sent = old("a", api.namespace)
    made = (await api.post(api.url("events"), sent)).object(201)
    assert content(made) == {
        **content(sent),
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    read = (await api.get(later(api, "a"))).object()
    assert content(read) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": sent["involvedObject"],
        "note": "Back-off restarting",
        "reason": "BackOff",
        "type": "Warning",
        "eventTime": None,
        "deprecatedSource": {"component": "kubelet", "host": "node-1"},
        "deprecatedFirstTimestamp": "2026-03-01T09:00:00Z",
        "deprecatedLastTimestamp": "2026-03-01T09:10:00Z",
        "deprecatedCount": 4,
    }


async def test_both_groups_list_and_delete_the_same_events(api: Speaker) -> None:
    await api.post(later(api), new("a", api.namespace))
    await api.post(api.url("events"), old("b", api.namespace))
    for path, version in ((later(api), "events.k8s.io/v1"), (api.url("events"), "v1")):
        found = (await api.get(path)).object()
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
        assert (found["kind"], found["apiVersion"]) == ("EventList", version)
        assert all("kind" not in item and "apiVersion" not in item for item in found["items"])
        assert all(("note" in item) is (version != "v1") for item in found["items"])
    assert (await api.delete(later(api, "b"))).object()["status"] == "Success"
    gone = await api.get(api.url("events", "b"))
    assert gone.status == 404
    (await api.delete(later(api))).object()
    assert (await api.get(api.url("events"))).object()["items"] == []


async def test_missing_and_present_events_are_named_as_in_the_group_that_was_asked(
    api: Speaker,
) -> None:
    missing = await api.get(later(api, "none"))
    missing.refused(404, "NotFound", 'events.events.k8s.io "none" not found')
    await api.post(api.url("events"), old("a", api.namespace))
    again = await api.post(later(api), new("a", api.namespace))
    again.refused(409, "AlreadyExists", 'events.events.k8s.io "a" already exists')


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("{object}.name=web", ["a"]),
        ("{object}.kind=Pod", ["b"]),
        ("{object}.uid=u-1", ["a"]),
        ("{object}.uid=u-2,{object}.kind=Pod", ["b"]),
        ("{object}.apiVersion=apps/v1", ["a"]),
        ("{object}.resourceVersion=7", ["a"]),
        ("{object}.fieldPath=spec.replicas", ["a"]),
        ("reason=BackOff", ["b"]),
        ("reason!=BackOff", ["a"]),
        ("type=Normal", ["a"]),
        ("{reporter}=example.org/scaler", ["a"]),
        ("metadata.name=b", ["b"]),
    ],
)
async def test_field_selectors_see_all_events_in_the_words_of_each_group(
    api: Speaker, selector: str, names: list[str]
) -> None:
    await api.post(later(api), new("a", api.namespace))
    await api.post(api.url("events"), old("b", api.namespace))
    core = selector.format(object="involvedObject", reporter="reportingComponent")
    fresh = selector.format(object="regarding", reporter="reportingController")
    for path, text in ((api.url("events"), core), (later(api), fresh)):
        found = (await api.get(path, fieldSelector=text)).object()["items"]
        assert [item["metadata"]["name"] for item in found] == names, text


async def test_the_source_selector_falls_back_to_the_reporter(api: Speaker) -> None:
    await api.post(later(api), new("a", api.namespace))
    await api.post(api.url("events"), old("b", api.namespace))
    for source, name in (("kubelet", "b"), ("example.org/scaler", "a")):
        found = (await api.get(api.url("events"), fieldSelector=f"source={source}")).object()[
            "items"
        ]
        assert [item["metadata"]["name"] for item in found] == [name]


@pytest.mark.parametrize("field", ["involvedObject.name", "source", "reportingComponent", "note"])
async def test_the_new_group_does_not_know_the_old_names_of_fields(
    api: Speaker, field: str
) -> None:
    answer = await api.get(later(api), fieldSelector=f"{field}=x")
    answer.refused(400, "BadRequest", f"field label not supported: {field}")
    answer = await api.get(api.url("events"), fieldSelector="regarding.name=x")
    answer.refused(400, "BadRequest", "field label not supported: regarding.name")


async def test_a_watch_of_either_group_hears_of_both(api: Speaker) -> None:
    since = (await api.get(api.url("events"))).object()["metadata"]["resourceVersion"]
    async with (
        api.watching(
            api.url("events"), resourceVersion=since, fieldSelector="involvedObject.name=web"
        ) as core,
        api.watching(later(api), resourceVersion=since) as fresh,
    ):
        await api.post(later(api), new("a", api.namespace))
        await api.post(api.url("events"), old("b", api.namespace))
        first = await core.next()
        assert first is not None
        assert (first["object"]["apiVersion"], first["object"]["message"]) == ("v1", "Scaled up")
        for note in ("Scaled up", "Back-off restarting"):
            event = await fresh.next()
            assert event is not None
            assert (event["type"], event["object"]["apiVersion"], event["object"]["note"]) == (
                "ADDED",
                "events.k8s.io/v1",
                note,
            )


async def test_tables_of_both_groups_are_alike(api: Speaker) -> None:
    await api.post(later(api), new("a", api.namespace))
    await api.post(api.url("events"), old("b", api.namespace))
    rows = [
        (await api.get(path, accept=TABLE)).object()["rows"]
        for path in (api.url("events"), later(api))
    ]
    cells = [[row["cells"][1:7] + row["cells"][8:] for row in table] for table in rows]
    assert cells[0] == cells[1]
    assert cells[0] == [
        [
            "Normal",
            "Scaled",
            "deployment/web",
            "spec.replicas",
            "example.org/scaler, scaler-0",
            "Scaled up",
            1,
            "a",
        ],
        ["Warning", "BackOff", "pod/web-1", "", "kubelet, node-1", "Back-off restarting", 4, "b"],
    ]
    whole = (await api.get(later(api), accept=TABLE, includeObject="Object")).object()["rows"]
    assert [row["object"]["note"] for row in whole] == ["Scaled up", "Back-off restarting"]


async def test_a_series_is_counted_on_by_a_patch_and_seen_in_the_core_group(api: Speaker) -> None:
    await api.post(later(api), new("a", api.namespace))
    series = {"series": {"count": 2, "lastObservedTime": WHEN}}
    patched = (await api.patch(later(api, "a"), series, MERGE)).object()
    assert patched["series"] == series["series"]
    assert (await api.get(api.url("events", "a"))).object()["series"] == series["series"]
    (await api.patch(api.url("events", "a"), {"message": "Scaled down"}, MERGE)).object()
    assert (await api.get(later(api, "a"))).object()["note"] == "Scaled down"


async def test_an_event_is_replaced_and_applied_in_the_new_group(api: Speaker) -> None:
    made = (await api.post(later(api), new("a", api.namespace))).object(201)
    made["metadata"]["labels"] = {"tier": "web"}
    again = (await api.put(later(api, "a"), made)).object()
    assert again["metadata"]["labels"] == {"tier": "web"}
    applied = new("b", api.namespace)
    (await api.patch(later(api, "b"), applied, APPLY, fieldManager="me")).object(201)
    assert (await api.get(api.url("events", "b"))).object()["message"] == "Scaled up"
    owners = (await api.get(later(api, "b"))).object()["metadata"]["managedFields"]
    assert [(owner["manager"], owner["apiVersion"]) for owner in owners] == [
        ("me", "events.k8s.io/v1")
    ]


async def test_in_the_new_group_most_of_an_event_cannot_change(api: Speaker) -> None:
    await api.post(later(api), new("a", api.namespace))
    answer = await api.patch(
        later(api, "a"), {"note": "Other", "reason": "Else", "type": "Warning"}, MERGE
    )
    answer.refused(
        422,
        "Invalid",
        'Event "a" is invalid: [reason: Invalid value: "Else": field is immutable, message: '
        'Invalid value: "Other": '
        'field is immutable, type: Invalid value: "Warning": field is immutable]',
    )


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"type": "Odd"}, ['type: Invalid value: "": has invalid value: Odd']),
        (
            {"deprecatedCount": 2, "deprecatedSource": {"component": "x"}},
            [
                'count: Invalid value: "": needs to be unset',
                'source: Invalid value: "": needs to be unset',
            ],
        ),
        (
            {"deprecatedFirstTimestamp": "2026-03-01T09:00:00Z"},
            ['firstTimestamp: Invalid value: "": needs to be unset'],
        ),
        (
            {"reportingController": "", "reportingInstance": "", "action": "", "reason": ""},
            [
                "reportingController: Required value",
                'reportingController: Invalid value: "": name part must be non-empty',
                f'reportingController: Invalid value: "": {NAME_PART}',
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        ),
        (
            {"reportingController": "not a name"},
            [f'reportingController: Invalid value: "not a name": {NAME_PART}'],
        ),
        (
            {"series": {"count": 1, "lastObservedTime": WHEN}},
            ['series.count: Invalid value: "": should be at least 2'],
        ),
        (
            {
                "note": "x" * 1025,
                "reason": "r" * 129,
                "action": "a" * 129,
                "reportingInstance": "i" * 129,
            },
            [
                'reportingInstance: Invalid value: "": can have at most 128 characters',
                'action: Invalid value: "": can have at most 128 characters',
                'reason: Invalid value: "": can have at most 128 characters',
                'message: Invalid value: "": can have at most 1024 characters',
            ],
        ),
        (
            {"regarding": {"kind": "Node", "name": "n"}},
            ['involvedObject.namespace: Invalid value: "": does not match event.namespace'],
        ),
    ],
)
async def test_the_new_group_is_strict(api: Speaker, change: Object, causes: list[str]) -> None:
    answer = await api.post(later(api), new("a", api.namespace, **change))
    assert answer.status == 422, answer.json
    assert [f"{field}: {message}" for _, field, message in answer.causes()] == causes


async def test_the_core_group_wants_events_beside_what_they_are_about(api: Speaker) -> None:
    answer = await api.post(
        api.url("events"), old("a", api.namespace, involvedObject={"namespace": "other"})
    )
    message = 'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    answer.refused(422, "Invalid", f'Event "a" is invalid: {message}')
    answer = await api.post(
        api.url("events"), old("a", api.namespace, eventTime=WHEN, reportingComponent="x")
    )
    assert [field for _, field, _ in answer.causes()] == ["reportingInstance", "action"]
