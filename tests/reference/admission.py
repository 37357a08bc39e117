"""The generated parts of the admission policies in `deploy/member`, from the table of the kinds with
pods that our accounts may write.
"""

import textwrap
from typing import Final

from federator.kinds import rights

WIDTH: Final = 118
ACCOUNT_MAY_NOT: Final = (
    ("*", "*", "*", "do everything in the cluster"),
    *(
        ("", "secrets", verb, "read the Secrets of all namespaces")
        for verb in ("get", "list", "watch")
    ),
    ("", "serviceaccounts/token", "create", "become every account of the cluster"),
    ("", "users", "impersonate", "become every user of the cluster"),
    *(
        ("rbac.authorization.k8s.io", "clusterroles", verb, "give itself every right")
        for verb in ("bind", "escalate")
    ),
)
"""(group, resource, verb, what the account may do with it): each asked without a namespace and a
name, so that wildcards of a rule count. One call of the authorizer costs a third of what an
expression may."""


def rules() -> str:
    """The resource rules of `federator-pods`."""
    listed: dict[tuple[str, str], list[str]] = {}
    for row in rights.POD_WRITERS:
        listed.setdefault((row.group, row.version), []).append(row.resource)
    return "\n".join(
        _indented(
            f"- apiGroups: [{group}]\n  apiVersions: [{version}]\n"
            f"  resources: [{', '.join(plurals)}]\n"
            "  operations: [CREATE, UPDATE]\n  scope: Namespaced"
        )
        for (group, version), plurals in listed.items()
    )


def other_pods() -> str:
    """The condition that a write makes pods that were not there."""
    return (
        "  - name: other-pods\n    expression: >-\n"
        + _folded('request.operation == "CREATE" || request.resource.resource == "trainjobs" ||')
        + "\n"
        + _folded(f"({rights.templates_of('object')}) !=\n({rights.templates_of('oldObject')})")
    )


def templates() -> str:
    """The variable `templates`."""
    return "  - name: templates\n    expression: >-\n" + _folded(rights.templates_of("object"))


def patches() -> str:
    """What a TrainJob may not say of the pods of its runtime."""
    none = " && ".join(f"!has(object.spec.{field})" for field in rights.PATCHES)
    own = 'object.spec.?runtimeRef.?kind.orValue("") == "TrainingRuntime"'
    return _validation(
        f'variables.open || request.resource.resource != "trainjobs" || ({own} && {none})',
        "The federation's TrainJobs run what their own TrainingRuntime says, and patch nothing of it"
        f" (runtimeRef.kind, {', '.join(rights.PATCHES)}).",
    )


def accounts() -> str:
    """What the service account of pods may not do, one call of the authorizer each."""
    return "\n".join(
        _validation(
            "variables.open || variables.accounts.size() == 0 || !authorizer.serviceAccount("
            f"request.namespace, variables.accounts[0]){_asked(group, resource, verb)}.allowed()",
            f"The federation runs no pods under a service account that may {what}"
            f" (serviceAccountName; it may {verb} {resource}).",
        )
        for group, resource, verb, what in ACCOUNT_MAY_NOT
    )


def _asked(group: str, resource: str, verb: str) -> str:
    plural, _, part = resource.partition("/")
    below = f'.subresource("{part}")' if part else ""
    return f'.group("{group}").resource("{plural}"){below}.check("{verb}")'


def _validation(expression: str, message: str) -> str:
    return (
        f"  - expression: >-\n{_folded(expression)}\n    message: >-\n{_folded(message)}\n"
        "    reason: Forbidden"
    )


def _folded(text: str) -> str:
    return "\n".join(
        textwrap.fill(
            line,
            width=WIDTH,
            initial_indent=" " * 6,
            subsequent_indent=" " * 6,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def _indented(text: str) -> str:
    return textwrap.indent(text, " " * 4)
