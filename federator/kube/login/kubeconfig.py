"""A person's own kubeconfig, read as kubectl reads it (client-go 1.37, `tools/clientcmd`): several
files merged, one context chosen, every field checked.

A field that this project does not offer is refused in words, so that no setting is dropped in
silence. No message quotes a value. Called by connect.py; the kubeconfigs of members have a door of
their own (kubeconfigs.py).
"""

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from federator.kube import kubeyaml
from federator.model import plaintext

_SHOWN = 80
"""Characters of a foreign name that a message repeats."""


class NotConfigured(ValueError):
    """No usable configuration; the message is for the person at the terminal."""


class Type(Enum):
    """What a field holds, in the words of an error message."""

    TEXT = "a text (in quotes, if it looks like a number)"
    FLAG = "true or false"
    BYTES = "base64"
    TEXTS = "a list of texts"
    LISTS = "a mapping of names to lists of texts"
    VARIABLES = "a list of entries with a name and a value"
    EXTENSIONS = "a list of entries with a name and an extension"
    MAPPING = "a mapping"


CLUSTER: Mapping[str, Type] = {
    "server": Type.TEXT,
    "tls-server-name": Type.TEXT,
    "insecure-skip-tls-verify": Type.FLAG,
    "certificate-authority": Type.TEXT,
    "certificate-authority-data": Type.BYTES,
    "proxy-url": Type.TEXT,
    "disable-compression": Type.FLAG,
    "extensions": Type.EXTENSIONS,
}
USER: Mapping[str, Type] = {
    "client-certificate": Type.TEXT,
    "client-certificate-data": Type.BYTES,
    "client-key": Type.TEXT,
    "client-key-data": Type.BYTES,
    "token": Type.TEXT,
    "tokenFile": Type.TEXT,
    "as": Type.TEXT,
    "as-uid": Type.TEXT,
    "as-groups": Type.TEXTS,
    "as-user-extra": Type.LISTS,
    "username": Type.TEXT,
    "password": Type.TEXT,
    "auth-provider": Type.MAPPING,
    "exec": Type.MAPPING,
    "extensions": Type.EXTENSIONS,
}
CONTEXT: Mapping[str, Type] = {
    "cluster": Type.TEXT,
    "user": Type.TEXT,
    "namespace": Type.TEXT,
    "extensions": Type.EXTENSIONS,
}
EXEC: Mapping[str, Type] = {
    "command": Type.TEXT,
    "args": Type.TEXTS,
    "env": Type.VARIABLES,
    "apiVersion": Type.TEXT,
    "installHint": Type.TEXT,
    "provideClusterInfo": Type.FLAG,
    "interactiveMode": Type.TEXT,
}
_LISTS = (
    ("clusters", "cluster", CLUSTER),
    ("users", "user", USER),
    ("contexts", "context", CONTEXT),
)
_FILES = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}

Entries = dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The merged files. Entries hold the fields that are set, with absolute file names."""

    paths: str
    current: str
    clusters: Entries
    users: Entries
    contexts: Entries

    def context(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Name and fields of a context, "" for the current one. Raises `NotConfigured`."""
        wanted = name or self.current
        if wanted in self.contexts:
            return wanted, self.contexts[wanted]
        if not self.contexts:
            raise NotConfigured(f"The kubeconfig {self.paths} holds no context.")
        known = ", ".join(map(shown, sorted(self.contexts)))
        if not wanted:
            raise NotConfigured(
                f"The kubeconfig {self.paths} has no current context: name one with --context"
                f" (there are: {known})."
            )
        raise NotConfigured(
            f"The kubeconfig {self.paths} holds no context {shown(wanted)} (there are: {known})."
        )


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context with the cluster and the user that it names, checked as kubectl checks them."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    user_name: str


def read(paths: str = "") -> Kubeconfig:
    """All files of `paths` as one ("": KUBECONFIG, then `~/.kube/config`). Raises
    `NotConfigured`.

    As in kubectl: of each name, and of the current context, what the first file says counts. Files
    that do not exist and empty ones are passed over.
    """
    given = paths or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    merged: dict[str, Entries] = {plural: {} for plural, _, _ in _LISTS}
    current, exists = "", False
    for path in filter(None, given.split(os.pathsep)):
        file = Path(path).expanduser()
        if not file.exists():
            continue
        exists = True
        document = _document(file)
        named = _current(document, file)
        current = current or named
        for plural, singular, table in _LISTS:
            for name, fields in _entries(document, plural, singular, table, file).items():
                merged[plural].setdefault(name, fields)
    if not exists:
        raise NotConfigured(f"There is no kubeconfig at {given}.")
    return Kubeconfig(given, current, merged["clusters"], merged["users"], merged["contexts"])


