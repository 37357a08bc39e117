"""`federator quota`: the tree of FederatedQuotas with the used, borrowed, lent and pending amounts,
and their holders. `federator queue`: the workloads that lack copies, in the order of the next
cycle.

Of the federation as it is, for those who may read all that decisions depend on (operators), or of
files.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import situations
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.advice.quotas import Account, Held, Waiter
    from federator.model.accounts import Balance

HOLDERS: Final = 10
"""So many holders are listed of all accounts together; all of an account that is named."""
INSTEAD: Final = (
    "this command reads what all workloads hold. About one workload of yours: explain KIND/NAME"
)
FILES: Final = "Files with the fleet, as for place; not the federation."


@click.command()
@click.argument("names", nargs=-1)
@click.option("-f", "--filename", "files", multiple=True, help=FILES)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.connection_options
def quota(names: tuple[str, ...], files: tuple[str, ...], output: str, **given: str) -> None:
    """Show FederatedQuotas as a tree: what each guarantees, uses, borrows and lends with all below
    it, its pending workloads and its holders. NAMES: these and all below them."""
    from federator.advice import quotas

    accounts = quotas.tree(situations.read(files, "default", given, INSTEAD))
    unknown = sorted(set(names) - {account.name for account in accounts})
    shown = _below(accounts, names)
    if shown or not unknown:
        _show(shown, output, named=bool(names))
    if unknown:
        there = ", ".join(account.name for account in accounts) or "there is none"
        common.fail(f"no FederatedQuota {', '.join(unknown)}; {there}")


def _show(shown: "Sequence[Account]", output: str, *, named: bool) -> None:
    """Prints accounts, with all holders of those that are named."""
    from federator.placement.quota.quota import amounts

    if output != "table":
        common.show(common.dump({"accounts": [_account(account) for account in shown]}, output))
        return
    if not shown:
        common.show("There is no FederatedQuota: nobody is limited.")
        return
    common.show(_tree_table(shown))
    held = [(account.name, holder) for account in shown for holder in account.holders]
    if held:
        common.show(f"\n{_holders_table(held, every=named)}")
    for account in shown:
        for tier, used in account.terminating.items():
            common.show(
                f"\n{account.name}: pods that are terminating, or that no decision gives any more,"
                f" use {amounts(used)} of tier {tier}"
            )
        for trouble in account.troubles:
            common.show(f"\n{account.name}: {trouble.reason}: {trouble.message}")


@click.command()
@click.option("--project", default="", help="Only workloads of this project.")
@click.option("-f", "--filename", "files", multiple=True, help=FILES)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.connection_options
def queue(project: str, files: tuple[str, ...], output: str, **given: str) -> None:
    """List the workloads that lack copies, in the order in which the next cycle takes them:
    position, why, since when, and when they may be expected to have them."""
    from federator.advice import quotas

    waiters = quotas.queue(situations.read(files, "default", given, INSTEAD), project)
    if output != "table":
        rows = [_waiter(at, waiter) for at, waiter in waiters]
        common.show(common.dump({"waiting": rows}, output))
        return
    if not waiters:
        common.show(f"No workload{f' of project {project}' if project else ''} lacks copies.")
        return
    headers = ["POSITION", "WORKLOAD", "PROJECT", "TIER", "PRIORITY", "LACKS", "SINCE"]
    table = [
        [
            str(at),
            _key(waiter.ask.key),
            waiter.ask.project,
            str(waiter.ask.tier),
            str(waiter.ask.priority),
            str(waiter.missing),
            waiter.since or "-",
            _expected(waiter),
            waiter.reason or "not decided yet",
        ]
        for at, waiter in waiters
    ]
    common.show(common.table([*headers, "EXPECTED", "REASON"], table))
    for _, waiter in waiters:
        if waiter.message:
            common.show(f"\n{_key(waiter.ask.key)}: {waiter.message}")


def _below(accounts: "Sequence[Account]", names: Sequence[str]) -> "list[Account]":
    """The named accounts with all below them; all when none is named."""
    shown: list[Account] = []
    within: set[str] = set()
    for account in accounts:  # each account comes before those below it
        if not names or account.name in names or account.parent in within:
            within.add(account.name)
            shown.append(account)
    return shown


def _tree_table(shown: "Sequence[Account]") -> str:
    headers = ["ACCOUNT", "TIER", "RESOURCE", "GUARANTEED", "MAX", "USED", "BORROWED", "LENT"]
    least = min(account.depth for account in shown)
    limited = {
        (tier, resource)
        for account in shown
        for tier, of in account.balances.items()
        for resource, balance in of.items()
        if balance.guaranteed is not None or balance.most is not None
    }
    rows = []
    for account in shown:
        title = f"{'  ' * (account.depth - least)}{account.name}"
        balances = [
            [str(tier), resource, *_amounts(resource, balance)]
            for tier, of in account.balances.items()
            for resource, balance in of.items()
            if (tier, resource) in limited
        ]
        for at, cells in enumerate(balances or [["-"] * 7]):
            waits = str(account.waiting) if at == 0 else ""
            rows.append([title if at == 0 else "", *cells, waits])
    return common.table([*headers, "WAITING"], rows)


def _amounts(resource: str, balance: "Balance") -> list[str]:
    from federator.model.kubernetes import quantity

    borrowed = quantity.render_amount(resource, balance.borrowed) if balance.borrowed else "-"
    if balance.lenders:
        borrowed += f" ({', '.join(name for name, _ in balance.lenders)})"
    return [
        *(
            "-" if amount is None else quantity.render_amount(resource, amount)
            for amount in (balance.guaranteed, balance.most, balance.used)
        ),
        borrowed,
        quantity.render_amount(resource, balance.lent) if balance.lent else "-",
    ]


def _holders_table(held: "Sequence[tuple[str, Held]]", *, every: bool) -> str:
    from federator.placement.quota.quota import amounts

    most = sorted(held, key=lambda pair: (-pair[1].copies, pair[1].key))
    cut = most if every else most[:HOLDERS]
    rows = [
        [name, _holder(holder), str(holder.tier), str(holder.copies), amounts(holder.usage)]
        for name, holder in cut
    ]
    table = common.table(["ACCOUNT", "HELD BY", "TIER", "COPIES", "USES"], rows)
    left = len(most) - len(cut)
    return f"{table}\nand {left} more: name an account, or -o json" if left else table


def _holder(holder: "Held") -> str:
    former = " (copies from before its edit)" if holder.former else ""
    return f"{_key(holder.key)}{former}"


def _account(account: "Account") -> dict[str, Any]:
    from federator.model.kubernetes import quantity

    def row(resource: str, balance: "Balance") -> dict[str, Any]:
        said = {
            "guaranteed": balance.guaranteed,
            "max": balance.most,
            "used": balance.used,
            "borrowed": balance.borrowed,
            "lent": balance.lent,
        }
        cells: dict[str, Any] = {
            name: quantity.render_amount(resource, amount)
            for name, amount in said.items()
            if amount is not None
        }
        cells["lenders"] = [
            {"account": name, "amount": quantity.render_amount(resource, amount)}
            for name, amount in balance.lenders
        ]
        return cells

    return {
        "name": account.name,
        "parent": account.parent,
        "tiers": {
            str(tier): {resource: row(resource, balance) for resource, balance in of.items()}
            for tier, of in account.balances.items()
        },
        "workloads": account.workloads,
        "waiting": account.waiting,
        "holders": [
            {**_parts(held.key), "tier": str(held.tier), "copies": held.copies}
            | {"project": held.project, "uses": quantity.render(held.usage)}
            | ({"former": True} if held.former else {})
            for held in account.holders
        ],
        "terminating": {
            str(tier): quantity.render(used) for tier, used in account.terminating.items()
        },
        "troubles": [{"reason": each.reason, "message": each.message} for each in account.troubles],
    }


def _waiter(at: int, waiter: "Waiter") -> dict[str, Any]:

    ask = waiter.ask
    return {
        "position": at,
        **_parts(ask.key),
        "project": ask.project,
        "tier": str(ask.tier),
        "priority": ask.priority,
        "lacks": waiter.missing,
        "since": waiter.since,
        "expected": None
        if waiter.expected is None
        else {
            "from": plaintext.moment(waiter.expected.low_s),
            "to": plaintext.moment(waiter.expected.high_s),
        },
        "reason": waiter.reason,
        "message": waiter.message,
    }


def _expected(waiter: "Waiter") -> str:
    """The interval as a cell."""
    from federator.scheduling.waiting import starts

    return "-" if waiter.expected is None else starts.text(waiter.expected)


def _parts(key: Any) -> Mapping[str, str]:
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name}


def _key(key: Any) -> str:
    from federator.kinds import registry

    return f"{registry.KINDS[key.kind].short_names[0]}/{key.name} -n {key.namespace}"
