"""The signer next to a real API server of Kubernetes 1.37, with exactly the rights of deploy/signer:
tokens of pods, PodCertificateRequests, and the roots as a ClusterTrustBundle. The test takes the
part of the kubelet.
"""

import base64
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.part import Projected
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.parts import Waiting
from federator.runtime.roles import Pod
from federator.signer.authorities import CertificateContent
from federator.signer.openbao import OpenBaoAuthority, connected
from federator.signer.options import SignerOptions
from tests.controlplane import audit, build
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed
from tests.openbao import server
from tests.openbao.server import OpenBao
from tests.running.ports import free_port
from tests.unit.deploy import manifests
from tests.unit.signer import cas

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("signer on a real server"),
]

SIGNER = "pinterest.com/identity"
ACCOUNT = "system:serviceaccount:federator-system:federator-signer"
DOMAIN = "test.example"
WEB = SpiffeId(DOMAIN, "ads", "web")
REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/ads/podcertificaterequests"
BUNDLE = "/apis/certificates.k8s.io/v1/clustertrustbundles/pinterest.com:identity:roots"
WAIT_S = 120.0


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.1)
    return found


@dataclass
class Member:
    """A real member with the signer."""

    cluster: Cluster
    home: Path
    root: cas.Ca
    pod_uid: str
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Starts the signer, and waits until it listens."""
        command = [sys.executable, "-m", "federator", "signer"]
        command += [f"--kubeconfig={self.home / 'kubeconfig'}"]
        command += [f"--listen=127.0.0.1:{self.port}", "--dns=localhost"]
        with (self.home / "signer.log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "FEDERATOR_SIGNER__TRUST_DOMAIN": DOMAIN,
                    "FEDERATOR_SIGNER__AUTHORITY_DIRECTORY": str(self.home / "authority"),
                    "FEDERATOR_SERVE__ENABLED": "false",
                },
            )
        until(lambda: _listens(self.port), "the signer listens")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)

    def asked(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        status, answer = self.cluster.ask(path, method, body)
        assert status < 300, answer
        return dict(answer)

    def ask_for(self, name: str, csr: bytes, **spec: Any) -> None:
        """Creates a request as a kubelet does."""
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "PodCertificateRequest",
            "metadata": {"name": name},
            "spec": {
                "signerName": SIGNER,
                "podName": "web-0",
                "podUID": self.pod_uid,
                "serviceAccountName": "web",
                "serviceAccountUID": "4ad1e2a6-6d7c-4a52-b6ac-000000000001",
                "nodeName": "node-1",
                "nodeUID": "4ad1e2a6-6d7c-4a52-b6ac-000000000002",
                "stubPKCS10Request": base64.b64encode(csr).decode(),
                **spec,
            },
        }
        self.asked("POST", REQUESTS, body)

    def request(self, name: str, csr: bytes, **spec: Any) -> dict[str, Any]:
        """The status of a request, once the signer has answered it."""
        self.ask_for(name, csr, **spec)

        def answered() -> dict[str, Any] | None:
            found = self.asked("GET", f"{REQUESTS}/{name}")
            return found if (found.get("status") or {}).get("conditions") else None

        return dict(until(answered, f"an answer to {name}: {self.log()[-2000:]}")["status"])

    def log(self) -> str:
        return (self.home / "signer.log").read_text()


@pytest.fixture(scope="module")
def member(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Member]:
    if build.chosen() != build.KUBERNETES:
        pytest.skip("PodCertificateRequest v1 is served from Kubernetes 1.37 on")
    plane: ControlPlane = request.getfixturevalue("control_plane")
    cluster = plane.cluster("signer", audited=True)
    home = tmp_path_factory.mktemp("signer-real")
    for command in (
        ("create", "namespace", "federator-system"),
        ("apply", "-f", str(manifests.DEPLOY / "signer" / "account.yaml")),
        ("create", "namespace", "ads"),
        ("label", "namespace", "ads", "pinterest.com/project=homefeed"),
        ("create", "serviceaccount", "web", "-n", "ads"),
    ):
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    root = cas.authority("root", time.time())
    cas.lay_out(home / "authority", cas.authority("signing", time.time(), above=root), root)
    made = Member(cluster, home, root, "", free_port())
    spec = {"serviceAccountName": "web", "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": spec}
    made.pod_uid = made.asked("POST", "/api/v1/namespaces/ads/pods", pod)["metadata"]["uid"]
    kubeconfig = cluster.kubeconfig_dict()
    kubeconfig["users"][0]["user"] = {"token": token(made, "federator-system", "federator-signer")}
    file = home / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(kubeconfig))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def token(member: Member, namespace: str, account: str, **spec: Any) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(member.asked("POST", path, body)["status"]["token"])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER)


def empty(key: Any) -> bytes:
    """The request of a kubelet: it has nothing but the key."""
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


async def test_a_request_of_a_kubelet_is_signed_and_its_files_are_taken(
    member: Member, tmp_path: Path
) -> None:
    key = certificates.new_key()
    status = member.request("web-0-first", empty(key))
    assert [each["type"] for each in status["conditions"]] == ["Issued"]
    bundle = member.root.pem
    facts = certificates.checked(
        status["certificateChain"].encode(), bundle, WEB, key.public_key(), time.time()
    )
    assert facts.claims == ("project=homefeed",)
    assert status["notBefore"] < status["beginRefreshAt"] < status["notAfter"]
    published = str(
        until(lambda: member.cluster.ask(BUNDLE)[1].get("spec", {}).get("trustBundle"), "the roots")
    )
    assert bundle.decode().strip() in published
    (tmp_path / "tls.crt").write_text(status["certificateChain"])
    (tmp_path / "ca.crt").write_text(published)
    await Projected(Pod(env={}), WEB, tmp_path).prepare()
    other = Projected(Pod(env={}), SpiffeId(DOMAIN, "ads", "admin"), tmp_path)
    with pytest.raises(Waiting, match="the certificate is that of"):
        await other.prepare()


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("rsa", "UnsupportedKeyType", "the key must be ECDSA P-256 (or P-384)"),
        (
            "foreign",
            "ForeignName",
            f"the request asks for SAN URI:spiffe://{DOMAIN}/ns/ads/sa/admin, and its token is that"
            f" of {WEB}",
        ),
        (
            "annotated",
            "InvalidUnverifiedUserAnnotations",
            "the signer knows no user annotations: example.com/x",
        ),
    ],
)
def test_a_request_that_is_refused_says_why(
    member: Member, name: str, reason: str, message: str
) -> None:
    spec: dict[str, Any] = {}
    if name == "rsa":
        csr = empty(rsa.generate_private_key(65537, 3072))
    elif name == "foreign":
        uri = f"spiffe://{DOMAIN}/ns/ads/sa/admin"
        csr = der(certificates.request(certificates.new_key(), uri))
    else:
        csr = empty(certificates.new_key())
        spec = {"unverifiedUserAnnotations": {"example.com/x": "y"}}
    [condition] = member.request(f"web-0-{name}", csr, **spec)["conditions"]

    assert (condition["type"], condition["reason"]) == ("Denied", reason)
    assert condition["message"] == message


def test_a_request_lasts_no_longer_than_it_may(member: Member) -> None:
    status = member.request("web-0-short", empty(certificates.new_key()), maxExpirationSeconds=3600)
    leaf = x509.load_pem_x509_certificates(status["certificateChain"].encode())[0]

    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).total_seconds() == 3600


def proved(member: Member, home: Path) -> subprocess.CompletedProcess[str]:
    """The init run of the pod, with its token."""
    home.mkdir()
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web-0"}
    shown = token(member, "ads", "web", audiences=["federator-signer"], boundObjectRef=bound)
    (home / "token").write_text(shown)
    env = {
        "FEDERATOR_IDENTITY_DIR": str(home / "identity"),
        "FEDERATOR_TRUST_DOMAIN": DOMAIN,
        "FEDERATOR_SIGNER_URL": f"https://localhost:{member.port}",
        "FEDERATOR_SIGNER_TOKEN": str(home / "token"),
        "FEDERATOR_TRUST_BUNDLE": member.root.pem.decode(),
        "POD_NAMESPACE": "ads",
        "POD_SERVICE_ACCOUNT": "web",
    }
    return subprocess.run(
        [sys.executable, "-m", "federator", "runtime", "--roles=identity", "--init"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_the_sidecar_proves_itself_with_its_token(member: Member) -> None:
    done = proved(member, member.home / "web")

    assert done.returncode == 0, done.stderr
    assert (member.home / "web" / "token").read_text() not in member.log() + done.stderr


@contextlib.asynccontextmanager
async def closing(authority: OpenBaoAuthority) -> AsyncIterator[OpenBaoAuthority]:
    try:
        yield authority
    finally:
        await authority.close()


@pytest.fixture
def openbao(member: Member) -> Iterator[OpenBao]:
    """Asks the API server of the member whose a token is."""
    grant = ("create", "clusterrolebinding", "openbao", "--clusterrole=system:auth-delegator")
    for command in (
        ("create", "serviceaccount", "openbao", "-n", "federator-system"),
        (*grant, "--serviceaccount=federator-system:openbao"),
    ):
        done = member.cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    with server.serving() as running:
        running.issues("pods", server.signer_role(DOMAIN))
        paths = ["pki/sign/pods", "pki/issuers", "pki/issuer/+/json"]
        running.allow("federator-signer", *paths, abilities=["read", "list", "update"])
        reviewer = token(member, "federator-system", "openbao")
        for role, policies in (("federator-signer", ["federator-signer"]), ("other", ["default"])):
            running.knows_accounts(
                role,
                member.cluster,
                reviewer=reviewer,
                account="federator-system/federator-signer",
                audience="openbao",
                policies=policies,
            )
        yield running


async def test_the_signer_logs_in_at_openbao_as_its_service_account(
    member: Member, openbao: OpenBao, tmp_path: Path
) -> None:
    file, now_s = tmp_path / "token", 0.0
    file.write_text(token(member, "federator-system", "federator-signer", audiences=["openbao"]))
    key = certificates.new_key()
    csr = x509.load_pem_x509_csr(certificates.request(key, str(WEB)))

    def authority(role: str) -> OpenBaoAuthority:
        options = SignerOptions(
            trust_domain=DOMAIN,
            openbao_address=openbao.address,
            openbao_ca_file=str(openbao.ca_file),
            openbao_login_role=role,
            openbao_login_token_file=str(file),
        )
        return OpenBaoAuthority(connected(options), options, lambda: now_s)

    def accessors() -> set[str]:
        listed = openbao.call("GET", "auth/token/accessors?list=true")
        return set(listed["data"]["keys"])

    async with closing(authority("federator-signer")) as allowed:
        before = accessors()
        chain = await allowed.sign(csr, CertificateContent(WEB, 3600))
        certificates.checked(chain, await allowed.bundle(), WEB, key.public_key(), time.time())
        (first,) = accessors() - before
        now_s = 401.0  # of 600
        await allowed.sign(csr, CertificateContent(WEB, 3600))
        (second,) = accessors() - before - {first}
        for accessor in (first, second):
            openbao.call("POST", "auth/token/revoke-accessor", {"accessor": accessor})
        await allowed.sign(csr, CertificateContent(WEB, 3600))
        assert accessors() - before - {first, second}
    async with closing(authority("other")) as other:
        policies = rf"{ACCOUNT} \(role other, policies default\) may not use pki/sign/pods: "
        with pytest.raises(Away, match=policies):
            await other.sign(csr, CertificateContent(WEB, 3600))
    file.write_text(token(member, "ads", "web", audiences=["openbao"]))
    async with closing(authority("federator-signer")) as foreign:
        login = r"the login of system:serviceaccount:ads:web as federator-signer at auth/kubernetes"
        with pytest.raises(Away, match=login) as refused:
            await foreign.sign(csr, CertificateContent(WEB, 3600))
    assert "not authorized" in str(refused.value)


def test_every_right_of_the_signer_is_used_and_none_is_missing(member: Member) -> None:
    """By the audit log of the API server. `sign` and `attest` are no requests, but conditions of
    two; the next test shows what their loss does."""
    assert proved(member, member.home / "rights").returncode == 0
    member.request("web-0-rights", empty(certificates.new_key()))
    old, new = (cas.authority(name, time.time()) for name in ("old", "new"))
    cas.lay_out(member.home / "authority", cas.authority("s", time.time(), above=new), old, new)
    member.stop()
    member.start()

    def renewed() -> bool:
        trusted = str(member.cluster.ask(BUNDLE)[1]["spec"]["trustBundle"])
        return new.pem.decode().strip() in trusted

    until(renewed, "the new root is published")
    member.root = new
    rows = {
        row
        for row in audit.read(audit.log_of(member.cluster.directory, "signer"))
        if row.user == ACCOUNT
    }
    found = manifests.load((manifests.DEPLOY / "signer" / "account.yaml").read_text())
    grants = manifests.grants(found, "federator-signer")
    conditions = {grant for grant in grants if grant[2] == "signers"}
    unused = {grant for grant in grants - conditions if not deployed.used(rows, grant)}

    refused = {row for row in rows if row.refused and row.name != "web-0-unsigned"}

    assert not refused
    assert not unused
    assert {grant[3] for grant in conditions} == {"sign", "attest"}


def test_without_the_right_to_sign_the_api_server_takes_no_certificate(member: Member) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/federator-signer"
    role = member.asked("GET", path)
    kept = [rule for rule in role["rules"] if "signers" not in rule.get("resources", ())]
    changed = member.asked("PUT", path, {**role, "rules": kept})
    try:
        member.ask_for("web-0-unsigned", empty(certificates.new_key()))
        refused = until(
            lambda: [line for line in member.log().splitlines() if "web-0-unsigned" in line],
            "the signer logs the refusal",
        )
    finally:
        member.asked("PUT", path, {**changed, "rules": role["rules"]})

    assert f'is not permitted to \\"sign\\" for signer \\"{SIGNER}\\"' in refused[0]
