"""Imports go down only, pure floors stay pure, and a few libraries are known to one room each."""

import ast
import subprocess
import sys

import pytest

from tests.house import sources

FLOORS = {
    "__init__": 0,
    "model": 0,
    "runtime": 0,
    "api": 1,
    "placement": 2,
    "status": 2,
    "kube": 2,
    "process": 3,
    "kinds": 3,
    "convert": 4,
    "scheduling": 3,
    "embedded": 4,
    "member": 5,
    "signer": 5,
    "hub": 5,
    "advice": 6,
    "sandbox": 7,
    "simulate": 7,
    "gateway": 7,
    "dashboard": 7,
    "cli": 8,
    "settings": 9,
    "processes": 9,
    "app": 9,
    "__main__": 9,
}
LAZY_UPWARD = {
    ("cli", "app"),
    ("cli", "processes"),
    ("cli", "settings"),
}
"""The command line starts processes and shows settings: it reaches up, lazily, inside functions."""
PURE = ("model", "api", "placement", "status", "kinds", "convert", "scheduling")
IMPURE_MODULES = {
    "asyncio",
    "logging",
    "time",
    "random",
    "secrets",
    "uuid",
    "threading",
    "socket",
    "subprocess",
    "aiohttp",
    "kubernetes_asyncio",
    "structlog",
    "os",
    "tempfile",
    "pathlib",
}
DATA_LOADERS = {"federator/api/schema.py", "federator/kinds/crds.py"}
"""The CRD generator reads pinned data and writes the goldens; it runs in no decision."""


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "federator" and len(parts) > 1 else None


def test_every_module_lies_on_a_known_floor() -> None:
    unknown = {source.room for source in sources.all_sources()} - set(FLOORS)

    assert not unknown


def test_imports_go_down_only() -> None:
    wrong = []
    for source in sources.all_sources():
        for line, module in source.imports():
            room = room_of(module)
            if room is None or room not in FLOORS or room == source.room:
                continue
            if FLOORS[room] > FLOORS[source.room] and (source.room, room) not in LAZY_UPWARD:
                wrong.append(f"{source.name}:{line} imports {module}")

    assert not wrong


def test_rooms_of_one_floor_that_must_not_know_each_other_do_not() -> None:
    strangers = {("placement", "status"), ("status", "placement")}
    strangers |= {("kinds", room) for room in ("placement", "kube", "process", "scheduling")}
    strangers |= {("hub", "member"), ("member", "hub")}
    strangers |= {("scheduling", room) for room in ("kube", "process", "convert", "kinds")}
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        for line, module in source.imports()
        if (source.room, room_of(module)) in strangers
    ]

    assert not wrong


SIMULATOR_KNOWS = {"__version__", "model", "api", "placement", "kinds", "scheduling", "simulate"}
"""Fields of objects, and what decides: no controller, client or server."""
SIMULATOR_ALSO = {"federator.kube.control.fair_queue.FairQueue"}
"""Pure: the turns of namespaces are those of the hub's queue."""
ENGINE_ALSO = {"federator.api.membercluster.DRAIN_JOBS_FINISH_S"}
"""How long jobs may run on in a drain, by default."""


def test_the_simulator_stands_on_what_decides_alone() -> None:
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room == "simulate"
        for line, module in source.imports()
        if (room := room_of(module)) is not None
        and room not in SIMULATOR_KNOWS
        and module not in SIMULATOR_ALSO
    ]
    engine = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.name.startswith("federator/simulate/engine/")
        for line, module in source.imports()
        if room_of(module) in ("api", "kinds") and module not in ENGINE_ALSO
    ]

    assert not wrong
    assert not engine


def test_the_simulator_needs_no_event_loop() -> None:
    """Not even what it imports does: asked in a process of its own."""
    code = (
        "import sys, federator.simulate.scenario.loading, federator.simulate.engine.run\n"
        "print('asyncio' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=sources.ROOT
    )

    assert ran.stdout == "False\n"


