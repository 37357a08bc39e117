"""Workflow files, keys, policies and signed statements for tests."""

import functools
import json
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from federator.api import submissionpolicy
from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import envelopes, statements
from federator.gateway.artifacts.registry import digest_of

COMMIT = "a" * 40
OTHER_COMMIT = "b" * 40
REPOSITORY = "https://git.example/ads/serving"
BUILDER = "https://ci.example/builders/workflows@v1"

WORKFLOW = b"""\
apiVersion: federation.pinterest.com/v1alpha1
kind: Workflow
metadata: {name: serving}
parameters:
- {name: replicas, type: integer, minimum: 1, maximum: 500, default: 10}
- {name: model, type: string, maxLength: 40, default: base}
objects:
- apiVersion: pinterest.com/v1beta1
  kind: PinterestService
  metadata: {name: serving}
  spec:
    project: ads
    replicas: ${parameters.replicas}
    template:
      spec:
        containers:
        - name: app
          image: registry.example/ads/app@sha256:1111111111111111111111111111111111111111111111111111111111111111
          args: ["--model=${parameters.model}"]
          resources: {requests: {cpu: 500m, memory: 1Gi}}
"""


@functools.cache
def key(kind: str = "ed25519", number: int = 0) -> tuple[bytes, str]:
    """(private key, public key) in PEM: the same for the same arguments."""
    private: Any
    if kind == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
    elif kind == "p256":
        private = ec.generate_private_key(ec.SECP256R1())
    elif kind == "p384":
        private = ec.generate_private_key(ec.SECP384R1())
    else:
        private = rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
    return (
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode(),
    )


def policy_object(*, name: str = "ads", **fields: Any) -> dict[str, Any]:
    """A SubmissionPolicy; `fields` are those of its spec."""
    spec = {
        "projects": ["ads"],
        "sources": ["oci://registry.example/ads/*"],
        "provenance": {"keys": [{"name": "ci", "publicKey": key()[1]}]},
        **fields,
    }
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "SubmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def policy(**fields: Any) -> Policy:
    return submissionpolicy.to_policy(policy_object(**fields))


OFF = {"mode": "Off"}


def provenance(digest: str = digest_of(WORKFLOW), **changes: Any) -> dict[str, Any]:
    """A statement with SLSA provenance; `changes` replace its parts."""
    said = {
        "ref": "refs/heads/main",
        "commit": COMMIT,
        "repository": REPOSITORY,
        "builder": BUILDER,
        **changes,
    }
    source = {
        "uri": f"git+{said['repository']}@{said['ref']}",
        "digest": {"gitCommit": said["commit"]},
    }
    return {
        "_type": said.get("type", statements.STATEMENT),
        "subject": [{"name": "workflow", "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": said.get("predicateType", statements.PROVENANCE),
        "predicate": {
            "buildDefinition": {
                "buildType": "https://ci.example/workflow/v1",
                "externalParameters": {"repository": said["repository"]},
                "resolvedDependencies": [source],
            },
            "runDetails": {"builder": {"id": said["builder"]}},
        },
    }


def review(**changes: Any) -> dict[str, Any]:
    """A statement with a review; `changes` replace fields of the predicate, and `subject`."""
    predicate = {
        "repository": REPOSITORY,
        "commit": COMMIT,
        "branch": "main",
        "authors": ["ana@example.com"],
        "approvals": [{"id": "ben@example.com", "at": "2026-11-30T10:00:00Z"}],
        **changes,
    }
    subject = predicate.pop("subject", {"gitCommit": predicate["commit"]})
    return {
        "_type": statements.STATEMENT,
        "subject": [{"name": "commit", "digest": subject}],
        "predicateType": predicate.pop("predicateType", statements.REVIEW),
        "predicate": predicate,
    }


def signed(
    statement: dict[str, Any],
    private_pem: bytes | None = None,
    payload_type: str = statements.PAYLOAD_TYPE,
) -> bytes:
    return envelopes.sealed(json.dumps(statement).encode(), payload_type, private_pem or key()[0])


def good(digest: str = digest_of(WORKFLOW)) -> tuple[bytes, ...]:
    """The statements that the default policy asks for."""
    return signed(provenance(digest)), signed(review())
