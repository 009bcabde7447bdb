"""Every field of the specs of an EfritPool and an EfritClaim: which tests show what it does, and a change of it.

What is below the template's spec is that of an EfritInstance, which a member gets as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.integration.controller.fields.rig import merged
from tests.support.kube import Json
from tests.support.manifest_schema import VALUE
from tests.support.site import EPHEMERAL

Tests = tuple[str, ...]

UNIT = "../../../unit/controller"
POOLS = "../test_pools.py::test_{}".format
HISTORY = "../test_pool_history.py::test_{}".format
CLAIMS = "../test_claims.py::test_{}".format
DECIDED = f"{UNIT}/decide/test_pools.py::test_{{}}".format
SCALING = f"{UNIT}/decide/test_pool_scaling.py::test_{{}}".format
ROLLOUT = f"{UNIT}/decide/test_pools_rollout.py::test_{{}}".format
STORE = f"{UNIT}/store/test_pools.py::test_{{}}".format
PLACEMENT = f"{UNIT}/decide/test_placement.py::test_{{}}".format

SCALED = (
    SCALING("as_many_members_as_open_requests_need"),
    POOLS("an_autoscaled_pool_wakes_from_zero_grows_with_the_work_and_sleeps_again"),
)
SHRINKS = (SCALING("the_pool_shrinks_once_it_has_needed_less_for_as_long_as_it_is_to_wait"),)
GROWS = (SCALING("members_are_added_no_faster_than_they_may_be"),)
SHARED = (
    STORE("flows_follow_the_label_that_the_pool_names_whenever_it_is_named"),
    POOLS("one_flow_with_many_requests_does_not_keep_another_waiting_and_no_more_wait_than_may"),
)
WEIGHED = (STORE("flows_share_by_the_weights_of_the_spec_and_have_no_more_than_it_allows"),)
AFFINITY = (STORE("a_request_may_leave_its_session_only_while_the_member_that_has_it_is_away"),)
MADE = (
    DECIDED("a_member_is_created_with_the_template_the_labels_and_the_pool_as_owner"),
    POOLS("a_changed_template_replaces_members_one_after_the_other_and_loses_no_request"),
)
REPLACED = (ROLLOUT("how_many_are_made_and_which_drain"),)
DRAINED = (POOLS("a_member_that_has_drained_for_as_long_as_it_may_is_deleted_with_its_work"),)
STOPPED = (ROLLOUT("a_new_member_that_is_not_ready_in_time_stops_the_roll_out_and_says_why"),)
ROOM = (STORE("as_many_requests_are_reconciled_as_a_member_has_room_for"),)
CHOSEN = (
    PLACEMENT("a_request_of_a_pool_gets_a_member_with_room_one_that_is_awake_first"),
    STORE("the_fullest_member_goes_first_where_the_pool_packs_and_the_emptiest_where_it_spreads"),
)

POOL_FIELDS: Mapping[str, Tests] = {
    "spec.replicas": (POOLS("members_are_made_share_the_requests_and_go_when_they_are_too_many"),),
    "spec.autoscaling": SCALED,
    "spec.autoscaling.minReplicas": SCALED,
    "spec.autoscaling.maxReplicas": SCALED,
    "spec.autoscaling.targetLoadPerInstance": SCALED,
    "spec.autoscaling.scaleUp": GROWS,
    "spec.autoscaling.scaleUp.maxPerMinute": GROWS,
    "spec.autoscaling.scaleDown": SHRINKS,
    "spec.autoscaling.scaleDown.stabilizationSeconds": SHRINKS,
    "spec.warm": SCALED,
    "spec.warm.spares": SCALED,
    "spec.template": MADE,
    "spec.template.metadata": MADE,
    "spec.template.metadata.labels": MADE,
    f"spec.template.metadata.labels{VALUE}": MADE,
    "spec.template.spec": MADE,
    "spec.placement": ROOM,
    "spec.placement.strategy": CHOSEN,
    "spec.placement.maxLoadPerInstance": ROOM,
    "spec.placement.sessionAffinity": AFFINITY,
    "spec.placement.affinityWaitSeconds": AFFINITY,
    "spec.fairness": SHARED,
    "spec.fairness.flowLabel": SHARED,
    "spec.fairness.weights": WEIGHED,
    f"spec.fairness.weights{VALUE}": WEIGHED,
    "spec.fairness.maxRunningPerFlow": WEIGHED,
    "spec.fairness.maxPendingPerFlow": SHARED,
    "spec.preemption": (
        "../test_preemption.py::test_urgent_work_interrupts_other_work_which_runs_again_and_each_is_answered_once",
        f"{UNIT}/store/test_preemptions.py::test_running_work_of_lower_priority_is_interrupted_where_the_pool_says_so",
    ),
    "spec.updateStrategy": REPLACED,
    "spec.updateStrategy.type": REPLACED,
    "spec.updateStrategy.maxSurge": REPLACED,
    "spec.updateStrategy.maxUnavailable": REPLACED,
    "spec.updateStrategy.minReadySeconds": REPLACED,
    "spec.updateStrategy.drainSeconds": DRAINED,
    "spec.updateStrategy.progressDeadlineSeconds": STOPPED,
    "spec.revisionHistoryLimit": (
        HISTORY("a_broken_template_stops_is_undone_and_no_more_former_ones_are_kept_than_may_be"),
        f"{UNIT}/decide/test_pool_history.py::test_the_oldest_former_templates_are_removed_beyond_the_limit",
    ),
    "spec.disruptionBudget": (POOLS("evictions_are_to_leave_members_alone_that_have_longer_work_or_are_claimed"),),
}

WAITS = (CLAIMS("a_claim_waits_for_its_pool_and_for_a_member_and_counts_as_load_of_one_that_scales"),)
EXPIRES = (CLAIMS("a_claim_that_expires_recycles_its_member_and_is_deleted_after_its_time"),)
RETURNED = (CLAIMS("a_member_that_is_released_goes_back_as_it_is_and_the_next_claim_gets_it"),)

CLAIM_FIELDS: Mapping[str, Tests] = {
    "spec.poolRef": WAITS,
    "spec.poolRef.name": WAITS,
    # It is for people, who see it.
    "spec.holder": ("../../client/test_claims.py::test_a_member_is_claimed_used_shown_and_released",),
    "spec.ttlSeconds": EXPIRES,
    "spec.ttlSecondsAfterFinished": EXPIRES,
    "spec.release": RETURNED,
    "spec.released": RETURNED,
}


@dataclass(frozen=True)
class PoolChange:
    """A change of a pool's spec, and all that differs in its members, its budget and its status for it."""

    title: str
    change: Json
    effect: dict[str, Any] = field(default_factory=dict)
    base: Json = field(default_factory=lambda: FIXED)
    replaces: bool = False
    """Whether other members take the place of those there are."""

    def __str__(self) -> str:
        return self.title

    @property
    def before(self) -> Json:
        return merged({"template": {"spec": EPHEMERAL}}, self.base)

    @property
    def after(self) -> Json:
        return merged(self.before, self.change)


