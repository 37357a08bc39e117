"""Which column of a foreign table is probably which field, for the message about a missing one."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

_NOT_LETTERS: Final = re.compile(r"[^a-z]")
SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    "id": ("id", "jobid", "job", "jobname", "name", "taskid", "taskname", "pod", "podname", "uid"),
    "submit": (
        "submit", "submits", "submitted", "submittime", "submittedat", "submission",
        "submissiontime", "queued", "queuedat", "queuetime", "created", "createdat", "creationtime",
        "arrival", "arrivaltime", "timestamp", "time",
    ),
    "start": (
        "start", "starts", "started", "starttime", "startedat", "scheduledtime", "begin",
        "begintime",
    ),
    "end": (
        "end", "ends", "ended", "endtime", "endedat", "finish", "finished", "finishtime",
        "finishedat", "completed", "completedat", "completiontime", "deletiontime",
    ),
    "runtime": (
        "runtime", "runtimes", "runseconds", "duration", "durations", "elapsed", "elapsedraw",
        "executiontime", "seconds",
    ),
    "shards": ("shards", "replicas", "tasks", "workers", "numtasks", "instances", "instnum"),
    "cpu": ("cpu", "cpus", "cores", "ncpus", "alloccpus", "numcpu", "cpumilli", "cpurequest"),
    "memory": ("memory", "mem", "reqmem", "memorymib", "memorygb", "ram", "memoryrequest"),
    "gpu": ("gpu", "gpus", "ngpus", "numgpu", "gpucount", "gpunum"),
    "tenant": ("tenant", "project", "account", "user", "team", "queue", "vc", "virtualcluster"),
    "home": ("homecluster", "home", "cluster", "site", "partition"),
    "priority": ("priority", "prio"),
    "kind": ("kind", "type"),
}  # fmt: skip
"""Field -> names of its column in common use, in small letters without anything else; the first
that a table has is taken."""
WANTED: Final = ("cpu", "gpu", "tenant")
"""Fields that a table may lack, and that a planner wants where it has them."""


def columns(header: Sequence[str], lacking: Sequence[str]) -> str:
    """The end of a message: the mapping to write for fields that lack a column; "" without a
    guess."""
    by_word: dict[str, str] = {}
    for column in header:
        by_word.setdefault(_NOT_LETTERS.sub("", column.lower()), column)
    asked = list(lacking)
    if "runtime" in lacking and not _named("runtime", by_word):
        asked += ["start", "end"]
    guesses = {field: column for field in asked if (column := _named(field, by_word))}
    if not guesses:
        return ""
    guesses |= {field: column for field in WANTED if (column := _named(field, by_word))}
    written = ", ".join(f"{field}: {column}" for field, column in guesses.items())
    return f"; likely is demand.trace.columns: {{{written}}}"


def _named(field: str, by_word: Mapping[str, str]) -> str:
    """The column that is probably the field, "" for none."""
    words = SYNONYMS.get(field, (field.lower(),))
    near = (*words, *difflib.get_close_matches(words[0], by_word, 1, cutoff=0.8))
    return next((by_word[word] for word in near if word in by_word), "")
