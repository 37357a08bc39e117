"""Every command that the documents show is run, in a demo, or named here with the reason why it is
not; and what it prints is what the document shows (`printed`).

Commands are taken from the fenced blocks of README.md and docs/. Those written inside sentences are
read by the command line's own parser. The documents are divided into three groups with a demo each;
in its group each document finds what the documents before it have left.
"""

import functools
import itertools
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from federator.cli.main import cli
from tests.controlplane import build
from tests.e2e import printed
from tests.e2e.federations import FEDERATOR, family
from tests.e2e.printed import Shown, documents, shown
from tests.forkserver import starting
from tests.house.sources import ROOT

pytestmark = [pytest.mark.e2e]

GROUPS = {
    "operating": ("docs/operating/", "docs/using/pod-security.md"),
    "tour": (
        "README.md",
        "docs/tour.md",
        "docs/using/cron.md",
        "docs/using/explain.md",
        "docs/using/first-service.md",
        "docs/using/get.md",
        "docs/using/history.md",
        "docs/using/pods-and-logs.md",
        "docs/using/record.md",
        "docs/using/rollouts.md",
    ),
    "examples": ("docs/",),
}
"""Group -> beginnings of paths. A document belongs to the first group that has one of its own. Tour:
commands that look at the demo's own workloads. Examples: documents that apply files of
config/examples.
"""

STARTED_S = 120.0
COMMAND_S = 60.0
FOLLOWED_S = 4.0
SETTLED_S = 90.0
"""For a command that only reads, until it prints what is shown: an edit takes a moment."""
READS = (
    "federator get",
    "federator explain",
    "federator cluster check",
    "federator pods",
    "federator quota",
    "federator queue",
    "federator submissions get",
    "federator submissions list",
    "federator drill",
    "kubectl get",
)

FILLED = {"MEMBER": "us-east-1a"}
"""What stands for a reader's own names, and what is there in a demo."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a reader of a document has got already, of which the demo has nothing; and what is put
    back afterwards.
    """

    before: str = ""
    after: str = ""


