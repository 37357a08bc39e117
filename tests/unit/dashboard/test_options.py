"""What the commands refuse: addresses that others reach without a certificate, and options that do not
go together.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from federator.cli import main
from federator.dashboard.server import Options
from federator.kube import tlsserver
from federator.model.errors import FieldError


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_plain_http_is_served_on_loopback(host: str) -> None:
    Options(host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "dashboard.example"])
def test_other_addresses_need_a_certificate(host: str) -> None:
    with pytest.raises(FieldError, match="a certificate is needed"):
        Options(host).check()
    Options(host, cert_file="c", key_file="k").check()
    with pytest.raises(FieldError, match="a certificate and its key"):
        Options(host, cert_file="c").check()


def test_addresses_are_read() -> None:
    assert tlsserver.address("127.0.0.1:8600") == ("127.0.0.1", 8600)
    assert tlsserver.address("[::1]:0") == ("::1", 0)
    for text in ("", "8600", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":8600"):
        with pytest.raises(FieldError, match="must be HOST:PORT"):
            tlsserver.address(text)


def test_the_command_says_what_is_wrong() -> None:
    for arguments, sentence in (
        (("dashboard", "--listen", "0.0.0.0:1"), "a certificate is needed"),
        (("dashboard", "--listen", "x"), "must be HOST:PORT"),
        (("demo", "--once", "--open"), "cannot be combined with --open"),
    ):
        ran = CliRunner().invoke(main.cli, arguments)
        assert ran.exit_code == 1, arguments
        assert sentence in ran.output


def test_the_wheel_carries_the_runbooks() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert '"docs/operating" = "federator/dashboard/operating"' in project
