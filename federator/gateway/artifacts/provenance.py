"""Whether signed statements show what a SubmissionPolicy asks for: this very file was built by an
accepted builder from a commit on the branch, and others than its authors approved that commit.

The chain is: digest of the artifact -> provenance -> commit -> review. Each link is signed by a key
that may sign it. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from federator.api import submissionpolicy
from federator.api.submissionpolicy import Mode, Policy
from federator.gateway.artifacts import envelopes, statements
from federator.gateway.artifacts.ports import ArtifactRefused, Problem, Provenance, Reason, refused
from federator.gateway.artifacts.statements import Built, Review, Statement

PROVENANCE = submissionpolicy.Statement.PROVENANCE
REVIEW = submissionpolicy.Statement.REVIEW


@dataclass(frozen=True, slots=True)
class _Found:
    """A statement that a key signed which may."""

    statement: Statement
    keys: tuple[str, ...]


def check(signed: Sequence[bytes], digest: str, policy: Policy) -> Provenance:
    """What the envelopes show of the artifact with this digest. Raises ArtifactRefused under
    Enforce when that is not all that the policy asks for, and for a key of the policy that cannot
    be used."""
    if policy.mode is Mode.OFF:
        return Provenance(policy.mode, verified=False)
    keys = _keys(policy)
    counted, rejected = _opened(signed, keys, policy)
    outcome = _outcome(counted, digest, policy)
    if outcome.problems and rejected and not counted:
        # Why nothing counts is more useful than that nothing is there.
        outcome = replace(outcome, problems=(*outcome.problems, *rejected))
    if outcome.problems and policy.mode is Mode.ENFORCE:
        raise ArtifactRefused(*outcome.problems)
    return replace(outcome, verified=not outcome.problems)


def _keys(policy: Policy) -> list[envelopes.Key]:
    keys: dict[str, envelopes.Key] = {}
    for index, trusted in enumerate(policy.keys):
        path = f"policy.spec.provenance.keys[{index}].publicKey"
        try:
            key = envelopes.public_key(trusted.name, trusted.pem)
        except ValueError as bad:
            raise refused(Reason.POLICY_INVALID, path, str(bad)) from None
        if key.key.keyid in keys:
            message = f"is the key {keys[key.key.keyid].name} again"
            raise refused(Reason.POLICY_INVALID, path, message)
        keys[key.key.keyid] = key
    return list(keys.values())


def _opened(
    signed: Sequence[bytes], keys: Sequence[envelopes.Key], policy: Policy
) -> tuple[list[_Found], list[Problem]]:
    """The statements with a signature that counts, and the problems of the others."""
    may = {key.name: key.statements for key in policy.keys}
    counted, rejected = [], []
    for index, envelope in enumerate(signed):
        try:
            opened = envelopes.opened(envelope, keys)
            if opened.payload_type != statements.PAYLOAD_TYPE:
                raise ValueError(f"has the payload type {opened.payload_type[:80]!r}")
            statement = statements.statement(opened.payload)
            kind = _KINDS.get(statement.predicate_type)
            if kind is None:
                continue  # a statement of another kind: not for us
            able = tuple(name for name in opened.keys if kind in may[name])
            if not able:
                named = ", ".join(opened.keys)
                raise ValueError(f"is signed by {named}, which may not sign {kind.value}")
            counted.append(_Found(statement, able))
        except ValueError as bad:
            rejected.append(_problem(f"statement {index + 1} beside the version {bad}"))
    return counted, rejected


_KINDS = {statements.PROVENANCE: PROVENANCE, statements.REVIEW: REVIEW}


def _problem(message: str) -> Problem:
    return Problem(Reason.PROVENANCE, "artifact", message)


def _outcome(counted: Sequence[_Found], digest: str, policy: Policy) -> Provenance:
    """What the best chain shows: the first without problems, else that with the fewest."""
    outcomes = [
        _chain(built, each, counted, digest, policy)
        for each in counted
        if (built := _built(each, digest)) is not None
    ]
    if outcomes:
        return min(outcomes, key=lambda each: len(each.problems))
    message = f"no signed provenance ({statements.PROVENANCE}) is about {digest}"
    of_others = [each for each in counted if each.statement.predicate_type == statements.PROVENANCE]
    if of_others:
        message += "; the signed provenance beside it is about another file, or cannot be read"
    return Provenance(policy.mode, verified=False, problems=(_problem(message),))


def _built(each: _Found, digest: str) -> Built | None:
    about = ("sha256", digest.removeprefix("sha256:")) in each.statement.digests
    if each.statement.predicate_type != statements.PROVENANCE or not about:
        return None
    try:
        return statements.built(each.statement.predicate)
    except ValueError:
        return None


def _chain(
    built: Built, by: _Found, counted: Sequence[_Found], digest: str, policy: Policy
) -> Provenance:
    problems = [_problem(message) for message in _build_problems(built, policy)]
    outcome = Provenance(
        policy.mode,
        verified=False,
        repository=built.repository,
        commit=built.commit,
        branch=statements.branch_of(built.ref),
        builder=built.builder,
        keys=by.keys,
    )
    if policy.reviewers == 0:
        return replace(outcome, problems=tuple(problems))
    reviews = [
        (each, review)
        for each in counted
        if (review := _review(each, built, digest, policy)) is not None
    ]
    best = max(reviews, key=lambda pair: len(_reviewers(pair[1])), default=None)
    if best is None:
        message = (
            f"no signed review ({statements.REVIEW}) is about commit {built.commit} of"
            f" {built.repository} on branch {policy.branch}"
        )
        return replace(outcome, problems=(*problems, _problem(message)))
    each, review = best
    approved = _reviewers(review)
    if len(approved) < policy.reviewers:
        message = (
            f"commit {built.commit} has {len(approved)} of {policy.reviewers} approvals by persons"
            f" other than its authors ({', '.join(review.authors)})"
        )
        problems.append(_problem(message))
    return replace(
        outcome,
        keys=tuple(dict.fromkeys((*by.keys, *each.keys))),
        authors=tuple(review.authors),
        reviewers=approved,
        problems=tuple(problems),
    )


def _build_problems(built: Built, policy: Policy) -> Iterator[str]:
    if built.ref != f"refs/heads/{policy.branch}":
        shown = built.ref or "no branch"
        yield f"it was built from {shown[:120]}; the policy asks for branch {policy.branch}"
    if policy.builders and built.builder not in policy.builders:
        yield f"it was built by {built.builder[:200]}, which is not in provenance.builders"
    accepted = {each.removesuffix(".git") for each in policy.repositories}
    if accepted and built.repository not in accepted:
        yield f"it was built from {built.repository[:200]}, not in provenance.repositories"


def _review(each: _Found, built: Built, digest: str, policy: Policy) -> Review | None:
    """The review in a statement, if it is about this commit on this branch."""
    if each.statement.predicate_type != statements.REVIEW:
        return None
    subjects = {
        ("gitCommit", built.commit),
        ("sha1", built.commit),
        ("sha256", digest.removeprefix("sha256:")),
    }
    try:
        review = statements.review(each.statement.predicate)
    except ValueError:
        return None
    same = (
        review.commit == built.commit
        and review.repository.removesuffix(".git") == built.repository
        and statements.branch_of(review.branch) == policy.branch
    )
    return review if same and subjects & each.statement.digests else None


def _reviewers(review: Review) -> tuple[str, ...]:
    """The approving persons without the authors, each once in any spelling."""
    authors = {statements.person(each) for each in review.authors}
    approved = dict.fromkeys(statements.person(each.id) for each in review.approvals)
    return tuple(each for each in approved if each not in authors)