WEB = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {{name: web, namespace: {namespace}}}
spec:
  project: {namespace}
  replicas: {replicas}
  {placement}
  template:
    spec: {{{pod}containers: [{{name: app, image: registry/web:1, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""
SHOP_QUOTA = """
apiVersion: federation.pinterest.com/v1alpha1
kind: FederatedQuota
metadata: {name: shop}
spec: {projects: [shop], tiers: {OnDemand: {max: {cpu: "10"}}}}
"""
TRAIN = """
apiVersion: pinterest.com/v1beta1
kind: PinterestJobSet
metadata: {name: train, namespace: ads}
spec:
  project: ads
  tier: Preemptible
  shards: 60
  parallelism: 6
  placement: {clusters: {names: [us-east-1a, us-west-2a]}, division: {strategy: Spread}}
  template:
    metadata: {annotations: {embedded.federator/run-seconds: "600"}}
    spec: {restartPolicy: Never, containers: [{name: shard, image: registry/train:1, resources: {requests: {cpu: 1}}}]}
"""


def _web(namespace: str, replicas: int, *, cpu: str, pod: str = "", placement: str = "") -> str:
    return WEB.format(namespace=namespace, replicas=replicas, cpu=cpu, pod=pod, placement=placement)


def _apply(*objs: str) -> str:
    return f"kubectl apply -f - <<'EOF'\n{'---'.join(objs)}\nEOF\n"


THREE = (
    "placement: {clusters: {names: [us-east-1a, us-west-2a, eu-west-1a]}, division: {strategy: "
    "Duplicate}}"
)
LIES = '{"status":{"completedIndexes":"30-59"}}'
PIN = "kubectl get psvc pin-service -n core -o json"
AROUND = {
    "README.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete ns hello",
    ),
    "docs/tour.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/operating/standard.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/operating/plan.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/using/validate.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/using/workflows.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/using/place.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/using/headroom.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/operating/policy-tests.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/;"
        " cp -r config/examples/policy-tests policy-tests"
    ),
    "docs/operating/pod-security.md": Around("kubectl create ns shop; kubectl create ns agents"),
    "docs/operating/policies.md": Around(
        _apply(_web("growth", 4, cpu="900m", placement=THREE)),
        """kubectl patch cpp us-only --type merge -p '{"spec":{"onPolicyChange":null,"clusters":{"selector":"""
        """{"matchExpressions":[{"key":"region","operator":"In","values":["us-east-1","us-west-2"]}]}}}}'""",
    ),
    "docs/operating/quotas.md": Around(
        _apply(SHOP_QUOTA) + _apply(_web("shop", 12, cpu="900m")),
        (
            "kubectl delete psvc/web -n shop; kubectl delete fq shop; federator wait psvc/web -n "
            "shop --for=deleted"
        ),
    ),
    "docs/operating/untrustworthy.md": Around(
        _apply(TRAIN)
        + "federator wait pjs/train -n ads --for=placed\n"
        + "until kubectl --context us-east-1a get pjs train -n ads; do sleep 0.2; done\n"
        + (
            "kubectl --context us-east-1a patch pjs train -n ads --subresource=status "
            f"--type=merge -p '{LIES}'"
        ),
        "kubectl delete pjs train -n ads; federator cluster trust us-east-1a",
    ),
    "docs/using/autoscaling.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete psvc typeahead -n suggest; federator wait psvc/typeahead -n suggest "
        "--for=deleted; kubectl delete fq suggest",
    ),
    "docs/using/doors.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete psvc boards -n boards; federator wait psvc/boards -n boards --for=deleted;"
        " kubectl delete fq boards",
    ),
    "docs/using/daemons.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete pdm node-agent -n infra; federator wait pdm/node-agent -n infra "
        "--for=deleted;"
        " kubectl delete fq infra",
    ),
    "docs/using/borrowing.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete psvc render -n clips; federator wait psvc/render -n clips --for=deleted;"
        " kubectl delete fq clips search studio;"
        " kubectl delete ns clips search --wait=false",
    ),
    "docs/using/training.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete ptj ranker -n ml; federator wait ptj/ranker -n ml --for=deleted;"
        " kubectl delete fq ml",
    ),
    "docs/using/statefulsets.md": Around(
        f"mkdir -p config; cp -r {ROOT}/config/examples config/",
        "kubectl delete psts kv -n storage; federator wait psts/kv -n storage --for=deleted;"
        " kubectl delete fq storage",
    ),
    "docs/using/submit.md": Around(
        after="kubectl delete psvc ranker -n ads; federator wait psvc/ranker -n ads --for=deleted",
    ),
    "docs/using/first-service.md": Around(f"mkdir -p config; cp -r {ROOT}/config/examples config/"),
    "docs/using/explain.md": Around(after="kubectl scale -n feed psvc/homefeed --replicas=3000"),
    "docs/using/pod-security.md": Around(_apply(_web("shop", 4, cpu="1", pod="hostPID: true, "))),
    "docs/using/rollouts.md": Around(
        f"""{PIN} | kubectl apply -f -; kubectl patch psvc pin-service -n core --type merge -p """
        """'{"spec":{"updateStrategy":{"progressDeadlineSeconds":20}}}'\n"""
        f"""{PIN} | sed -E '/"(uid|resourceVersion)":/d"""
        """; s/"image": ".*"/"image": "registry.invalid\\/pin-service:2"/"""
        """; s/"annotations": \\{/&"kubernetes.io\\/change-cause": "new pinner",/' > pin-service.yaml"""
    ),
}

