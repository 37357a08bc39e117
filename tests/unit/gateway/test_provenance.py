"""Provenance: which signed statements count, and why others do not."""

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from federator.api.submissionpolicy import Mode, Policy, Statement
from federator.gateway.artifacts import envelopes, provenance, statements
from federator.gateway.artifacts.ports import ArtifactRefused, Reason
from federator.gateway.artifacts.registry import digest_of
from tests.artifacts import made

DIGEST = digest_of(made.WORKFLOW)
OTHER = digest_of(b"another file")


def _policy(**changes: Any) -> Policy:
    return dataclasses.replace(made.policy(), **changes)


def _refusal(signed: tuple[bytes, ...], policy: Policy | None = None) -> str:
    with pytest.raises(ArtifactRefused) as refusal:
        provenance.check(signed, DIGEST, policy or made.policy())
    assert refusal.value.reason is Reason.PROVENANCE
    return "\n".join(each.message for each in refusal.value.problems)


@pytest.mark.parametrize("kind", ["ed25519", "p256", "rsa2048"])
def test_a_signed_build_of_a_reviewed_commit_on_main_is_verified(kind: str) -> None:
    private, public = made.key(kind)
    policy = made.policy(provenance={"keys": [{"name": "ci", "publicKey": public}]})
    signed = (
        made.signed(made.provenance(), private),
        made.signed(made.review(), private),
    )

    shown = provenance.check(signed, DIGEST, policy)

    assert shown.verified
    assert (shown.commit, shown.branch, shown.builder) == (made.COMMIT, "main", made.BUILDER)
    assert (shown.keys, shown.authors) == (("ci",), ("ana@example.com",))
    assert shown.reviewers == ("ben@example.com",)


def _swapped(part: str, value: object) -> bytes:
    envelope = json.loads(made.good()[0])
    envelope[part] = value
    return json.dumps(envelope).encode()


def _with_payload(statement: dict[str, Any]) -> bytes:
    return _swapped("payload", base64.b64encode(json.dumps(statement).encode()).decode())


BUILT = made.good()[0]
REVIEWED = made.good()[1]
UNSIGNED = _swapped("signatures", [{"sig": ""}])
TWICE = BUILT.replace(b'"payloadType"', b'"payloadType": "x", "payloadType"', 1)

HOSTILE: tuple[tuple[str, Callable[[], tuple[bytes, ...]], str], ...] = (
    ("nothing", lambda: (), "no signed provenance"),
    ("no envelope", lambda: (b"hello",), "is not a DSSE envelope"),
    ("a list", lambda: (b"[]",), "is not a DSSE envelope"),
    ("no signatures", lambda: (_swapped("signatures", []),), "is not a DSSE envelope"),
    ("unsigned", lambda: (UNSIGNED,), "no key of the policy has signed it"),
    ("17 signatures", lambda: (_swapped("signatures", [{"sig": "AA"}] * 17),), "17 signatures"),
    ("no base64", lambda: (_swapped("payload", "%%"),), "the payload is not base64"),
    ("key twice in the envelope", lambda: (TWICE,), "payloadType: is given twice"),
    (
        "wrongly signed",
        lambda: (made.signed(made.provenance(), made.key("ed25519", 1)[0]), REVIEWED),
        "no signed provenance",
    ),
    (
        "another payload under the signature",
        lambda: (_with_payload(made.provenance(OTHER)), REVIEWED),
        "no signed provenance",
    ),
    (
        "swapped digest",
        lambda: (made.signed(made.provenance(OTHER)), REVIEWED),
        "is about another file",
    ),
    (
        "another predicate type",
        lambda: (made.signed(made.provenance(predicateType="https://slsa.dev/provenance/v0.2")),),
        "no signed provenance",
    ),
    (
        "payload type of another protocol",
        lambda: (made.signed(made.provenance(), payload_type="text/plain"), REVIEWED),
        "no signed provenance",
    ),
    (
        "payload type changed after signing",
        lambda: (_swapped("payloadType", "application/vnd.in-toto+json;v=1"), REVIEWED),
        "no signed provenance",
    ),
    (
        "no statement",
        lambda: (made.signed({"_type": "https://example.com/Statement/v9"}), REVIEWED),
        "no signed provenance",
    ),
    (
        "a branch of the author",
        lambda: (made.signed(made.provenance(ref="refs/heads/ana")), REVIEWED),
        "it was built from refs/heads/ana; the policy asks for branch main",
    ),
    (
        "a tag called main",
        lambda: (made.signed(made.provenance(ref="refs/tags/main")), REVIEWED),
        "it was built from refs/tags/main",
    ),
    (
        "main without its kind",
        lambda: (made.signed(made.provenance(ref="main")), REVIEWED),
        "it was built from main; the policy asks for branch main",
    ),
    ("no review", lambda: (BUILT,), "no signed review"),
    (
        "review of another commit",
        lambda: (BUILT, made.signed(made.review(commit=made.OTHER_COMMIT))),
        "no signed review",
    ),
    (
        "review whose subject is another commit",
        lambda: (BUILT, made.signed(made.review(subject={"gitCommit": made.OTHER_COMMIT}))),
        "no signed review",
    ),
    (
        "review of another repository",
        lambda: (BUILT, made.signed(made.review(repository="https://git.example/ads/copy"))),
        "no signed review",
    ),
    (
        "review on another branch",
        lambda: (BUILT, made.signed(made.review(branch="ana"))),
        "no signed review",
    ),
    (
        "nobody approved",
        lambda: (BUILT, made.signed(made.review(approvals=[]))),
        "0 of 1 approvals by persons other than its authors (ana@example.com)",
    ),
    (
        "no authors",
        lambda: (BUILT, made.signed(made.review(authors=[]))),
        "no signed review",
    ),
    (
        "a reviewer beyond ASCII",
        lambda: (BUILT, made.signed(made.review(approvals=[{"id": "\u0430na@example.com"}]))),
        "no signed review",
    ),
    (
        "a review with an unknown field",
        lambda: (BUILT, made.signed(made.review(force=True))),
        "no signed review",
    ),
    (
        "a provenance in place of the review",
        lambda: (BUILT, made.signed(made.provenance())),
        "no signed review",
    ),
)


