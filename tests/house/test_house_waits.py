"""What a test waits for may take a minute on a busy machine: a wait that fails the test ends after
`LEAST_S` seconds at the earliest. Virtual time does not pass while a machine is busy.
"""

import ast
from collections.abc import Iterator
from typing import Final

from tests.house.sources import ROOT

TESTS: Final = ROOT / "tests"
LEAST_S: Final = 60.0
APART: Final = ("bench", "fuzz", "mutation", "simulation")
"""Folders whose times are measured, or virtual."""
SHORTER: Final = {
    "controlplane/build.py": "what does not end then is killed",
    "e2e/operators.py": "it is asked again",
    "e2e/test_guard.py": "it is asked again",
    "e2e/test_http_transport.py": "ends before the server would end it",
    "e2e/test_own_shortage.py": "it is asked again",
    "e2e/test_runtime_identity.py": "it is asked again",
    "traffic/real.py": "no answer in that time is an answer",
    "traffic/zookeeper.py": "it is asked again",
}
"""Why a wait is shorter, by file."""


def _value(node: ast.expr | None, named: dict[str, float]) -> float | None:
    """The seconds that an expression stands for, where it says them."""
    if isinstance(node, ast.Name):
        return named.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


def _limit(call: ast.Call) -> ast.expr | None:
    """What bounds a call: of `asyncio.timeout`, `wait_for`, or the keyword `timeout`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "timeout" and call.args:
        return call.args[0]
    if name == "wait_for" and len(call.args) > 1:
        return call.args[1]
    if name in ("run", "urlopen", "wait", "communicate", "check_output", "check_call", "join"):
        return next((one.value for one in call.keywords if one.arg == "timeout"), None)
    return None


def _short(text: str) -> Iterator[tuple[int, float]]:
    """Line and seconds of each wait below `LEAST_S`; none in a module on virtual time."""
    if "virtual_time" in text:
        return
    tree, named = ast.parse(text), dict[str, float]()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = _value(node.value, {})
            if isinstance(target, ast.Name) and value is not None:
                named[target.id] = value
    for each in ast.walk(tree):
        if isinstance(each, ast.Call):
            seconds = _value(_limit(each), named)
            if seconds is not None and seconds < LEAST_S:
                yield each.lineno, seconds


def _found() -> dict[str, list[tuple[int, float]]]:
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS)
        if name.parts[0] not in APART and (short := list(_short(path.read_text("utf-8")))):
            found[name.as_posix()] = short
    return found


def test_what_fails_a_test_waits_for_a_minute_or_has_a_reason() -> None:
    found = _found()
    without = {name: waits for name, waits in found.items() if name not in SHORTER}
    assert not without, "file -> line and seconds: a busy machine fails these tests by chance"
    assert not SHORTER.keys() - found.keys(), "these wait long enough"


def test_each_way_to_wait_is_seen() -> None:
    text = """
WAIT_S = 20.0
asyncio.timeout(5); asyncio.timeout(WAIT_S); asyncio.timeout(60)
asyncio.wait_for(what, 1.5); subprocess.run(command, timeout=30); urllib.urlopen(url, timeout=3)
"""
    assert sorted(seconds for _, seconds in _short(text)) == [1.5, 3, 5, 20, 30]
    assert not list(_short("from tests import virtual_time" + text))