ANOTHER = (
    "it makes an installation of its own: tests/e2e/test_federation_commands.py, test_deployed.py"
)
PROCESSES = (
    "processes of a sandbox that serves nothing but APIs: tests/e2e/federations.py runs them so"
)
NO_KUBELET = "there is no kubelet behind an embedded server: tests/e2e/test_query_port_processes.py"
PLAYED = "it is played and compared by tests/e2e/test_simulations.py"
REFERENCES = (
    "DIR is a reader's own trace: tests/unit/cli/test_simulate.py runs reference policies on "
    "folders"
)
OWN_TRACE = "the trace is a reader's own: tests/unit/cli/test_simulate.py runs such ones on a fleet"
EMPTIES = (
    "it is about a whole cluster that other documents look at: tests/e2e/test_drains.py runs it"
)
REMOVED = (
    "ordinals of the demo's stateful set stay, so that it is refused: "
    "tests/unit/hub/test_removal_drains.py, tests/e2e/test_federation_commands.py"
)
GPUS = "what the other documents have made may hold the demo's GPUs: tests/unit/hub/test_training_jobs.py"
ROOM = "it needs the GPUs that a demo of its own has left: tests/unit/hub/test_reclaim.py makes the room"
GUARDED = "the demo has no guarded shards"
ONE_HUB = "the demo has one hub: tests/e2e/test_standby.py reads what a second one says"
MONITORED = (
    "the demo has no Prometheus operator: tests/monitoring checks rules, routes and dashboards"
)
DOCTOR = "contexts and files are a reader's own: tests/e2e/test_federation_commands.py runs both"
PROBED = (
    "what other documents have left in the cluster decides how it ends: tests/e2e/deployed_story.py"
)
STORED = "the store is a reader's own: tests/e2e/test_workflow_command.py runs it on a registry"
DEPLOYED = "the demo runs no pods: {} uses the account and what it allows"
DASHBOARD = DEPLOYED.format("tests/e2e/test_dashboard_deployed.py")
GATEWAY = DEPLOYED.format("tests/e2e/test_gateway.py")
SIGNER = DEPLOYED.format("tests/e2e/test_signer_real.py")
OF_WORKFLOWS = "oci://registry.example/ads/serving@v1"
STAGED = (
    "a script of the reader's own, over member processes in Deployments: those of a demo run in its"
    " process"
)
STAGES = "a script of the reader's own: tests/e2e/test_upgrade_stages.py runs it"
NOT_RUN = {
    f"federator workflow push workflow.yaml {OF_WORKFLOWS}": STORED,
    (
        f"federator workflow attest {OF_WORKFLOWS} --type provenance --predicate provenance.json"
        " --key build.pem"
    ): STORED,
    (
        f"federator workflow attest {OF_WORKFLOWS} --type review --predicate review.json"
        " --key review.pem"
    ): STORED,
    (
        f"federator workflow check {OF_WORKFLOWS} --policy policy.yaml -n ads --param image=1.42"
    ): STORED,
    (
        "kubectl create secret tls federator-dashboard-tls -n federator-system --cert=tls.crt"
        " --key=tls.key"
    ): DASHBOARD,
    "kubectl apply --server-side -k deploy/dashboard": DASHBOARD,
    "kubectl label namespace YOUR-INGRESS federation.pinterest.com/dashboard=allowed": DASHBOARD,
    (
        "kubectl create secret tls federator-gateway-tls -n federator-system --cert tls.crt --key"
        " tls.key"
    ): GATEWAY,
    "kubectl apply -k deploy/gateway": GATEWAY,
    "kubectl apply -f config/examples/submission/policy.yaml": GATEWAY,
    "kubectl apply -k deploy/signer": SIGNER,
    (
        "kubectl create secret generic federator-authority -n federator-system"
        " --from-file=tls.crt --from-file=tls.key --from-file=ca.crt"
    ): SIGNER,
    "kubectl exec POD -c runtime -- federator runtime check": (
        "an embedded server runs no containers: tests/e2e/test_runtime_identity.py runs it beside"
        " a sidecar"
    ),
    "kubectl apply -k deploy/monitoring": MONITORED,
    "kubectl label namespace monitoring federation.pinterest.com/metrics=allowed": MONITORED,
    "federator doctor --context host": DOCTOR,
    "federator doctor --context host -C us-east-1a -C us-west-2a=west": DOCTOR,
    "federator doctor --context host --config federator.yaml -o json": DOCTOR,
    "federator support-bundle --context host -C us-east-1a -f bundle.tar.gz": DOCTOR,
    "kubectl --context host -n federator-system port-forward deploy/federator-hub 8080 &": DOCTOR,
    "federator support-bundle --context host --metrics http://127.0.0.1:8080/metrics -f bundle.tar.gz": DOCTOR,
    "kubectl apply -f config/examples/room.yaml": ROOM,
    "federator wait psvc/asr -n speech --for=ready": ROOM,
    "kubectl apply -f config/examples/room-return.yaml": ROOM,
    "kubectl wait psvc/asr -n speech --for=condition=Reclaiming": ROOM,
    "kubectl get psvc detect -n vision -o jsonpath='{.status.conditions[?(@.type==\"Placed\")].message}'": ROOM,
    "federator wait psvc/detect -n vision --for=ready": ROOM,
    "federator explain psvc/asr -n speech": ROOM,
    "federator wait ptj/ranker -n ml --for=ready": GPUS,
    "federator get ptj -n ml": GPUS,
    "federator cluster declare-dead us-east-1a --timeout 30m": EMPTIES,
    "federator cluster declare-dead us-east-1a --undo": EMPTIES,
    "federator fence us-east-1a --timeout 30m": EMPTIES,
    "federator fence us-east-1a --undo": EMPTIES,
    "federator cluster remove us-east-1a": REMOVED,
    "federator cluster remove us-east-1a --cancel": REMOVED,
    "kubectl get lease -n federator-system": GUARDED,
    "kubectl logs POD -c federator-guard": GUARDED,
    "kubectl get lease -n federator-system federator-hub-standby-0 -o yaml": ONE_HUB,
    "federator cluster drain us-east-1a --dry-run": EMPTIES,
    "federator cluster drain us-east-1a --timeout 30m": EMPTIES,
    "federator cluster undrain us-east-1a": EMPTIES,
    "federator probe run us-east-1a --wait": PROBED,
    "cat upgrade-members.sh": STAGED,
    "cat upgrade-hubs.sh": STAGES,
    "./upgrade-hubs.sh registry.example/federator:0.2.0": STAGES,
    "cat upgrade-profile.sh": STAGES,
    "./upgrade-profile.sh candidate.yaml default.yaml feed homefeed": STAGES,
    './upgrade-members.sh registry.example/federator:0.2.0 us-west-2a "us-east-1a us-east-1b"': STAGED,
    (
        "federator probe run us-east-1a --wait && kubectl --context us-east-1b apply --server-side"
        " -k deploy/member"
    ): ANOTHER,
    "federator simulate simulations/lose-a-zone.yaml -q": PLAYED,
    "federator simulate simulations/lose-a-zone.yaml --out out --parquet": (
        "it needs the extra analysis: tests/unit/simulate/report/test_parquet.py runs it with the"
        " lines of pandas"
    ),
    (
        "federator simulate simulations/demand-growth.yaml --set "
        "'question={kind: RunsOut, cluster: east}'"
    ): PLAYED,
    "federator size $FEDERATOR_DATA/philly-11-vcs": PLAYED,
    (
        "federator simulate simulations/quota-rehearsal.yaml --set events=[] --compare "
        "simulations/quota-rehearsal.yaml --seeds 8"
    ): PLAYED,
    "federator simulate log.swf.gz": OWN_TRACE,
    "federator simulate sacct.txt --fleet nodes.csv": OWN_TRACE,
    (
        "federator simulate jobs.csv --fleet nodes.csv --set demand.trace.columns.submit=queued"
    ): OWN_TRACE,
    "federator simulate DIR --reference home-fifo -o json": REFERENCES,
    "federator simulate DIR --reference fed-home-first --capacity 1/2 -o json": REFERENCES,
    "federator plan --dump fleet.yaml --lose us-east-1a": (
        "what the other documents have made decides how it ends: tests/unit/cli/test_plan.py"
    ),
    "make demo": "it is what this test stands on",
    "make demo ARGS=--open": "a second demo: tests/e2e/test_dashboard_in_a_browser.py opens the pages",
    "federator dashboard --kubeconfig host.kubeconfig --listen 127.0.0.1:8600": (
        "tests/e2e/test_dashboard_in_a_browser.py runs it as a process"
    ),
    "kubectl create token ACCOUNT -n NAMESPACE": "the account is a reader's own",
    "make test": "it is the run that this test is part of",
    "make test-long": "the same",
    "federator crd install --context host && federator crd install --member --context m1": ANOTHER,
    (
        "federator cluster add m1 --context host -C m1 --label region=us-east-1 --label "
        "zone=us-east-1a"
    ): ANOTHER,
    "federator member --context m1 --cluster m1": ANOTHER,
    "federator hub --context host": ANOTHER,
    "federator cluster check m1 --context host -C m1": ANOTHER,
    "kubectl --context host apply --server-side -k deploy/crd": ANOTHER,
    "kubectl --context host apply --server-side -k deploy/overlays/example-host": ANOTHER,
    "kubectl --context m1 apply --server-side -k deploy/crd/member": ANOTHER,
    "kubectl --context m1 apply --server-side -k deploy/overlays/example-member": ANOTHER,
    "federator cluster add us-east-1a -C m1 --label region=us-east-1": ANOTHER,
    "federator hub --allow-loopback --kubeconfig DIR/host.kubeconfig": PROCESSES,
    "federator member --cluster us-east-1a --kubeconfig DIR/us-east-1a.kubeconfig": PROCESSES,
    "federator pods psvc/web -n feed": (
        "a cluster has to be away: tests/e2e/test_lost_server.py compares it"
    ),
    "federator exec us-east-1a/homefeed-vmsjnlbnb6-22kfz -n feed -it -- sh": NO_KUBELET,
    "federator exec psvc/homefeed -C us-east-1a -n feed -- env": NO_KUBELET,
    "federator port-forward us-east-1a/homefeed-vmsjnlbnb6-22kfz -n feed 8080:80": NO_KUBELET,
}
FOLLOWED = {"federator get psvc -A -w"}
"""Goes on until somebody ends it."""
CODES = {
    "federator cluster conform us-east-1a --dry-run": 1,
    "federator cluster conform us-east-1a --wait 10": 1,
    "federator drill": 1,
    "federator cluster check us-east-1a -C us-east-1a --strict": 1,
    "federator plan --dump config/examples/plan/fleet -f config/examples/plan/edits/one-region.yaml": 11,
    "federator plan --dump config/examples/plan/fleet --lose region=us-east-1": 11,
    "federator place -f config/examples/place": 3,
    "federator place -f config/examples/place -o yaml": 3,
}
"""Commands that are shown because they fail, or warn, and how they end. Others say so by `echo $?`
after them.
"""
CODE = "echo $?"


