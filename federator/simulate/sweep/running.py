"""Runs the tasks of a sweep, each once: on processes of this machine, or on a Dask cluster that is
there.

A result is written to the sweep's folder as soon as it is there, whole or not at all, under the
digest of what it depends on. A sweep that was killed finds what is done and runs the rest.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Final

from federator.model.errors import FieldError
from federator.simulate.engine import run as engine
from federator.simulate.inputs import Inputs
from federator.simulate.report import figures, measures
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.sweep.plan import Task
from federator.simulate.traces.problems import TraceError

RESULTS: Final = "results"
_BAD: Final = (InvalidScenario, TraceError, FieldError, ValueError)
Result = Mapping[str, Any]
Runner = Callable[[Sequence[Task]], Iterator[Result]]
"""Yields a result for each task, in any order."""


class NoDask(Exception):
    """The Dask cluster cannot be used; the message says why and what helps."""


def simulated(task: Task) -> Result:
    """The result of one task; what is wrong with its input is a result too. Runs anywhere."""
    result: dict[str, Any] = {"id": task.id, "point": [list(pair) for pair in task.point]}
    try:
        inputs = _inputs(task)
        if task.window is not None:
            begin_s, end_s = task.window
            inputs = replace(inputs, warm_up_s=begin_s, window_s=end_s)
        outcome = engine.run(inputs)
    except _BAD as bad:
        return {**result, "error": str(bad)}
    measured = measures.measure(outcome)
    return {
        **result,
        "verdict": figures.verdict(measured),
        "measured": figures.window(measured),
        "figures": figures.values(measured),
    }


def spanned(task: Task) -> Result:
    """The time over which a task is measured alone; what is wrong with its input is a result too.
    Runs anywhere."""
    try:
        inputs = _inputs(task)
    except _BAD as bad:
        return {"id": task.id, "error": str(bad)}
    return {"id": task.id, "window": [inputs.warm_up_s, inputs.horizon_s]}


def _inputs(task: Task) -> Inputs:
    return loading.inputs(json.loads(task.document), Path(task.file), os.environ)


def done(folder: Path, tasks: Iterable[Task]) -> dict[str, Result]:
    """The results that are there, by task."""
    results: dict[str, Result] = {}
    for task in tasks:
        try:
            result = json.loads(_file(folder, task.id).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(result, dict) and result.get("id") == task.id and "measured" in result:
            results[task.id] = {**result, "point": [list(pair) for pair in task.point]}
    return results


def run(
    folder: Path, tasks: Sequence[Task], runner: Runner, progress: Callable[[int, int], None]
) -> tuple[dict[str, Result], list[Result]]:
    """Runs what is not done; returns all results by task, and the failures, which are not written
    and are tried again next time. `progress` is told how many are done and how many there are.
    """
    (folder / RESULTS).mkdir(parents=True, exist_ok=True)
    results = done(folder, tasks)
    failures: list[Result] = []
    progress(len(results), len(tasks))
    for result in runner([task for task in tasks if task.id not in results]):
        if "error" in result:
            failures.append(result)
            continue
        _write(folder, result)
        results[str(result["id"])] = result
        progress(len(results), len(tasks))
    return results, failures


def _file(folder: Path, ident: str) -> Path:
    return folder / RESULTS / f"{ident}.json"


def _write(folder: Path, result: Result) -> None:
    file = _file(folder, str(result["id"]))
    beside = file.with_suffix(f".{os.getpid()}.new")
    beside.write_text(json.dumps(result) + "\n", encoding="utf-8")
    os.replace(beside, file)


# -- where tasks run -------------------------------------------------------------------------------


def processes(jobs: int, simulate: Callable[[Task], Result] = simulated) -> Runner:
    """On so many processes of this machine. They end when this one is killed."""

    def runner(tasks: Sequence[Task]) -> Iterator[Result]:
        if not tasks:
            return
        workers = min(jobs, len(tasks))
        with ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_end_with_parent
        ) as pool:
            futures = [pool.submit(simulate, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                # A pool that still closes its pipes as the program ends prints an error.
                pool.shutdown(cancel_futures=True)

    return runner


def _end_with_parent() -> None:
    """A worker waits for its next task for ever, also when nobody is left to give it one."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def dask(
    address: str, simulate: Callable[[Task], Result] = simulated, *, wait_s: float = 30.0
) -> Runner:
    """On the workers of the Dask scheduler at this address, which must have this version of the
    program and see the same files. Raises NoDask.
    """
    try:
        import distributed
    except ImportError:
        raise NoDask("--dask needs the extra: pip install 'federator[dask]'") from None

    def runner(tasks: Sequence[Task]) -> Iterator[Result]:
        if not tasks:
            return
        try:
            client = distributed.Client(address, timeout=wait_s, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as why:
            raise NoDask(f"the Dask scheduler at {address} does not answer: {why}") from None
        with client:
            # A key names one result: the time of a task and its figures are two.
            keys = [f"federator-{simulate.__name__}-{task.id}" for task in tasks]
            futures = client.map(simulate, tasks, key=keys, pure=True)
            for _, result in distributed.as_completed(futures, loop=client.loop, with_results=True):
                yield result

    return runner
