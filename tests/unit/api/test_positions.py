"""Lines of fields in manifests."""

import pytest

from federator.api.positions import Lines

TEXT = """\
# a comment
apiVersion: v1
kind: List
items:
- kind: A
  metadata:
    labels: {app.kubernetes.io/name: x, "b[0]": y}
- kind: B
  spec:
    containers:
    - name: app
      image: i
    - name: log
---
kind: C
spec:
  replicas: many
"""


@pytest.mark.parametrize(
    ("at", "path", "line"),
    [
        (1, "kind", 5),
        (1, "metadata.labels.app.kubernetes.io/name", 7),
        (2, "spec.containers[0].image", 12),
        (2, "spec.containers[1].name", 13),
        (2, "spec.containers[1].image", 13),
        (2, "spec.containers[7].image", 10),
        (2, "spec.nothing.here", 9),
        (3, "spec.replicas", 17),
        (3, "", 15),
        (4, "spec", 0),
    ],
)
def test_the_line_of_a_field_or_of_what_should_have_it(at: int, path: str, line: int) -> None:
    assert Lines(TEXT).of(at, path) == line


@pytest.mark.parametrize("text", ["", "a: [", "- - -", "null", "a: &x [*x]", "{}: {}", '{"a": 1}'])
def test_texts_without_such_an_object_have_no_line(text: str) -> None:
    assert Lines(text).of(2, "spec.a[0].b") == 0


def test_json_has_lines_too() -> None:
    assert Lines('{"kind": "A",\n "spec":\n {"replicas": 1}}').of(1, "spec.replicas") == 3