def choose(config: Kubeconfig, context: str = "") -> Chosen:
    """The context of that name ("" for the current one). Raises `NotConfigured`."""
    name, fields = config.context(context)
    cluster = _referred(config.clusters, fields, "cluster", name)
    user = _referred(config.users, fields, "user", name)
    _check_cluster(cluster, fields.get("cluster", ""))
    _check_user(user, fields.get("user", ""))
    return Chosen(cluster, user, fields.get("user", ""))


def impersonation(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The Impersonate-* headers of a user that acts as another one; keys of `as-user-extra` are
    percent-encoded as client-go does."""
    if not user.get("as"):
        return ()
    headers = [("Impersonate-User", user["as"])]
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", user["as-uid"]))
    headers += [("Impersonate-Group", group) for group in user.get("as-groups", ())]
    for key, values in user.get("as-user-extra", {}).items():
        headers += [(f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    return tuple(headers)


def shown(name: object) -> str:
    """A foreign name for a message."""
    return f'"{plaintext.clipped(str(name), _SHOWN)}"'


def _document(file: Path) -> Mapping[str, Any]:
    """The first document of a file, {} for an empty one."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is no UTF-8 text"
        raise NotConfigured(f"The kubeconfig {file} cannot be read: {why}.") from exc
    try:
        document = next(iter(yaml.load_all(text, Loader=kubeyaml.Loader)), None)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        raise NotConfigured(f"The kubeconfig {file} is no YAML that can be read{place}.") from exc
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise NotConfigured(f"The file {file} is no kubeconfig: it must be a mapping.")
    version, kind = document.get("apiVersion") or "v1", document.get("kind") or "Config"
    if (version, kind) != ("v1", "Config"):
        raise NotConfigured(
            f"The file {file} is no kubeconfig: it must be of apiVersion v1 and kind Config."
        )
    return document


def _current(document: Mapping[str, Any], file: Path) -> str:
    table = {"current-context": Type.TEXT}
    return str(_fields(document, table, "", file).get("current-context", ""))


def _entries(
    document: Mapping[str, Any], plural: str, singular: str, table: Mapping[str, Type], file: Path
) -> Entries:
    """The named entries of one list of one file."""
    entries = document.get(plural)
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise _refused(file, f"{plural} must be a list")
    named: Entries = {}
    for index, entry in enumerate(entries):
        where = f"{plural}[{index}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name", ""), str):
            raise _refused(file, f"{where} must be a mapping with a name")
        name = entry.get("name", "")
        if name in named:
            raise _refused(file, f"{plural} has the name {shown(name)} twice")
        fields = _fields(entry.get(singular), table, f"{where}.{singular}", file)
        if "exec" in fields:
            fields["exec"] = _fields(fields["exec"], EXEC, f"{where}.{singular}.exec", file)
        named[name] = _absolute(fields, file)
    return named


