"""An independent check of quotas: at no instant an account, with all below it, comes to use more
than is written.

What it uses already is its own: a quota that is lowered, or a guarantee that is lent, takes nothing
away by itself. So only growth above a limit is wrong.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from federator.model.accounts import QuotaAccount
from federator.model.ask import Tier
from federator.model.resources import CPU, GPU, MEMORY, Resources
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import SimulationResult

RESOURCES: Final = (CPU, MEMORY, GPU)
MIB: Final = 1 << 20
_Use = dict[tuple[str, Tier], list[int]]
"""(project, tier) -> amounts."""


def broken(inputs: Inputs, outcome: SimulationResult) -> list[str]:
    """What exceeds a quota, each a sentence."""
    changes = [(event.at_s, event.quotas) for event in inputs.events if _is_change(event.kind)]
    if not inputs.quotas and not changes:
        return []
    steps = sorted(_steps(outcome), key=lambda step: step[0])
    use: _Use = defaultdict(lambda: [0, 0, 0])
    wrong: list[str] = []
    accounts = inputs.quotas
    for at_s, group in groupby(steps, key=lambda step: step[0]):
        while changes and changes[0][0] <= at_s:
            accounts = changes.pop(0)[1]
        before = {key: list(amounts) for key, amounts in use.items()}
        for _, key, amounts in group:
            use[key] = [one + more for one, more in zip(use[key], amounts, strict=True)]
        wrong += _exceeded(at_s, accounts, before, use)
    return wrong


def _is_change(kind: EventKind) -> bool:
    return kind is EventKind.QUOTA_CHANGED


def _steps(outcome: SimulationResult) -> Iterator[tuple[int, tuple[str, Tier], list[int]]]:
    for life in outcome.lives:
        work = life.work
        each = (work.cpu_milli or 0, (work.memory_mib or 0) * MIB, work.gpu or 0)
        for stay in life.stays:
            held = [amount * stay.copies for amount in each]
            yield stay.start_s, (work.project, work.tier), held
            if stay.end_s is not None:
                yield stay.end_s, (work.project, work.tier), [-amount for amount in held]


def _exceeded(
    at_s: int, accounts: Iterable[QuotaAccount], before: _Use, after: _Use
) -> Iterator[str]:
    by_name = {account.name: account for account in accounts}
    for account in by_name.values():
        projects = _under(account, by_name)
        for tier in Tier:
            for place, resource in enumerate(RESOURCES):
                most = limit(account, tier, resource, by_name)
                had, has = (
                    sum(use[name, tier][place] for name in projects if (name, tier) in use)
                    for use in (before, after)
                )
                if most is not None and has > max(most, had):
                    yield (
                        f"at {at_s} s {account.name} comes to {has} {resource} in {tier} of {most}"
                    )


def _under(account: QuotaAccount, by_name: Mapping[str, QuotaAccount]) -> set[str]:
    below = [one for one in by_name.values() if one.parent == account.name]
    return set(account.projects).union(*(_under(one, by_name) for one in below))


def limit(
    account: QuotaAccount, tier: Tier, resource: str, by_name: Mapping[str, QuotaAccount]
) -> int | None:
    """The most that an account and those below it may use; None without a limit. The maximum; or
    the guarantee with what may be borrowed; without a parent, or reserved, the guarantee alone.
    """
    said = account.tiers.get(tier)
    promised = _promised(account, tier, resource, by_name)
    written = [] if said is None else _of(said.maximum, said.barred, resource)
    borrows = None if said is None else said.borrowing.get(resource)
    if borrows is not None and account.parent in by_name:
        written.append((promised or 0) + borrows)
    if written:
        return min(written)
    alone = account.parent not in by_name
    own = [] if said is None else _of(said.guaranteed, said.withheld, resource)
    if alone or (tier is Tier.RESERVED and own):
        return promised
    return None


def _promised(
    account: QuotaAccount, tier: Tier, resource: str, by_name: Mapping[str, QuotaAccount]
) -> int | None:
    """Its guarantee, or those below it together."""
    said = account.tiers.get(tier)
    own = [] if said is None else _of(said.guaranteed, said.withheld, resource)
    if own:
        return own[0]
    below = (one for one in by_name.values() if one.parent == account.name)
    parts = [_promised(one, tier, resource, by_name) for one in below]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _of(written: Resources | None, zeros: frozenset[str], resource: str) -> list[int]:
    if written is not None and resource in written:
        return [written[resource]]
    return [0] if resource in zeros else []
