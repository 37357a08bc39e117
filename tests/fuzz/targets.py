"""What is fuzzed: one row for every parser of foreign bytes, with the errors that it may raise and
where to begin.
"""

import base64
import gzip
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from federator import settings
from federator.api import (
    capacityfields,
    clustercapacity,
    decoding,
    federatedquota,
    membercluster,
    raw,
    runtimeprofile,
)
from federator.api.decoding import Limits
from federator.api.placement import decisionfacts, placementpolicy
from federator.convert import convert, drafts
from federator.embedded.rest import bodies
from federator.embedded.schema.builtins import info
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import ApiRequest, Caller
from federator.gateway.artifacts import provenance, secrets, statements, workflows
from federator.gateway.artifacts.ports import ArtifactRefused
from federator.gateway.artifacts.registry import digest_of
from federator.hub.records import decisions, slices, workloads
from federator.kinds import read, registry, verbs
from federator.kube import errors
from federator.kube.login import kubeconfigs
from federator.kube.watch import object_reader
from federator.kube.wire import decode
from federator.model import shards, sources
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity, selectors, taints
from federator.runtime.configuration import stores, unpacking
from federator.runtime.files import wanted
from federator.runtime.files.backends import Refusal
from federator.runtime.logs.records import Lines, record
from federator.runtime.metrics.part import labelled
from federator.runtime.traffic import members
from federator.runtime.traffic import settings as pod_settings
from federator.runtime.traffic.registry import logins
from federator.runtime.traffic.settings import Unusable
from federator.sandbox import fleetfile
from tests.artifacts import made
from tests.fuzz import runtimes
from tests.hostile import cases_members, cases_objects, cases_texts
from tests.unit.kube import test_kubeconfigs

LIMITS = Limits(size=1 << 20, depth=64, nodes=20_000)


@dataclass(frozen=True)
class Target:
    """`run` gets bytes; `ours` are the errors it may raise. `seeds` are where to begin."""

    name: str
    run: Callable[[bytes], object]
    ours: tuple[type[BaseException], ...] = (FieldError,)
    seeds: tuple[bytes, ...] = ()


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _json(use: Callable[[Any], object]) -> Callable[[bytes], object]:
    """Decodes as answers of API servers are decoded; what is no JSON has been refused before our
    reader sees it.
    """

    def run(data: bytes) -> object:
        try:
            value = decode.any_decoder.decode(data)
        except decode.BROKEN:
            return None
        return use(value)

    return run


def _object(use: Callable[[dict[str, Any]], object]) -> Callable[[bytes], object]:
    """An object with the metadata that the reflector has made sure of."""

    def run(value: Any) -> object:
        if not isinstance(value, dict):
            return None
        meta = value.get("metadata")
        good = meta if isinstance(meta, dict) else {}
        texts = {
            name: good[name] if isinstance(good.get(name), str) else "x"
            for name in ("name", "namespace", "uid")
        }
        return use({**value, "metadata": {**good, **texts, "resourceVersion": "1"}})

    return _json(run)


def _reader(raw: bool) -> Callable[[bytes], object]:
    reader: object_reader.ObjectReader[Any] = (
        object_reader.ObjectReader("v1", None, lambda found: found)
        if raw
        else object_reader.ObjectReader("v1", lambda found: found, None)
    )

    def run(line: bytes) -> object:
        try:
            event = reader.event_decoder.decode(line)
        except decode.BROKEN:
            event = decode.raw_event_decoder.decode(line)
        if event.type == "BOOKMARK":
            return object_reader.bookmark_version(event.object)
        if event.type == "ERROR":
            return decode.event_error(event.object)
        return reader.identify(event.object)

    return run


def _page(data: bytes) -> object:
    return list(decode.items(decode.page(data, "a list"), "v1"))


def _observed(kind: str) -> Callable[[dict[str, Any]], object]:
    table = registry.verbs_of(kind)

    def use(obj: dict[str, Any]) -> object:
        seen = table.observe(obj, "a", True)
        assert 0 <= seen.ready <= 10**6
        slices.summarise(kind, "a", obj)
        summary = workloads.summarise(kind, obj, None)
        summary.progress()
        return table.read_mark(obj), table.slice_status(seen, ())

    return use


def _workflow(data: bytes) -> object:
    return workflows.render(workflows.load(data), {}, "ads")


