"""The tests keep their budget of processor time, as `tests/running/costs.json` records it."""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.running import costs
from tests.running.costs import Costs

BUDGET_S = {"test": 1_400.0, "test-long": 1_750.0}
"""Processor seconds of each target on the reference machine (`tests/bench/calibrate.py`): what two
cores do in 13.5 and in 15 minutes, the set-up and the starts of test processes included."""
FOLDERS_S: Final = {
    "tests/e2e": {"test": 480.0, "test-long": 420.0},
    "tests/hostile": {"test": 120.0, "test-long": 10.0},
    "tests/simulation": {"test": 130.0, "test-long": 900.0},
    "tests/unit/hub": {"test": 350.0, "test-long": 200.0},
    "tests/unit/placement": {"test": 60.0, "test-long": 120.0},
    "tests/unit/simulate": {"test": 70.0, "test-long": 80.0},
}
"""Processor seconds of the folders that cost most; no other may cost more than `FOLDER_S`."""
FOLDER_S: Final = 75.0
UNRECORDED = 0.2
"""By which part of a folder's tests its record may be older; or by `UNRECORDED_MIN` tests."""
UNRECORDED_MIN = 5

WORLDS = "it plays whole federations under faults until they rest"
SEARCH = "it searches worlds until one shows the planted bug"
DEMO = "it waits for a demo of 3,900 copies, or runs all commands of a group of documents in one"
SERVERS = "it starts processes or servers of its own, or those that the tests after it share"
TWICE = "it computes everything a second time, slowly and plainly, and compares"
HOURS = "it plays hours or days of virtual time on a federation"
MANY = "it is about very many objects, or tries hundreds of examples"
SLOW: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    WORLDS: {
        "simulation/test_backlogs.py": (
            "test_shards_of_one_cluster_are_divided_over_two_others_and_who_waits_is_served",
        ),
        "simulation/test_confluence.py": (
            "test_edits_that_do_not_touch_one_another_end_alike_in_any_order",
        ),
        "simulation/test_crashes.py": (
            "test_a_crash_at_any_write_changes_neither_the_end_nor_how_much_is_made",
        ),
        "simulation/test_failovers.py": ("test_every_rule_holds_while_clusters_come_and_go",),
        "simulation/test_faults_partitions.py": (
            "test_twenty_members_that_come_back_at_once_are_listed_a_few_at_a_time",
        ),
        "simulation/test_faults_processes.py": (
            "test_ten_minutes_of_crashes_let_work_go_on_and_write_at_most_three_times_as_much",
        ),
        "simulation/test_guarded.py": (
            "test_no_shard_runs_twice_and_all_run_in_the_end",
            "test_with_a_skew_budget_that_is_too_small_a_shard_runs_twice_and_else_never",
        ),
        "simulation/test_moves.py": ("test_no_move_lowers_the_ready_count",),
        "simulation/test_reclaims.py": ("test_every_rule_holds_while_tenants_come_and_go",),
        "simulation/test_simulation.py": (
            "test_a_seed_is_one_story_in_every_process_whatever_the_order_of_its_hashes",
            "test_the_worlds_that_draw_most_for_their_cost_keep_every_rule",
            "test_what_is_right_breaks_no_rule",
            "test_whatever_fails_the_federation_keeps_its_rules_and_ends_where_it_should",
        ),
        "simulation/test_standbys.py": ("test_only_what_no_hub_hears_is_lost",),
    },
    SEARCH: {
        "simulation/test_backlogs.py": ("test_a_bug_in_what_job_sets_give_back_is_caught",),
        "simulation/test_failovers.py": ("test_a_planted_bug_breaks_its_rule",),
        "simulation/test_guarded.py": ("test_a_planted_bug_breaks_its_rule",),
        "simulation/test_reclaims.py": ("test_a_planted_bug_breaks_its_rule",),
        "simulation/test_shrink.py": (
            "test_a_bug_shrinks_to_one_workload_and_the_fault_it_needs_and_can_be_replayed",
        ),
    },
    DEMO: {
        "e2e/test_documents.py": (
            "test_what_is_shown_can_be_run_in_a_demo_and_prints_what_is_shown",
        ),
        "e2e/test_federation_ends.py": ("test_a_demo_that_settles_ends_well",),
        "e2e/test_record_demo.py": ("test_a_replay_on_another_fleet_is_found_to_differ",),
    },
    SERVERS: {
        "e2e/test_gateway.py": ("test_a_ci_job_submits_with_its_own_token_and_no_kubeconfig",),
        "e2e/test_workflow_command.py": ("test_a_file_becomes_a_version_that_the_policy_accepts",),
        "e2e/test_dashboard_in_a_browser.py": (
            "test_every_page_is_readable_and_complains_of_nothing",
        ),
        "e2e/test_deployed.py": (
            "test_a_federation_lives_on_the_rights_of_the_manifests_and_uses_all_of_them",
        ),
        "e2e/test_failures.py": (
            "test_nothing_is_lost_or_doubled_when_processes_are_killed_at_random_moments",
            "test_the_other_hub_takes_over_from_a_killed_leader_within_lease_and_retry",
        ),
        "e2e/test_federation_commands.py": ("test_a_member_leaves_and_joins_again",),
        "e2e/test_federation_story.py": (
            "test_a_plain_deployment_is_carried_and_natives_in_members_are_like_any",
            "test_changes_of_every_kind_reach_the_members",
            "test_workloads_of_all_kinds_live_from_their_creation_to_their_end",
        ),
        "e2e/test_lost_server.py": (
            "test_a_hung_server_is_given_up_and_cleaned_when_it_joins_again_and_a_dead_one_given_up",
        ),
        "e2e/test_numbers.py": (
            "test_a_decision_that_was_never_issued_is_written_anew",
            "test_a_raised_number_in_a_member_stays_in_that_member",
        ),
        "e2e/test_own_shortage.py": (
            "test_a_hub_short_of_descriptors_says_so_calls_nobody_unreachable_and_recovers",
        ),
        "e2e/test_standby.py": (
            "test_what_only_the_leader_cannot_reach_keeps_its_work_until_the_standby_cannot_either",
        ),
    },
    TWICE: {
        "e2e/test_simulations.py": ("test_a_command_prints_what_is_shown",),
        "e2e/test_sweep.py": ("test_a_killed_sweep_goes_on_and_ends_with_the_same_result",),
        "simulation/test_same_engine.py": (
            "test_any_trace_is_decided_on_alike_by_the_hub_and_the_simulator",
        ),
        "unit/simulate/test_recount.py": (
            "test_every_figure_agrees_with_a_count_of_its_own",
            "test_moves_heat_and_scarcity_over_time_agree_with_a_count_of_their_own",
            "test_tables_and_files_say_the_same_as_the_count",
            "test_the_verdict_says_the_figures",
        ),
    },
    HOURS: {
        "unit/hub/test_failover.py": (
            "test_a_cluster_that_comes_back_loses_nothing_that_is_decided_there_and_its_work_comes_home",
        ),
        "unit/hub/test_maintaining.py": (
            "test_a_window_that_asks_for_it_empties_the_cluster_and_fills_it_again",
        ),
        "unit/hub/test_recurring.py": (
            "test_a_hub_that_was_away_makes_the_newest_run_and_tells_of_the_others",
        ),
        "unit/hub/test_renewing.py": (
            "test_a_token_is_renewed_every_day_and_no_watch_is_dropped_for_it",
        ),
        "unit/hub/test_two_leaders.py": (
            "test_no_lease_is_over_while_a_guard_keeps_to_what_any_leader_promised",
        ),
    },
    MANY: {
        "house/test_house_documents.py": ("test_the_committed_crds_are_the_generated_ones",),
        "unit/advice/test_fixes.py": ("test_each_fix_applied_places_at_least_what_it_promises",),
        "unit/hub/test_slice_rows.py": (
            "test_an_honest_job_set_in_thousands_of_pieces_leaves_nothing_in_memory_but_its_row",
        ),
        "unit/scheduling/test_domain_edits.py": (
            "test_for_any_edits_no_account_uses_more_in_a_part_than_it_may_and_what_runs_stays",
        ),
    },
}
"""Why tests above `costs.SLOW_S`, with real servers above `costs.SLOW_REAL_S`, are not cheaper:
reason -> file -> tests."""