def inline() -> Iterator[Shown]:
    """`federator ...` inside sentences."""
    for path in documents():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in re.findall(r"`(federator [a-z][^`]*)`", line):
                yield Shown(f"{path.relative_to(ROOT)}:{number}", found)


def federator_parts(command: str) -> Iterator[list[str]]:
    """The arguments of each call of federator in a line of a shell."""
    for part in re.split(r"&&|\|\||[|;]", command):
        words = shlex.split(part)
        if words[:1] == ["federator"]:
            yield words[1:]


def unknown(words: list[str]) -> str:
    """What of a call the command line does not know; "" for nothing. A command without arguments is
    a mention.
    """
    command: click.Command = cli
    options: set[str] = {"--help", "-h"}
    for index, word in enumerate(words):
        if isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"there is no command {word!r}"
            command = found
            options |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        elif word == "--":
            break
        elif word.startswith("-") and word != "-" and word.split("=")[0] not in options:
            short = word[:2] in options and not word.startswith("--")
            if not short:
                return f"{' '.join(words[:index])} has no option {word.split('=')[0]}"
    return ""


def test_there_are_commands_to_read() -> None:
    assert len(list(shown())) > 30
    assert len([one for one in shown() if one.prints]) > 20
    assert len(list(inline())) > 50


@pytest.mark.parametrize(
    "one", list(dict.fromkeys(itertools.chain(shown(), inline()))), ids=lambda one: one.where
)
def test_commands_and_options_that_are_shown_exist(one: Shown) -> None:
    for words in federator_parts(one.text):
        assert unknown(words) == "", one