@pytest.mark.parametrize(
    ("signed", "problem"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_what_does_not_show_a_reviewed_build_is_refused(
    signed: Callable[[], tuple[bytes, ...]], problem: str
) -> None:
    assert problem in _refusal(signed())


@pytest.mark.parametrize(
    "spelling",
    ["ana@example.com", "Ana@Example.COM", "ana+review@example.com", "ana@example.com."],
)
def test_an_author_in_another_spelling_is_no_reviewer(spelling: str) -> None:
    review = made.signed(made.review(approvals=[{"id": spelling}]))

    assert "0 of 1 approvals by persons other than its authors" in _refusal((BUILT, review))


def test_a_reviewer_in_two_spellings_counts_once_and_co_authors_count_as_authors() -> None:
    approvals = [{"id": "ben@example.com"}, {"id": "Ben+x@example.com"}, {"id": "cy@example.com"}]
    policy = _policy(reviewers=2)

    both = made.signed(made.review(approvals=approvals))
    assert provenance.check((BUILT, both), DIGEST, policy).reviewers == (
        "ben@example.com",
        "cy@example.com",
    )
    authors = ["ana@example.com", "Cy@example.com"]
    co_author = made.signed(made.review(approvals=approvals, authors=authors))
    assert "1 of 2 approvals" in _refusal((BUILT, co_author), policy)


def test_keys_twice_inside_a_signed_payload_are_refused() -> None:
    text = json.dumps(made.provenance())[:-1] + ', "subject": []}'
    envelope = envelopes.sealed(text.encode(), statements.PAYLOAD_TYPE, made.key()[0])

    assert "subject: is given twice" in _refusal((envelope,))


def test_a_key_signs_only_the_statements_that_the_policy_names() -> None:
    ci, reviews = made.key("ed25519", 2), made.key("ed25519", 3)
    keys = [
        {"name": "ci", "publicKey": ci[1], "statements": ["Provenance"]},
        {"name": "reviews", "publicKey": reviews[1], "statements": ["Review"]},
    ]
    policy = made.policy(provenance={"keys": keys})
    built = made.signed(made.provenance(), ci[0])

    shown = provenance.check((built, made.signed(made.review(), reviews[0])), DIGEST, policy)
    assert shown.keys == ("ci", "reviews")
    assert "no signed review" in _refusal((built, made.signed(made.review(), ci[0])), policy)
    forged = (made.signed(made.provenance(), reviews[0]),)
    assert "is signed by reviews, which may not sign Provenance" in _refusal(forged, policy)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"builders": frozenset({"https://other"})}, "which is not in provenance.builders"),
        ({"repositories": frozenset({"https://other"})}, "not in provenance.repositories"),
        ({"branch": "release"}, "the policy asks for branch release"),
        ({"reviewers": 2}, "1 of 2 approvals"),
    ],
)
def test_builder_repository_branch_and_reviewers_are_those_of_the_policy(
    changes: dict[str, Any], problem: str
) -> None:
    assert problem in _refusal(made.good(), _policy(**changes))


def test_repositories_with_and_without_git_at_the_end_are_the_same() -> None:
    policy = _policy(repositories=frozenset({f"{made.REPOSITORY}.git"}))

    assert provenance.check(made.good(), DIGEST, policy).verified


