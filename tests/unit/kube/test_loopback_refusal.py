"""Whoever tries a sandbox is told how a hub may speak to members on its own machine; a scanner
learns no rule.
"""

from federator.kube.wire import addresses


def test_a_refused_address_names_the_flag_of_the_sandbox_and_no_rule() -> None:
    told = {addresses.refusal(text) for text in ("127.0.0.1", "::1", "169.254.169.254", "0.0.0.0")}

    assert len(told) == 1
    assert "federator hub --allow-loopback" in told.pop()
    assert addresses.refusal("127.0.0.1", allow_loopback=True) == ""