def test_every_command_that_is_not_run_is_still_shown() -> None:
    texts = {one.text for one in shown()}
    listed = {*NOT_RUN, *FOLLOWED, *CODES}
    assert [text for text in listed if text not in texts] == []
    assert [path for path in AROUND if not (ROOT / path).is_file()] == []


@functools.cache
def _path() -> str:
    program = build.kubectl()
    assert program is not None
    return os.pathsep.join(
        [
            str(starting.server().program()),
            str(Path(sys.executable).parent),
            str(program.parent),
            os.environ.get("PATH", ""),
        ]
    )


def _run(command: str, home: Path, limit_s: float) -> tuple[int | None, str]:
    """Exit code and all that was printed; None for a command that has not ended."""
    environment = {
        "PATH": _path(),
        "HOME": str(home),
        "KUBECONFIG": str(home / "federator-demo.kubeconfig"),
        "BASH_ENV": str(home / "federator-demo.env"),  # each command has a shell of its own
    }
    with (home / "printed").open("w+") as output:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=home,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return code, output.read()


def _complaint(one: Shown, home: Path, wanted: int | None) -> str:
    """Runs a command as it is shown; what is not as it should be, or "". One that only reads is
    asked until it is.
    """
    command = one.text
    for name, meant in FILLED.items():
        command = command.replace(name, meant)
    begun = time.monotonic()
    again = (
        command.startswith(READS)
        and not re.search(r"&&|[|;>]", command)
        and one.text not in FOLLOWED
    )
    while True:
        code, output = _run(command, home, FOLLOWED_S if one.text in FOLLOWED else COMMAND_S)
        wrong = "" if code == wanted else f"ended with {code}, not {wanted}\n{output[-1500:]}"
        if not wrong and one.prints is not None:
            wrong = printed.difference(one.prints, output)
        if not wrong or not again or time.monotonic() > begun + SETTLED_S:
            break
        time.sleep(0.5)
    print(f"{one.where}: {command}: {code} after {time.monotonic() - begun:.1f} s")
    return f"{one.where}: {command}\n{wrong}\n" if wrong else ""