def test_a_bad_statement_beside_good_ones_does_no_harm() -> None:
    signed = (b"x", made.signed(made.provenance(OTHER)), *made.good(), UNSIGNED)

    assert provenance.check(signed, DIGEST, made.policy()).verified


def test_warn_admits_with_the_problems_and_off_checks_nothing() -> None:
    warned = provenance.check((BUILT,), DIGEST, _policy(mode=Mode.WARN))

    assert not warned.verified
    assert "no signed review" in warned.problems[0].message
    assert warned.commit == made.COMMIT
    off = provenance.check((), DIGEST, _policy(mode=Mode.OFF))
    assert (off.verified, off.problems) == (False, ())


def test_no_review_is_asked_for_where_the_policy_says_zero() -> None:
    assert provenance.check((BUILT,), DIGEST, _policy(reviewers=0)).verified


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        ("hello", "is not a public key in PEM"),
        (made.key()[0].decode(), "is not a public key in PEM"),
        (made.key("rsa1024")[1], "is an RSA key of 1024 bits; at least 2048 are safe"),
        (made.key("p384")[1], "is of a kind that is not accepted"),
    ],
    ids=["no PEM", "private key", "short RSA key", "another curve"],
)
def test_keys_that_cannot_be_used_are_named_with_their_path(pem: str, problem: str) -> None:
    policy = made.policy(provenance={"keys": [{"name": "ci", "publicKey": pem}]})

    with pytest.raises(ArtifactRefused) as refusal:
        provenance.check(made.good(), DIGEST, policy)

    assert refusal.value.reason is Reason.POLICY_INVALID
    assert refusal.value.problems[0].path == "policy.spec.provenance.keys[0].publicKey"
    assert problem in refusal.value.problems[0].message


def test_one_key_under_two_names_is_refused() -> None:
    twice = [{"name": name, "publicKey": made.key()[1]} for name in ("a", "b")]

    with pytest.raises(ArtifactRefused, match="is the key a again"):
        provenance.check(made.good(), DIGEST, made.policy(provenance={"keys": twice}))


def test_of_several_git_dependencies_the_one_in_the_external_parameters_is_the_source() -> None:
    statement = made.provenance()
    definition = statement["predicate"]["buildDefinition"]
    tool = {
        "uri": "git+https://git.example/tools@refs/heads/dev",
        "digest": {"gitCommit": "c" * 40},
    }
    definition["resolvedDependencies"].insert(0, tool)

    signed = (made.signed(statement), REVIEWED)
    assert provenance.check(signed, DIGEST, made.policy()).commit == made.COMMIT
    definition["externalParameters"] = {}
    assert "cannot be read" in _refusal((made.signed(statement), REVIEWED))


def test_a_policy_without_a_readable_mode_enforces() -> None:
    policy = made.policy(provenance={"mode": "warn"})

    assert policy.mode is Mode.ENFORCE
    assert policy.keys == ()
    assert "no signed provenance" in _refusal(made.good(), policy)


def test_keys_may_sign_both_statements_when_the_policy_names_none() -> None:
    assert made.policy().keys[0].statements == frozenset(Statement)


def test_the_vector_of_the_dsse_protocol_verifies() -> None:
    """protocol.md of secure-systems-lab/dsse, "Test Vectors": ECDSA P-256, r and s as raw bytes."""
    numbers = ec.EllipticCurvePublicNumbers(
        46950820868899156662930047687818585632848591499744589407958293238635476079160,
        5640078356564379163099075877009565129882514886557779369047442380624545832820,
        ec.SECP256R1(),
    )
    pem = numbers.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    envelope = {
        "payload": "aGVsbG8gd29ybGQ=",
        "payloadType": "http://example.com/HelloWorld",
        "signatures": [
            {
                "sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAri"
                "EGAHTVeCUjW2JIZA=="
            }
        ],
    }
    key = envelopes.public_key("vector", pem.decode())

    opened = envelopes.opened(json.dumps(envelope).encode(), [key])

    assert (opened.payload, opened.keys) == (b"hello world", ("vector",))
    for part, value in (("payload", "aGVsbG8gd29ybGQh"), ("payloadType", "http://example.com/")):
        with pytest.raises(ValueError, match="no key of the policy has signed it"):
            envelopes.opened(json.dumps({**envelope, part: value}).encode(), [key])


def test_both_alphabets_of_base64_are_read() -> None:
    found = json.loads(made.signed(made.review()))
    for entry, name in ((found, "payload"), (found["signatures"][0], "sig")):
        entry[name] = entry[name].replace("+", "-").replace("/", "_")

    key = envelopes.public_key("ci", made.key()[1])
    assert envelopes.opened(json.dumps(found).encode(), [key]).keys == ("ci",)
