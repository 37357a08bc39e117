"""Addresses of artifact stores: private ones for hosts that a policy names, public ones for all."""

import pytest

from federator.kube.wire import addresses

NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "not an address",
    "",
]
LOOPBACK = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd00::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
]
PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"]


@pytest.mark.parametrize("address", [*NEVER, *LOOPBACK, *PRIVATE])
def test_a_host_that_no_policy_names_is_at_a_public_address(address: str) -> None:
    for allow_loopback in (False, True):
        guard = addresses.store_guard(named=False, allow_loopback=allow_loopback)
        assert guard(address) == addresses.STORE_UNUSABLE


@pytest.mark.parametrize("address", [*NEVER, *LOOPBACK])
def test_a_named_host_is_never_this_machine_or_a_metadata_service(address: str) -> None:
    assert addresses.store_guard(named=True)(address) == addresses.STORE_UNUSABLE


@pytest.mark.parametrize("address", [*PRIVATE, *PUBLIC])
def test_a_named_host_may_be_private(address: str) -> None:
    assert not addresses.store_guard(named=True)(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_for_all(address: str) -> None:
    assert not addresses.store_guard(named=False)(address)


@pytest.mark.parametrize("address", LOOPBACK)
def test_this_machine_is_allowed_to_the_sandbox_alone(address: str) -> None:
    assert not addresses.store_guard(named=True, allow_loopback=True)(address)
