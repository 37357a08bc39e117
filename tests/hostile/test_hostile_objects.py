"""Hostile objects through files and through the host's API: refused with the field, or told in a
condition; nothing else changes, and nothing breaks.
"""

import asyncio
import json
from pathlib import Path

import pytest

from federator.kinds import read, registry
from federator.model.errors import FieldError
from tests.hostile import cases_objects, cases_sense, cases_texts
from tests.hostile.cases_objects import ObjectCase
from tests.hostile.hosting import Scene, act
from tests.hostile.table import CPU_S, bounded, by_name, size_of
from tests.unit.cli.files import member, policy, psvc, run

WITHIN_S = 120.0
OBJECTS = by_name(cases_objects.OBJECTS)
FIGURES = by_name(cases_objects.FIGURES)
SENSE = by_name(cases_sense.SENSE)
REFUSED = {name: case for name, case in OBJECTS.items() if not case.taken}
TAKEN = {name: case for name, case in OBJECTS.items() if case.taken}


def write(folder: Path, *objs: object) -> Path:
    path = folder / "hostile.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objs}, ensure_ascii=False),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("name", OBJECTS | FIGURES)
def test_placing_a_hostile_object_names_file_and_field_and_prints_nothing(
    name: str, tmp_path: Path
) -> None:
    case = (OBJECTS | FIGURES)[name]
    path = write(tmp_path, member("m"), psvc("fine"), case.input())
    with bounded(CPU_S * 2, measured=False):
        done = run("place", "-f", str(path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert case.path in done.stderr
    assert case.words in done.stderr
    assert len(done.stderr) < 20_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", OBJECTS | FIGURES)
def test_reading_a_hostile_object_is_bounded(name: str) -> None:
    case = (OBJECTS | FIGURES)[name]
    given = case.input()
    with bounded(memory=20 * 1024 * 1024 + 10 * size_of(json.dumps(given))):
        problems = _problems(given)
    assert len(problems) <= read.MAX_PROBLEMS
    assert problems or case.taken


def test_the_api_of_the_host_refuses_hostile_objects_and_nothing_changes() -> None:
    """All in one federation, one after the other: not even a refused one may leave something
    behind.
    """

    async def story(scene: Scene) -> None:
        before = scene.picture()
        wrong = {}
        for name, case in REFUSED.items():
            with bounded(CPU_S * 2, measured=False):
                status, answer = await scene.post(case.input())
            said = answer.get("message", "")
            if status not in (400, 422) or (case.api or case.path) not in said:
                wrong[name] = (status, said[:300])
        assert wrong == {}
        await scene.world.settle()
        assert scene.picture() == before

    act(story)


def test_the_api_of_the_host_refuses_hostile_bytes_and_nothing_changes() -> None:
    async def story(scene: Scene) -> None:
        before = scene.picture()
        wrong = {}
        for case in (*cases_texts.TEXTS, *cases_texts.JSON, *cases_texts.BYTES):
            given = case.input()
            body = given.encode() if isinstance(given, str) else given
            for media in (
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
                "text/html",
            ):
                with bounded(CPU_S * 4, measured=False):
                    status, answer = await scene.post(body, "PinterestService", media)
                if status not in (400, 413, 415, 422) or answer.get("kind") != "Status":
                    wrong[case.name, media] = (status, str(answer)[:200])
        assert wrong == {}
        assert scene.picture() == before

    act(story)


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_api_takes_although_it_is_wrong_is_told_in_a_condition(name: str) -> None:
    act_on(TAKEN[name])


def act_on(case: ObjectCase) -> None:
    async def story(scene: Scene) -> None:
        before, good = scene.picture(), await scene.good()
        obj = case.input()
        status, answer = await scene.post(obj)
        assert status == 201, answer
        async with asyncio.timeout(WITHIN_S):
            while case.taken not in await _said(scene, obj):  # noqa: ASYNC110 - what cannot be made may never settle
                await asyncio.sleep(1)
        await scene.world.delete(obj["kind"], "feed", "evil")
        await asyncio.sleep(60)
        await scene.world.settle()
        assert _lasting(scene) == {key: value for key, value in before.items() if key[1] in LASTING}
        assert await scene.good() == good

    act(story)


@pytest.mark.parametrize("name", SENSE)
def test_an_ask_without_sense_is_told_why_by_file_and_by_condition(
    name: str, tmp_path: Path
) -> None:
    case = SENSE[name]
    fleet = [
        {**member(one), "metadata": {"name": one, "labels": {"zone": f"z-{one}"}}} for one in "ab"
    ]
    path = write(tmp_path, *fleet, *case.beside, case.input())
    with bounded(CPU_S * 2, measured=False):
        done = run("place", "-f", str(path))
    assert done.exit_code in (1, 3)
    assert case.words in done.stdout + done.stderr

    async def story(scene: Scene) -> None:
        good = await scene.good()
        for obj in (*case.beside, case.input()):
            status, answer = await scene.post(obj)
            assert status == 201, answer
        with bounded(CPU_S * 5, measured=False):
            await scene.world.settle()
        placed = await scene.world.condition(obj["kind"], "feed", "evil", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", case.reason)
        assert case.words in placed["message"]
        assert await scene.good() == good

    act(story)


def test_a_policy_that_selects_by_a_broken_selector_selects_nothing() -> None:
    """An API server takes a key that no label can have; it must never mean `every cluster`."""

    async def story(scene: Scene) -> None:
        good = await scene.good()
        broken = {"matchExpressions": [{"key": "zone/or/region", "operator": "Exists"}]}
        assert (await scene.post(policy("evil", clusters={"selector": broken})))[0] == 201
        await scene.world.settle()
        await scene.post(psvc("new", 2))
        await scene.world.settle()
        assert await scene.world.shares("feed", "new") == {}
        placed = await scene.world.condition("PinterestService", "feed", "new", "Placed")
        assert placed["reason"] == "NoMatchingCluster"
        assert good

    act(story)


@pytest.mark.parametrize("twice", [psvc("fine"), member("m")], ids=["workload", "member"])
def test_an_object_given_twice_is_refused_by_its_name(
    twice: dict[str, object], tmp_path: Path
) -> None:
    done = run("place", "-f", str(write(tmp_path, member("m"), psvc("fine"), twice)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "metadata.name" in done.stderr
    assert "was already given" in done.stderr


def _problems(given: object) -> tuple[FieldError, ...]:
    try:
        read.check(given)
    except read.InvalidObject as bad:
        return bad.errors
    return ()


LASTING = frozenset(kind.plural for kind in registry.KINDS.values()) - {
    "memberclusters",
    "clustercapacities",
} | {"pods"}
"""What must be as it was when a hostile object has gone; figures of room say again what they said.
"""


def _lasting(scene: Scene) -> dict[tuple[str, str, str, str], object]:
    return {key: value for key, value in scene.picture().items() if key[1] in LASTING}


async def _said(scene: Scene, obj: dict[str, object]) -> str:
    found = await scene.world.get(str(obj["kind"]), "feed", "evil")
    assert found is not None
    return " ".join(one["message"] for one in (found.get("status") or {}).get("conditions", ()))