def _fields(value: object, table: Mapping[str, Type], where: str, file: Path) -> dict[str, Any]:
    """The fields of a mapping that `table` knows and that are set. Unknown ones are passed over, as
    in kubectl."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refused(file, f"{where} must be a mapping")
    fields = {}
    for name, type_ in table.items():
        if (content := value.get(name)) is None:
            continue
        read = _READ[type_](content)
        if read is None:
            path = f"{where}.{name}" if where else name
            raise _refused(file, f"{path} must be {type_.value}")
        if read or type_ is Type.MAPPING:
            fields[name] = read
    return fields


def _refused(file: Path, message: str) -> NotConfigured:
    return NotConfigured(f"The kubeconfig {file}: {message}.")


def _absolute(fields: dict[str, Any], file: Path) -> dict[str, Any]:
    """File names are relative to the kubeconfig that they stand in; so is a command with a
    slash."""
    base = os.path.dirname(os.path.abspath(file))
    for name in _FILES & fields.keys():
        fields[name] = os.path.join(base, fields[name])
    command = fields.get("exec", {}).get("command", "")
    if os.sep in command:
        fields["exec"]["command"] = os.path.join(base, command)
    return fields


def _referred(
    entries: Entries, context: Mapping[str, Any], singular: str, name: str
) -> Mapping[str, Any]:
    """What a context refers to; nothing where it names no user."""
    wanted = context.get(singular, "")
    if wanted in entries:
        return entries[wanted]
    if not wanted and singular == "user":
        return {}
    what = f"the {singular} {shown(wanted)}, which does not exist" if wanted else f"no {singular}"
    raise NotConfigured(f"The context {shown(name)} of the kubeconfig names {what}.")


def _check_cluster(cluster: Mapping[str, Any], name: str) -> None:
    entry = f"The cluster {shown(name)} of the kubeconfig"
    if not cluster.get("server"):
        raise NotConfigured(f"{entry} has no server.")
    if {"certificate-authority", "certificate-authority-data"} <= cluster.keys():
        raise NotConfigured(
            f"{entry} has certificate-authority and certificate-authority-data: only one of them is"
            " accepted."
        )
    if cluster.get("insecure-skip-tls-verify") and any(
        field in cluster for field in ("certificate-authority", "certificate-authority-data")
    ):
        raise NotConfigured(
            f"{entry} has a certificate authority and insecure-skip-tls-verify: only one of them is"
            " accepted."
        )


def _check_user(user: Mapping[str, Any], name: str) -> None:
    entry = f"The user {shown(name)} of the kubeconfig"
    provider = user.get("auth-provider", {}).get("name", "")
    if "auth-provider" in user and "exec" in user:
        raise NotConfigured(f"{entry} has an auth-provider and exec: only one of them is accepted.")
    if "auth-provider" in user and provider != "oidc":
        raise NotConfigured(
            f"{entry} has the auth-provider {shown(provider)}, which is not offered. Use a"
            " credential plugin (exec): kubelogin for Azure, gke-gcloud-auth-plugin for GKE."
        )
    if "token" in user and ("username" in user or "password" in user):
        raise NotConfigured(f"{entry} has a token and a password: only one of them is accepted.")
    _check_certificate(user, entry)
    _check_impersonation(user, entry)


def _check_certificate(user: Mapping[str, Any], entry: str) -> None:
    for kind in ("client-certificate", "client-key"):
        if {kind, f"{kind}-data"} <= user.keys():
            raise NotConfigured(
                f"{entry} has {kind} and {kind}-data: only one of them is accepted."
            )
    certificate = {"client-certificate", "client-certificate-data"} & user.keys()
    if certificate and not {"client-key", "client-key-data"} & user.keys():
        raise NotConfigured(f"{entry} has a client certificate and no client-key.")


def _check_impersonation(user: Mapping[str, Any], entry: str) -> None:
    others = [name for name in ("as-uid", "as-groups", "as-user-extra") if user.get(name)]
    if others and not user.get("as"):
        raise NotConfigured(f"{entry} has {others[0]}, and does not act as another user (`as`).")
    for header, value in impersonation(user):
        if not value.isprintable():
            raise NotConfigured(
                f"{entry} acts as another user: the value for {header} has control characters."
            )


def _escaped(key: str) -> str:
    """Bytes that no header name may have, and `%`, percent-encoded."""
    legal = frozenset(
        b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    )
    return "".join(chr(byte) if byte in legal else f"%{byte:02X}" for byte in key.encode("utf-8"))


def _bytes(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return None


def _texts(value: object) -> list[str] | None:
    is_texts = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return value if isinstance(value, list) and is_texts else None


def _lists(value: object) -> dict[str, list[str]] | None:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    return value if all(_texts(entry) is not None for entry in value.values()) else None


def _variables(value: object) -> list[tuple[str, str]] | None:
    if not isinstance(value, list):
        return None
    pairs = []
    for entry in value:
        if not isinstance(entry, dict):
            return None
        name, content = entry.get("name"), entry.get("value", "")
        if not isinstance(name, str) or not name or not isinstance(content, str):
            return None
        pairs.append((name, content))
    return pairs


def _extensions(value: object) -> dict[str, Any] | None:
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in value
    ):
        return None
    return {entry["name"]: entry.get("extension") for entry in value}


def _of(type_: type) -> Callable[[object], Any]:
    return lambda value: value if isinstance(value, type_) else None


_READ: Mapping[Type, Callable[[object], Any]] = {
    Type.TEXT: _of(str),
    Type.FLAG: _of(bool),
    Type.BYTES: _bytes,
    Type.TEXTS: _texts,
    Type.LISTS: _lists,
    Type.VARIABLES: _variables,
    Type.EXTENSIONS: _extensions,
    Type.MAPPING: _of(dict),
}