def _group(path: str) -> str:
    return next(name for name, begins in GROUPS.items() if path.startswith(begins))


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(
            name,
            marks=[
                pytest.mark.xdist_group(f"documents {name}"),
                *([] if name == "tour" else [pytest.mark.long]),
            ],
        )
        for name in GROUPS
    ],
)
@pytest.mark.timeout(600)
def test_what_is_shown_can_be_run_in_a_demo_and_prints_what_is_shown(
    tmp_path: Path, group: str
) -> None:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with family(tmp_path) as programs:
        home = programs.directory
        demo = programs.start("demo", [*FEDERATOR, "demo"])
        programs.wait_until(lambda: "Ctrl-C" in demo.log.read_text(), "The demo", STARTED_S)
        wrong: list[str] = []
        for path, commands in itertools.groupby(shown(), lambda one: one.where.partition(":")[0]):
            if _group(path) == group:
                around = AROUND.get(path, Around())
                _prepare(path, around.before, home)
                wrong += _of_document(list(commands), home)
                _prepare(path, around.after, home)
        assert not wrong, "\n".join(wrong)


def _prepare(path: str, commands: str, home: Path) -> None:
    code, output = _run(commands, home, COMMAND_S)
    assert code == 0, f"{path}: {output}"


def _of_document(commands: list[Shown], home: Path) -> Iterator[str]:
    for one, after in itertools.zip_longest(commands, commands[1:]):
        if one.text in NOT_RUN or one.text == CODE:
            continue
        wanted: int | None = CODES.get(one.text, 0)
        if after is not None and after.text == CODE and after.prints:
            wanted = int(after.prints[0])
        if complaint := _complaint(one, home, None if one.text in FOLLOWED else wanted):
            yield complaint


