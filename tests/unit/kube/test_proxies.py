"""Which proxy a person's command uses: the rules of golang.org/x/net/http/httpproxy, which kubectl
goes by."""

import pytest

from federator.kube.login.kubeconfig import NotConfigured
from federator.kube.login.proxies import proxy_of

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://a.example.com:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://a.example.com:6443", {"https_proxy": "proxy:3128"}, PROXY),
        ("https://a.example.com:6443", {"HTTP_PROXY": PROXY}, ""),
        ("http://a.example.com", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://a.example.com", {}, ""),
    ],
)
def test_the_environment_names_the_proxy(server: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_of(server, "", environ) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "server", "passes_by"),
    [
        ("*", "https://a.example.com", True),
        ("example.com", "https://a.example.com", True),
        ("example.com", "https://example.com", True),
        (".example.com", "https://a.example.com", True),
        (".example.com", "https://example.com", False),
        ("*.example.com", "https://a.example.com", True),
        ("*.example.com", "https://example.com", False),
        ("example.com", "https://notexample.com", False),
        ("x, EXAMPLE.com ,y", "https://A.Example.Com", True),
        ("example.com:6443", "https://a.example.com:6443", True),
        ("example.com:443", "https://a.example.com", True),
        ("example.com:6443", "https://a.example.com", False),
        ("10.0.0.0/8", "https://10.1.2.3:6443", True),
        ("10.0.0.0/8", "https://11.1.2.3:6443", False),
        ("10.1.2.3", "https://10.1.2.3:6443", True),
        ("10.1.2.3:443", "https://10.1.2.3:6443", False),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("3", "https://10.1.2.3:6443", False),
        ("", "https://a.example.com", False),
        (":6443,.", "https://a.example.com:6443", False),
    ],
)
def test_no_proxy_names_what_is_reached_without(
    no_proxy: str, server: str, passes_by: bool
) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_of(server, "", environ) == ("" if passes_by else PROXY)


def test_the_proxy_of_the_kubeconfig_comes_before_the_environment() -> None:
    environ = {"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"}
    assert proxy_of("https://a.example.com", PROXY, environ) == PROXY


@pytest.mark.parametrize(
    "url", ["socks5://proxy:1080", "https://proxy:3128", "http://", "http://a:b"]
)
def test_a_proxy_that_is_not_offered_is_refused_with_the_place_that_names_it(url: str) -> None:
    with pytest.raises(NotConfigured, match="proxy-url of the kubeconfig: "):
        proxy_of("https://a.example.com", url, {})
    with pytest.raises(NotConfigured, match="HTTPS_PROXY of the environment: "):
        proxy_of("https://a.example.com", "", {"HTTPS_PROXY": url})
