"""Which decisions a workload has, by name."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from federator.hub.records.decisions import ByWorkload
from federator.model.names import WorkloadKey

KEYS = [WorkloadKey("PinterestService", "feed", name) for name in ("web", "api")]
steps = st.lists(
    st.tuples(st.booleans(), st.sampled_from(KEYS), st.sampled_from(["d1", "d2", "d3"])),
    max_size=20,
)


@given(steps)
def test_it_lists_what_was_added_and_not_removed(acts: list[tuple[bool, WorkloadKey, str]]) -> None:
    listed = ByWorkload()
    expected: defaultdict[WorkloadKey, set[tuple[str, str]]] = defaultdict(set)
    for adds, key, name in acts:
        if adds:
            listed.add(key, ("feed", name))
            expected[key].add(("feed", name))
        else:
            listed.remove(key, ("feed", name))
            expected[key].discard(("feed", name))
        for each in KEYS:
            assert list(listed.names(each)) == sorted(expected[each])
            assert (each in listed) == bool(expected[each])
        assert sorted(listed) == sorted(key for key in KEYS if expected[key])
