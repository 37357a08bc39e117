"""Names of images: their parts, and where objects name them."""

import pytest

from federator.gateway.artifacts import images

DIGEST = f"sha256:{'1' * 64}"


@pytest.mark.parametrize(
    ("text", "host", "name", "tag"),
    [
        ("nginx", "docker.io", "library/nginx", "latest"),
        ("team/app:1", "docker.io", "team/app", "1"),
        ("registry.example/app", "registry.example", "app", "latest"),
        ("registry.example:5000/a/b_c:v1.2", "registry.example:5000", "a/b_c", "v1.2"),
        ("localhost/app:x", "localhost", "app", "x"),
        (f"registry.example/app:1@{DIGEST}", "registry.example", "app", "1"),
    ],
)
def test_images_are_read_as_container_runtimes_do(
    text: str, host: str, name: str, tag: str
) -> None:
    image = images.parsed(text)

    assert image is not None
    assert (image.where.host, image.where.name, image.tag) == (host, name, tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "registry.example/App",
        "registry.example/../app",
        "registry.example/app:a:b",
        "registry.example/app@sha256:1",
        "registry.example/app@md5:1",
        "user@registry.example/app",
        "0x7f.1/app",
        "registry.example/app?x",
        "registry.example/app\n",
        "registry.example/" + "a" * 600,
    ],
)
def test_texts_that_are_no_image_are_refused(text: str) -> None:
    assert images.parsed(text) is None


def test_every_template_of_an_object_is_looked_at() -> None:
    pods = {
        "initContainers": [{"image": "a"}],
        "containers": [{"image": "b"}, {"image": 3}],
        "volumes": [{"image": {"reference": "c"}}, {"emptyDir": {}}],
    }
    obj = {"spec": {"components": [{"template": {"spec": pods}}], "jobTemplate": {"spec": pods}}}

    assert [path for path, _, _ in images.named(obj)] == [
        f"spec.{place}.{field}"
        for place in ("components[0].template.spec", "jobTemplate.spec")
        for field in (
            "initContainers[0].image",
            "containers[0].image",
            "volumes[0].image.reference",
        )
    ]