def test_a_member_process_imports_nothing_of_hub_and_host() -> None:
    """Each member cluster runs one: the hub's modules were 25 MB and 0.3 s of processor in each."""
    code = (
        "import sys, federator.cli.running.processes, federator.processes, federator.member.process\n"
        "print(*(name for name in sys.modules if name.startswith('federator.')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=sources.ROOT
    )

    rooms = ("hub", "advice", "scheduling", "gateway", "dashboard", "signer", "simulate")
    theirs = [
        name
        for name in ran.stdout.split()
        if room_of(name) in rooms and name.count(".") > 1 and not name.endswith(".options")
    ]
    # Packages that hold options, which `federator.settings` reads.
    assert set(theirs) <= {"federator.hub.history", "federator.hub.query"}


def test_what_decides_and_folds_knows_neither_api_nor_pydantic() -> None:
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room in ("placement", "scheduling", "status", "model")
        for line, module in source.imports()
        if module.startswith(("pydantic", "federator.api"))
    ]

    assert not wrong


def test_pure_floors_do_not_wait_log_read_a_clock_or_draw_chance() -> None:
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room in PURE and source.name not in DATA_LOADERS
        for line, module in source.imports()
        if module.split(".")[0] in IMPURE_MODULES
    ]

    assert not wrong


def test_pure_floors_have_no_coroutine_and_call_no_clock() -> None:
    wrong = []
    for source in sources.all_sources():
        if source.room not in PURE:
            continue
        for node in source.nodes:
            if isinstance(node, ast.AsyncFunctionDef | ast.Await):
                wrong.append(f"{source.name}:{node.lineno} waits")
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("open", "print")
            ):
                wrong.append(f"{source.name}:{node.lineno} calls {node.func.id}")
            if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
                owner = node.value
                if isinstance(owner, ast.Name) and owner.id in ("datetime", "date"):
                    wrong.append(f"{source.name}:{node.lineno} reads a clock")

    assert not wrong


def test_only_the_scheduling_cycle_asks_the_engine() -> None:
    """So that hub, `place` and `explain` take the same decision for the same input."""
    parts = {
        "federator.placement.engine",
        "federator.scheduling.editing",
        "federator.scheduling.refusals",
    }
    wrong = [
        f"{source.name} imports {module}"
        for source in sources.all_sources()
        if source.room != "scheduling"
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        if module in parts
    ]

    assert not wrong


@pytest.mark.parametrize("room", ["hub", "member"])
def test_controllers_do_not_know_the_client_library(room: str) -> None:
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room == room
        for line, module in source.imports()
        if module.startswith(("kubernetes_asyncio", "aiohttp"))
    ]

    assert not wrong


def test_controllers_take_time_and_chance_from_what_they_are_given() -> None:
    """They must run unchanged on virtual time: no wall clock, no global generator, no thread."""
    banned = ("time.", "uuid", "secrets", "threading", "concurrent")
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room in ("hub", "member")
        for line, module in source.imports()
        if module.startswith(banned) or module == "time"
    ]

    assert not wrong


def test_only_the_command_line_and_tests_use_the_embedded_api() -> None:
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room not in ("embedded", "sandbox", "simulate", "cli")
        for line, module in source.imports()
        if room_of(module) == "embedded"
    ]

    assert not wrong


def test_the_command_line_prints_through_its_sanitiser_only() -> None:
    """`common` is where text becomes safe for a terminal. `demo` moves the cursor itself, `logs
    --raw` is asked for.
    """
    allowed = {"common.py", "demo.py", "logs.py"}
    printing = [
        f"{source.name}:{node.lineno}"
        for source in sources.all_sources()
        if source.room == "cli" and source.path.name not in allowed
        for node in source.nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"click.echo", "click.secho", "print"}
    ]

    assert not printing