def _archive(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "archive"
        source.write_bytes(data)
        return unpacking.unpack(source, Path(folder) / "out")


def _layer(data: bytes) -> object:
    return stores.layer(data, "an artifact")


def _archives() -> tuple[bytes, ...]:
    """A tar file with an entry of each kind, in both forms."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link in (
            ("a", tarfile.DIRTYPE, ""),
            ("a/" + "f" * 120, tarfile.REGTYPE, ""),
            ("link", tarfile.SYMTYPE, "a"),
            ("hard", tarfile.LNKTYPE, "a/" + "f" * 120),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            entry.size = 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(b"abc"))
    return plain.getvalue(), gzip.compress(plain.getvalue(), mtime=0)


ARCHIVES = _archives()
LAYER = b'{"layers": [{"digest": "sha256:' + b"a" * 64 + b'", "size": 3, "mediaType": "x"}]}'
CONFIG_LIST = (
    b'[{"artifact": "oci://a.example/b", "digest": "sha256:' + b"a" * 64 + b'", "path": "c"}]'
)


def _statement(data: bytes) -> object:
    """The payload of an envelope, as it is read once a key has signed it."""
    statement = statements.statement(data)
    read_ = statements.review if statement.predicate_type == statements.REVIEW else statements.built
    return read_(statement.predicate)


def _settings(data: bytes) -> object:
    return settings.load(
        environ={
            "FEDERATOR_HUB__PROBE_INTERVAL_S": data.decode("utf-8", "replace").replace("\0", "")
        }
    )


def _settings_file(data: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(data)
        file.flush()
        return settings.load(file.name, {})


def _converted(data: bytes) -> object:
    objs = read.load_yaml(data.decode("utf-8", "replace"), LIMITS)
    return convert.convert([("file", obj) for obj in objs])


def _body(media: str) -> Callable[[bytes], object]:
    caller = Caller("fuzz", ())

    def run(data: bytes) -> object:
        request = ApiRequest("POST", "/", {}, {"content-type": media}, data, caller)
        return bodies.read_object(request, info("", "configmaps"))

    return run


def _dumped(objs: Iterable[Any]) -> tuple[bytes, ...]:
    return tuple(json.dumps(obj).encode() for obj in objs)


def _small(cases: Iterable[Any]) -> tuple[bytes, ...]:
    made = (case.input() for case in cases)
    found = (given.encode() if isinstance(given, str) else given for given in made)
    return tuple(given for given in found if len(given) < 5000)


TEXTS = _small((*cases_texts.TEXTS, *cases_texts.JSON, *cases_texts.BYTES))
OBJECTS = tuple(
    one for one in _dumped(case.input() for case in cases_objects.OBJECTS) if len(one) < 5000
)
MEMBERS = _dumped(case.input() for case in (*cases_objects.CLUSTERS, *cases_objects.FIGURES))
SLICE = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestService",
    "metadata": {"name": "x", "annotations": {"federation.pinterest.com/slice": '{"fleet":"f","workloadUID":"u"}'}},
    "spec": {
        "replicas": 2,
        "updateStrategy": {"maxUnavailable": "25%"},
        "slice": {"fleet": "f", "workloadUID": "u", "originGeneration": 1, "cluster": "a", "seq": 1, "ranges": "0-3,7"},
    },
    "status": {"ready": 1, "replicas": 2, "completedIndexes": "0-3,7", "failedIndexes": "5", "healthy": True,
               "unschedulable": {"count": 1, "since": "2026-01-01T00:00:00Z"}},
}  # fmt: skip


def _lied() -> tuple[bytes, ...]:
    found = []
    for lie in cases_members.LIES:
        obj = json.loads(json.dumps(SLICE))
        made = lie.change(obj)
        found.append(made if made is not None else json.dumps(obj).encode())
    return tuple(one for one in found if len(one) < 5000)


SLICES = (json.dumps(SLICE).encode(), *_lied())
QUANTITIES = tuple(
    text.encode()
    for text in ("1", "500m", "1.5Gi", "1e3", "-1", "10Ei", "1_000", "١", "1e400", "0.1m")
)
SELECTORS = (b"a=b", b"a in (b,c),!d", b"a!=b,x notin (y)", b"a,", b"in in (in)")
LINES = (
    b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}',
    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","details":{"retryAfterSeconds":1}}}',
)
FLEET = (
    (
        b"members:\n- name: a\n  labels: {zone: z}\n  nodes:\n  - {count: 2, cpu: '8', memory: "
        b"32Gi, pods: 110}\n"
    ),
)
DECISION = (
    b'{"spec":{"workload":{"kind":"PinterestJobSet","name":"x","uid":"u"},"seq":1,"unit":"shards","reason":"Chosen",'
    b'"shares":[{"cluster":"a","ranges":"0-3,7","slots":2,"seq":1}],"asOf":"2026-01-01T00:00:00Z",'
    b'"quotaGenerations":{"a":1},"charge":{"project":"p","tier":"Reserved","shape":{"requests":{"cpu":"1"}}}}}',
)


def _traffic_settings(text: str) -> object:
    given = {"POD_UID": "u", "POD_IP": "10.0.0.1", "FEDERATOR_ZOOKEEPER": "zk:2181"}
    named = {"FEDERATOR_TRAFFIC_SERVICE": "a", "FEDERATOR_APPLICATION": text}
    return pod_settings.read({**given, **named})


def _log_lines(data: bytes) -> object:
    """However the bytes arrive, the records are the same."""
    whole, apart = Lines(), Lines()
    records = [*whole.feed(data), *whole.end()]
    half = len(data) // 2
    assert records == [*apart.feed(data[:half]), *apart.feed(data[half:]), *apart.end()]
    return [record(text, {}, "a", partial=partial) for text, partial in records]


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("quantities", _text(quantity.parse), seeds=QUANTITIES),
        Target(
            "entries of a registry",
            lambda data: members.read("/discovery/a/b", f"{'a' * 32}-10.0.0.1:80", data),
            (),
            (b'{"ip":"10.0.0.1","port":80,"weight":1,"metadata":{"cluster":"a"}}',),
        ),
        Target(
            "names of entries",
            _text(lambda name: members.read("/discovery/a/b", name, b"")),
            (),
            (b"0f8e8a3e8f0a4c5b9c1e2b7d6a5f4c3d-10.4.0.17:8080", b"-[fd00::1]:80"),
        ),
        Target("logins", _text(logins), (ValueError,), (b"search:secret\n", b":")),
        Target(
            "pods of the traffic part",
            _text(_traffic_settings),
            (Unusable,),
            (
                b'{"port":80,"probes":{"a":{"httpGet":{"port":80}}},"preStop":{"a":{"sleep":{}}}}',
                b'{"probes":{"a":{"grpc":{"port":1,"service":"x"},"periodSeconds":true}}}',
            ),
        ),
        Target(
            "samples",
            _text(lambda text: [labelled(line, {"cluster": "a"}) for line in text.splitlines()]),
            (),
            (b'req{path="/a}b\\"c",} 2 1700000000', b"# HELP a b", b'a{cluster="x"} NaN'),
        ),
        Target("log lines", _log_lines, (), (b"one\r\ntwo\xff\n", b"x" * 20_000)),
        Target(
            "resource vectors",
            _json(lambda v: quantity.vector(v) if isinstance(v, dict) else None),
            seeds=(b'{"cpu":"1"}',),
        ),
        Target("selectors", _text(selectors.parse), seeds=SELECTORS),
        Target(
            "selector objects",
            _json(selectors.from_dict),
            seeds=(
                b'{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["x"]}]}',
            ),
        ),
        Target(
            "taints",
            _json(taints.taint_from_dict),
            seeds=(b'{"key":"a","value":"b","effect":"NoSchedule"}',),
        ),
        Target(
            "tolerations",
            _json(taints.toleration_from_dict),
            seeds=(
                b'{"key":"a","operator":"Equal","value":"b","effect":"NoExecute","tolerationSeconds":5}',
            ),
        ),
        Target(
            "shard ranges",
            _text(shards.parse),
            (ValueError,),
            (b"0-3,7", b"5,4", b"0-99999999999999999999"),
        ),
        Target("ranges in pieces", _text(raw.ranges), (), (b"0-3,4-7",)),
        Target("yaml", _text(lambda text: decoding.from_yaml(text, LIMITS)), seeds=TEXTS),
        Target("json", lambda data: decoding.from_json(data, LIMITS), seeds=TEXTS),
        Target(
            "manifests",
            _text(lambda text: [read.check(obj) for obj in read.load_yaml(text, LIMITS)]),
            (read.InvalidObject,),
            OBJECTS,
        ),
        Target("converted manifests", _converted, (read.InvalidObject, drafts.BadInput), OBJECTS),
        Target(
            "kubeconfigs",
            kubeconfigs.member_access,
            seeds=tuple(one for one in test_kubeconfigs.REFUSED.values() if len(one) < 5000),
        ),
        Target("watch lines", _reader(raw=False), (errors.ApiError, *decode.BROKEN), LINES),
        Target("raw watch lines", _reader(raw=True), (errors.ApiError, *decode.BROKEN), LINES),
        Target(
            "lists",
            _page,
            (errors.ApiError,),
            (
                b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}',
            ),
        ),
        Target(
            "single answers",
            lambda data: decode.single(data, "x", "get"),
            (errors.ApiError,),
            SLICES,
        ),
        Target(
            "refusals",
            lambda data: str(decode.error(409, {"retry-after": "7"}, data, "patch")),
            (),
            (b'{"kind":"Status","reason":"Conflict","message":"m","details":{"causes":[{}]}}',),
        ),
        Target(
            "capacity",
            _json(
                lambda v: _copied(capacityfields.to_capacity(v)) if isinstance(v, dict) else None
            ),
            (),
            (
                b'{"nodes":[{"count":1,"allocatable":{"cpu":"8"},"free":{"cpu":"4"},"taints":[{"key":"a","effect":"NoSchedule"}]}],"copies":{"x":1},"includesSeq":5,"packs":true}',
            ),
        ),
        Target(
            "asked shapes",
            _object(clustercapacity.asked),
            (),
            (
                b'{"spec":{"shapes":[{"id":"x","requests":{"cpu":"1"},"tolerations":[{"operator":"Exists"}]}]}}',
            ),
        ),
        Target(
            "member clusters", _object(lambda obj: membercluster.to_view(obj, 1e9)), (), MEMBERS
        ),
        Target("quotas", _object(federatedquota.to_account), (), OBJECTS[-30:]),
        Target(
            "policies",
            _object(
                lambda obj: (placementpolicy.to_policy(obj, "match"), placementpolicy.matching(obj))
            ),
            (),
            OBJECTS[-40:],
        ),
        Target(
            "profiles",
            _object(
                lambda obj: (runtimeprofile.content_hash(obj), runtimeprofile.member_copy(obj, "f"))
            ),
            (),
            OBJECTS[:5],
        ),
        Target(
            "decisions",
            _object(lambda obj: (decisionfacts.decision_facts(obj), decisions.summarise(obj))),
            (),
            DECISION,
        ),
        Target(
            "marks",
            _json(verbs.decode_mark),
            (),
            (b'{"fleet":"f","workloadUID":"u","ranges":"0-3"}',),
        ),
        Target("services observed", _object(_observed("PinterestService")), (), SLICES),
        Target("job sets observed", _object(_observed("PinterestJobSet")), (), SLICES),
        Target("deployments observed", _object(_observed("Deployment")), (), SLICES),
        Target("workflow files", _workflow, (ArtifactRefused,), (made.WORKFLOW,)),
        Target(
            "signed envelopes",
            lambda data: provenance.check((data,), digest_of(b""), made.policy()),
            (ArtifactRefused,),
            made.good(),
        ),
        Target(
            "statements",
            _statement,
            (ValueError,),
            tuple(json.dumps(each).encode() for each in (made.provenance(), made.review())),
        ),
        Target(
            "references of artifacts",
            _text(sources.reference),
            seeds=(b"oci://registry.example:5000/ads/serving", b"https://[fd00::1]/a/b"),
        ),
        Target(
            "credentials of registries",
            _text(lambda text: secrets.of_docker_config(text, "a.example")),
            (ValueError,),
            (b'{"auths": {"https://a.example/v1/": {"auth": "Y2k6eA=="}}}',),
        ),
        Target("archives of configuration", _archive, (Refusal,), ARCHIVES),
        Target("manifests of configuration", _layer, (Refusal,), (LAYER,)),
        Target(
            "secrets of a pod",
            _text(wanted.secrets),
            seeds=(b'[{"name": "ads/db#key", "path": "a/b", "mode": 256}]',),
        ),
        Target("configuration of a pod", _text(wanted.config), seeds=(CONFIG_LIST,)),
        *(Target(*row) for row in runtimes.ROWS),
        Target("fleet files", _text(fleetfile.parse), (ValueError,), FLEET),
        Target(
            "settings files",
            _settings_file,
            seeds=(b"hub: {probe_interval_s: 5}", b"log: {level: info}", b"hub:"),
        ),
        Target("settings", _settings, seeds=(b"5", b"[1]", b"{a: b}", b"!!python/name:os.system")),
        Target(
            "request bodies, json",
            _body("application/json"),
            (refusals.Refusal, RecursionError),
            SLICES,
        ),
        Target(
            "request bodies, yaml",
            _body("application/yaml"),
            (refusals.Refusal, RecursionError),
            TEXTS,
        ),
        Target(
            "request bodies, protobuf",
            _body("application/vnd.kubernetes.protobuf"),
            (refusals.Refusal, RecursionError),
            (b"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap", base64.b64decode("azhzAAoMCgJ2MRIGU2VjcmV0")),
        ),
    )
}


def _copied(capacity: Any) -> object:
    """A report as the hub copies it to the host; what is written must be what was read."""
    copied = clustercapacity.from_capacity(capacity)
    assert capacityfields.to_capacity(copied) == capacity
    return copied