FIXED: Json = {"replicas": 1}
SCALES: Json = {"autoscaling": {"minReplicas": 1, "maxReplicas": 2, "scaleDown": {"stabilizationSeconds": 0}}}
TWO: dict[str, Any] = {f"status.{name}": 2 for name in ("desiredReplicas", "replicas", "ready", "idle", "updated")}
WITHIN: Json = {
    "condition[ScalingLimited].status": "False",
    "condition[ScalingLimited].reason": "WithinBounds",
    "condition[ScalingLimited].message": "As many members as are needed are allowed.",
}
BLUE: Json = {"metadata": {"labels": {"team": "blue"}}}


def _autoscaling(**change: Any) -> Json:
    return {"autoscaling": change}


def _strategy(**change: Any) -> Json:
    return {"updateStrategy": change}


CHANGES: tuple[PoolChange, ...] = (
    PoolChange("replicas", {"replicas": 2}, TWO),
    PoolChange("autoscaling", {}, base=SCALES),
    PoolChange("minReplicas", _autoscaling(minReplicas=2), TWO, base=SCALES),
    PoolChange("maxReplicas", _autoscaling(maxReplicas=1), base=SCALES),
    PoolChange("targetLoadPerInstance", _autoscaling(targetLoadPerInstance=3), base=SCALES),
    PoolChange("scaleUp", _autoscaling(scaleUp={"maxPerMinute": 1}), base=SCALES),
    PoolChange("scaleDown", _autoscaling(scaleDown={"stabilizationSeconds": 7}), base=SCALES),
    PoolChange("spares", {"warm": {"spares": 2}}, {**TWO, **WITHIN}, base=SCALES),
    PoolChange("labels", {"template": BLUE}, {"member.labels": None, "member.labels.team": "blue"}, replaces=True),
    PoolChange(
        "template",
        {"template": {"spec": {"limits": {"requestTimeoutSeconds": 77}}}},
        {"member.spec.limits.requestTimeoutSeconds": 77},
        replaces=True,
    ),
    PoolChange("strategy", {"placement": {"strategy": "Packed"}}),
    PoolChange("maxLoadPerInstance", {"placement": {"maxLoadPerInstance": 9}}),
    PoolChange("affinity", {"placement": {"sessionAffinity": "Preferred", "affinityWaitSeconds": 9}}),
    PoolChange("flowLabel", {"fairness": {"flowLabel": "team"}}),
    PoolChange("weights", {"fairness": {"weights": {"blue": 2}}}),
    PoolChange("maxRunningPerFlow", {"fairness": {"maxRunningPerFlow": 3}}),
    PoolChange("maxPendingPerFlow", {"fairness": {"maxPendingPerFlow": 3}}),
    PoolChange("preemption", {"preemption": "LowerPriority"}),
    PoolChange("type", _strategy(type="OnDelete")),
    PoolChange("maxSurge", _strategy(maxSurge=2)),
    PoolChange("maxUnavailable", _strategy(maxUnavailable=1)),
    PoolChange("minReadySeconds", _strategy(minReadySeconds=1)),
    PoolChange("drainSeconds", _strategy(drainSeconds=9)),
    PoolChange("progressDeadlineSeconds", _strategy(progressDeadlineSeconds=300)),
    PoolChange("revisionHistoryLimit", {"revisionHistoryLimit": 0}),
    PoolChange("disruptionBudget", {"disruptionBudget": "None"}),
)