@pytest.fixture(scope="module")
def recorded() -> Costs:
    return costs.read()


@pytest.mark.parametrize("target", costs.TARGETS)
def test_the_targets_keep_their_budgets(recorded: Costs, target: str) -> None:
    assert 0 < recorded.of(target) <= BUDGET_S[target]


@pytest.mark.parametrize("target", costs.TARGETS)
def test_each_folder_keeps_its_budget(recorded: Costs, target: str) -> None:
    over = {
        folder: row[target]
        for folder, row in recorded.folders.items()
        if row.get(target, 0.0) > FOLDERS_S.get(folder, {}).get(target, FOLDER_S)
    }
    assert not over, "above its budget: make it cheaper, or raise the budget and say why"


def test_the_readme_shows_the_record(recorded: Costs) -> None:
    readme = costs.README.read_text(encoding="utf-8")
    assert readme == costs.with_table(readme, recorded), "run `python -m tests.running.costs`"


def test_the_record_is_of_the_tests_as_they_are(recorded: Costs) -> None:
    """`python -m tests.running.costs` after `make test` and `make test-long` renews the record."""
    now = costs.functions()
    then = {name: int(row["functions"]) for name, row in recorded.folders.items()}
    old = {
        name: (then.get(name, 0), count)
        for name, count in now.items()
        if abs(count - then.get(name, 0)) > max(UNRECORDED_MIN, UNRECORDED * count)
    }

    assert not old, "folders with their tests in the record and now"


def test_each_slow_test_has_a_reason(recorded: Costs) -> None:
    slow = {test for test, multiple in recorded.slow.items() if multiple > 1}

    assert slow - with_reasons() == set()


def test_each_reason_is_of_a_test_near_its_limit(recorded: Costs) -> None:
    assert with_reasons() - set(recorded.slow) == set()


def with_reasons() -> set[str]:
    return {
        f"tests/{file}::{test}"
        for files in SLOW.values()
        for file, tests in files.items()
        for test in tests
    }
