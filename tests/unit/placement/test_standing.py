"""How policies stand: workloads that follow them, unknown names and labels, and conflicts."""

from federator.model.fleet import ClusterView
from federator.model.kubernetes.selectors import LabelSelector, Operator, Requirement
from federator.model.overrides import Override
from federator.model.policy import Demand, Division, Group, Policy, SpreadRule, Weight
from federator.placement.policy import enforcing, standing
from federator.placement.policy.policies import Policies, Rule, Subject
from federator.placement.policy.standing import Standings

CLUSTERS = {
    name: ClusterView(name, {"zone": f"z-{name}", "region": "us-east-1"}) for name in ("a", "b")
}


def test_unknown_names_and_labels_are_told_with_what_was_probably_meant() -> None:
    one_of = LabelSelector(requirements=(Requirement("zone", Operator.IN, ("z-a", "z-x")),))
    not_in = LabelSelector(requirements=(Requirement("zone", Operator.NOT_IN, ("z-9",)),))
    policy = Policy(
        names=("a",),
        selector=LabelSelector(match_labels=(("region", "us-esat-1"),)),
        spread=(SpreadRule("zonne"),),
        division=Division(weights=(Weight(1, (), one_of),), groups=(Group("g", ("c",), not_in),)),
        overrides=(
            Override("p", "spec.overrides[0]", "{}", selector=LabelSelector((("gpu", "yes"),))),
        ),
    )

    assert standing.unknown(policy, CLUSTERS) == (
        "spec.division.groups[0].names names c, which no cluster is called",
        "spec.clusters.selector asks for the label region=us-esat-1, which no cluster has"
        " (did you mean us-east-1?)",
        "spec.division.weights[0].selector asks for the label zone=z-x, which no cluster has"
        " (did you mean z-b?)",
        "spec.overrides[0].clusters asks for the label gpu, which no cluster has",
        "spec.spread[0].topologyKey asks for the label zonne, which no cluster has"
        " (did you mean zone?)",
    )
    labels = [each for each in standing.unknown(policy, {}) if "label" in each]
    assert not labels, "without clusters every label is unknown"


def test_workloads_are_counted_for_the_policies_that_they_follow() -> None:
    a, b = (Rule(Policy(name=name, namespace="feed")) for name in "ab")
    named = Rule(Policy(name="n", namespace="feed"), names=frozenset({"api"}))
    required = Rule(Policy(name="r"), cluster_wide=True, demand=Demand(name="r"))
    rules = Policies((b, a, named, required))
    standings = Standings(rules)
    for name in ("web", "api", "own"):
        subject = Subject("PinterestService", "feed", {}, "feed", name=name)
        chosen = Policy(origin="inline") if name == "own" else rules.choose(subject, "")
        standings.add(name, subject, enforcing.combined(chosen, rules.demands(subject)))

    counts = {
        each: (standings.of(which).matched, standings.of(which).passed)
        for each, which in (
            ("a", a.id),
            ("b", b.id),
            ("n", named.id),
            ("r", required.id),
        )
    }
    assert counts == {"a": (1, 2), "b": (0, 3), "n": (1, 0), "r": (3, 0)}
    same = "selects web too, with the same priority 0; a is taken, because its name is the first"
    assert standings.of(a.id).conflicts == [f"PlacementPolicy feed/b {same}; set spec.priority"]
    assert standings.of(b.id).conflicts == [f"PlacementPolicy feed/a {same}; set spec.priority"]
    assert standings.of(named.id).conflicts == []
