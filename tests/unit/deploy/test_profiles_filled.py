"""The settings of config/profiles reach every profile, and what is left as it was is refused."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from federator.signer.options import SignerOptions, example_left
from tests.controlplane import build
from tests.unit.cli.files import run

TOP = Path(__file__).parents[3]
PROFILES = TOP / "config" / "profiles"
DOCKERFILE = TOP / "deploy" / "runtime" / "Dockerfile"
ROOT = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
SETTINGS = {
    "image": "registry.test/federator-runtime@sha256:" + "a" * 64,
    "trustDomain": "prod.test",
    "trustBundle": ROOT,
    "signerUrl": "https://signer.test",
    "secretsUrl": "https://bao.test",
    "zookeeper": "zk.test:2281",
}


def test_one_file_of_settings_fills_in_all_profiles_and_the_default_one(tmp_path: Path) -> None:
    program = build.kubectl()
    if program is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    shutil.copytree(PROFILES, tmp_path / "profiles")
    shutil.copy(PROFILES.parent / "runtimeprofile.yaml", tmp_path / "profiles" / "default.yaml")
    kustomization = tmp_path / "profiles" / "kustomization.yaml"
    kustomization.write_text(
        kustomization.read_text().replace("daemon.yaml]", "daemon.yaml, default.yaml]")
    )
    file = tmp_path / "profiles" / "settings.yaml"
    settings = yaml.safe_load(file.read_text())
    assert settings["data"].keys() == SETTINGS.keys()
    file.write_text(yaml.safe_dump({**settings, "data": SETTINGS}))
    call = [str(program), "kustomize", str(tmp_path / "profiles")]
    filled = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True).stdout
    (tmp_path / "filled.yaml").write_text(filled)
    profiles = list(yaml.safe_load_all(filled))
    entries = [
        entry["container"]
        for profile in profiles
        for field in ("initContainers", "sidecars")
        for entry in profile["spec"][field]
    ]
    variables = {
        (variable["name"], variable["value"])
        for container in entries
        for variable in container["env"]
        if "_URL" in variable["name"] or "TRUST_" in variable["name"] or "ZOO" in variable["name"]
    }

    assert [profile["kind"] for profile in profiles] == ["RuntimeProfile"] * 5
    assert {container["image"] for container in entries} == {SETTINGS["image"]}
    assert variables == {
        ("FEDERATOR_TRUST_DOMAIN", "prod.test"),
        ("FEDERATOR_TRUST_BUNDLE", ROOT),
        ("FEDERATOR_SIGNER_URL", "https://signer.test"),
        ("FEDERATOR_SECRETS_URL", "https://bao.test"),
        ("FEDERATOR_ZOOKEEPER", "zk.test:2281"),
    }
    done = run("validate", "-f", str(tmp_path / "filled.yaml"))
    assert done.exit_code == 0, done.stderr


def test_every_profile_names_the_image_that_is_built() -> None:
    """The small one: a pod that names no profile gets no image of the control plane either."""
    files = [PROFILES.parent / "runtimeprofile.yaml"]
    files += [PROFILES / f"{name}.yaml" for name in ("service", "batch", "training", "daemon")]
    images = {
        entry["container"]["image"]
        for file in files
        for field in ("initContainers", "sidecars")
        for entry in yaml.safe_load(file.read_text())["spec"][field]
    }
    [image] = images

    assert f"-t registry.example/{image} ." in DOCKERFILE.read_text()


def test_a_profile_with_what_the_operator_has_to_set_is_refused() -> None:
    done = run("validate", "-f", str(PROFILES / "batch.yaml"))

    assert done.exit_code == 1
    assert "FEDERATOR_TRUST_BUNDLE holds no certificate in PEM" in done.stderr
    assert "spec.sidecars[0].container.image: 'federator-runtime:0.1.0' names no" in done.stderr
    assert "FEDERATOR_TRUST_DOMAIN is the example 'federator.example'" in done.stderr


def test_the_signer_tells_of_the_trust_domain_that_it_is_shipped_with() -> None:
    shipped = yaml.safe_load((TOP / "deploy" / "signer" / "federator.yaml").read_text())["signer"]

    assert "signer.trust_domain is the example" in example_left(SignerOptions(**shipped))
    assert not example_left(SignerOptions(**{**shipped, "trust_domain": "prod.test"}))