TABLE = (
    "NAMESPACE   NAME       DESIRED   STATUS                          AGE",
    "ads         serving    300       300/300 ready in 4 clusters     39s",
    "...",
    "feed        homefeed   3000      3000/3000 ready in 5 clusters   1m5s",
)
PRINTED = """\
NAMESPACE   NAME        DESIRED   STATUS                           AGE
ads         serving     300       300/300 ready in 4 clusters      4m39s
growth      canary      6         6/6 ready in 1 cluster           4m39s
feed        homefeed    3000      3000/3000 ready in 5 clusters    4m39s
"""


def test_lines_that_are_left_out_and_ages_make_no_difference() -> None:
    assert printed.difference(TABLE, PRINTED) == ""
    assert printed.difference(TABLE[:3], PRINTED) == ""
    assert printed.difference((), "") == ""


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ("DESIRED", "WANTED"),
        ("DESIRED   STATUS", "STATUS"),
        ("ads ", "ad "),
        ("300/300", "299/300"),
        ("3000      3000/3000", "300      3000/3000"),
        ("in 5 clusters", "in 4 clusters"),
        ("homefeed", "home"),
        ("4m39s\ngrowth", "4m39s  more\ngrowth"),
        ("4m39s\n", ""),
        ("feed        homefeed", "web         web"),
    ],
)
def test_a_document_that_says_something_else_than_is_printed_fails(now: str, then: str) -> None:
    assert now in PRINTED
    assert printed.difference(TABLE, PRINTED.replace(now, then)) != ""


def test_what_is_printed_beyond_what_is_shown_fails() -> None:
    assert printed.difference(TABLE, PRINTED + "error: something\n") != ""
    assert printed.difference(TABLE, "Warning: something\n" + PRINTED) != ""
    assert printed.difference((), "something") != ""
    assert printed.difference(TABLE, "") != ""


def test_every_word_of_what_is_shown_is_compared() -> None:
    """In each document, each word that does not stand for chance is changed, one at a time."""
    for one in shown():
        for number, line in enumerate(one.prints or ()):
            if line.strip() == printed.LEFT_OUT:
                continue
            for found in re.finditer(r"[A-Za-z]{2,}", line):
                changed = line[: found.start()] + "Changed" + line[found.end() :]
                assert one.prints is not None
                lines = [text for text in one.prints if text.strip() != printed.LEFT_OUT]
                at = number - sum(text.strip() == printed.LEFT_OUT for text in one.prints[:number])
                lines[at] = changed
                told = printed.difference(one.prints, "\n".join(lines))
                assert told or _by_chance(line, found), f"{one.where}: {line}: {found[0]}"


def _by_chance(line: str, word: re.Match[str]) -> bool:
    """Whether a word lies in what stands for chance."""
    return any(
        found.start() <= word.start() and word.end() <= found.end()
        for pattern, _ in printed.CHANCE
        for found in re.finditer(pattern, line)
    )
