"""The controller: acknowledged after it was confirmed, written on condition, recorded before it is handed over."""

from tests.mutation.mutant import Mutant

REQUESTS = "operator/efrit/controller/decide/requests.py"
FINAL_STATUS = "operator/efrit/controller/decide/final_status.py"
ACTOR = "operator/efrit/controller/act/actor.py"
KUBE = "operator/efrit/kube/client.py"
RESYNC = "operator/efrit/controller/resync.py"
ROLLOUT = "operator/efrit/controller/decide/rollout.py"
LEASE = "operator/efrit/controller/lease.py"
HANDOVER = "operator/efrit/controller/decide/handover.py"
INSTANCES = "operator/efrit/controller/store/instances.py"
HANDOVERS = "operator/efrit/controller/store/handovers.py"

UNIT = "tests/unit/controller"

IDLE = "operator/efrit/controller/decide/idle.py"
RACES = f"{UNIT}/test_idle_race.py"
SELF_CHECK = f"{UNIT}/test_self_check.py"

MUTANTS = (
    Mutant(
        "the first list of requests and plans before an instance counts as idle",
        IDLE,
        "    return snapshot.listed and (",
        "    return (",
        (f"{UNIT}/test_idle.py",),
    ),
    Mutant(
        "the figures of its own pod before an instance counts as idle",
        IDLE,
        "(pod is None or snapshot.available or not pod.may_run)",
        "True",
        (f"{UNIT}/test_idle.py",),
    ),
    Mutant(
        "the suspended plan that keeps its instance from being deleted",
        IDLE,
        "rules.delete_after_seconds is not None and snapshot.suspended_plans == 0:",
        "rules.delete_after_seconds is not None:",
        (f"{UNIT}/test_idle.py::test_a_suspended_plan_lets_its_instance_sleep_but_not_go",),
    ),
    Mutant(
        "the last check for work at the API server before an idle instance is deleted",
        "operator/efrit/controller/decide/instances.py",
        "        ConfirmIdle(instance.key),\n",
        "",
        (RACES,),
    ),
    Mutant(
        "the pause of the hand-over to an instance that is about to stop",
        INSTANCES,
        "        entry.facts = replace(entry.facts, handover_paused=True)",
        "        entry.facts = replace(entry.facts, handover_paused=False)",
        (RACES,),
    ),
    Mutant(
        "the version that an idle instance is deleted at",
        "operator/efrit/controller/decide/instances.py",
        'Delete("EfritInstance", instance.key, meta.uid, meta.resource_version)',
        'Delete("EfritInstance", instance.key, meta.uid)',
        (RACES,),
    ),
    Mutant(
        "the dropping of progress that was refused",
        ACTOR,
        '        except ApiError as error:\n            log.debug("%s/%s: how far',
        '        except ApiTooLarge as error:\n            log.debug("%s/%s: how far',
        (f"{UNIT}/act/test_actor.py::test_progress_that_is_refused_or_lost_is_not_made_up_for",),
    ),
    Mutant(
        "the comparison of a Secret that is there already with the result",
        "operator/efrit/controller/act/result_secret.py",
        '            await kube.test(SECRETS, meta["namespace"], meta["name"], expected)',
        "            pass",
        (
            f"{UNIT}/act/test_actor.py::test_a_secret_that_somebody_else_created_in_advance_is_not_taken_for_the_result",
        ),
    ),
    Mutant(
        "the difference between a result that is refused and one that fails to be stored",
        "operator/efrit/controller/decide/failed_actions.py",
        "    if failure is None or failure.refusals < RESULT_ATTEMPTS:",
        "    if failure is None:",
        (f"{UNIT}/test_failed_actions.py::test_a_failure_that_is_no_refusal_never_gives_a_result_up",),
    ),
    Mutant(
        "the pause between two writes of progress",
        "operator/efrit/controller/decide/open_status.py",
        "    if snapshot.progress_written is not None:",
        "    if False:",
        (f"{UNIT}/test_progress.py::test_progress_is_written_once_a_second_at_most",),
    ),
    Mutant(
        "the order: an answer is acknowledged after its status is confirmed",
        REQUESTS,
        "    return final_status.answered(\n        request,",
        "    early = [Acknowledge(snapshot.target.instance.key, request.metadata.uid)] if snapshot.target else []\n"
        "    return early + final_status.answered(\n        request,",
        (f"{UNIT}/test_requests.py::test_an_answer_is_not_acknowledged_before_it_is_stored",),
    ),
    Mutant(
        "the order: a large result is stored before the status that names it",
        FINAL_STATUS,
        "    actions.append(_finish(request, status, reason, told, outcome, now))",
        "    actions.insert(0, _finish(request, status, reason, told, outcome, now))",
        (f"{UNIT}/test_requests.py::test_a_large_answer_is_stored_before_the_status_that_names_it",),
    ),
    Mutant(
        "the record of an ephemeral queue before a request is handed to it",
        REQUESTS,
        "    if ephemeral and request.status.queue_id is None:",
        "    if False:",
        (f"{UNIT}/test_requests.py::test_an_ephemeral_queue_is_recorded_before_the_request_is_handed_to_it",),
    ),
    Mutant(
        "a new decision after the write that says why a request is not accepted",
        REQUESTS,
        "    if any(isinstance(each, PatchStatus) for each in told):",
        "    if False:",
        (f"{UNIT}/test_failed_actions.py",),
    ),
    Mutant(
        "the look whether the queue that had a request is gone",
        REQUESTS,
        "    _queue_lost,\n    _stop,",
        "    _stop,",
        (f"{UNIT}/test_requests.py",),
    ),
    Mutant(
        "the stop of work at its bridge before its cancel is written",
        REQUESTS,
        "    if target is not None and target.available and not known_absent:",
        "    if False:",
        (f"{UNIT}/test_requests.py",),
    ),
    Mutant(
        "the request in its cancel, so that a hand-over still on its way finds it cancelled",
        REQUESTS,
        "        whole = wire_request(request, target.instance) if snapshot.bridge_view is None else None",
        "        whole = None",
        (
            f"{UNIT}/test_requests.py::"
            "test_a_cancelled_request_is_refused_at_its_bridge_before_it_is_said_to_have_never_run",
        ),
    ),
    Mutant(
        "the proof that nothing runs in a pod before its changed template is applied",
        ROLLOUT,
        "    return stats.processing == 0 and stats.pending == 0 and snapshot.unfinished == 0",
        "    return True",
        (f"{UNIT}/test_rollout.py::test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle",),
    ),
    Mutant(
        "the figures of this pod, heard by this process",
        ROLLOUT,
        "    if not snapshot.available or stats is None:\n        return False",
        "    if not snapshot.available or stats is None:\n        return True",
        (f"{UNIT}/test_rollout.py::test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle",),
    ),
    Mutant(
        "the hold on new requests once an update has begun",
        REQUESTS,
        "    if target is None or not target.held_for_update:\n        return None",
        "    if True:\n        return None",
        (f"{UNIT}/test_requests.py::test_a_request_is_not_handed_to_an_instance_that_is_about_to_be_updated",),
    ),
    Mutant(
        "the stop of a release that an instance did not survive",
        ROLLOUT,
        "    stopped = _stopped(snapshot) if cause == UpdateCause.RELEASE else None",
        "    stopped = None",
        (f"{UNIT}/test_rollout.py::test_a_release_that_fails_is_not_rolled_out_further",),
    ),
    Mutant(
        "the two instances that try a release before all others",
        ROLLOUT,
        "    untried = snapshot.rollout.succeeded == 0",
        "    untried = False",
        (f"{UNIT}/test_rollout.py::test_a_release_that_nobody_has_survived_yet_reaches_two_instances",),
    ),
    Mutant(
        "the wait for a claim that is being deleted before an instance starts",
        "operator/efrit/controller/decide/instances.py",
        "    if not waits_for_claims and _statefulset_due(",
        "    if _statefulset_due(",
        (f"{UNIT}/test_child_presence.py::test_nothing_starts_on_a_claim_that_is_being_deleted",),
    ),
    Mutant(
        "the claim that is being deleted and is not adopted",
        "operator/efrit/controller/decide/instances.py",
        "[each for each in children.others if not _is_claim(each, going)]",
        "children.others",
        (
            f"{UNIT}/test_child_presence.py::test_while_a_new_instance_waits_for_a_claim_the_other_children_are_applied_only_once",
        ),
    ),
    Mutant(
        "the difference between a conflict and an object that exists",
        "operator/efrit/kube/errors.py",
        '(ApiExists if reason == "AlreadyExists" else ApiConflict)',
        "ApiExists",
        (f"{UNIT}/act/test_actor.py::test_a_conflict_that_is_no_other_object_does_not_count_as_a_stored_result",),
    ),
    Mutant(
        "the question whether an instance is really not there",
        REQUESTS,
        "    return [ConfirmMissing(target)] if ends else []",
        "    return []",
        (f"{UNIT}/test_reconcile.py::test_a_request_does_not_end_for_an_instance_that_only_the_watch_does_not_know",),
    ),
    Mutant(
        "the instance a deletion is about",
        INSTANCES,
        "        if entry is None or (entry.instance is not None and entry.instance.metadata.uid != uid):",
        "        if entry is None:",
        (f"{UNIT}/store/test_store.py::test_news_of_an_earlier_instance_of_the_name_are_ignored",),
    ),
    Mutant(
        "the versions of children",
        "operator/efrit/controller/store/records.py",
        "        if int(version) <= self.children_seen.get(place, 0):",
        "        if False:",
        (f"{UNIT}/store/test_store.py::test_late_news_of_a_child_change_nothing",),
    ),
    Mutant(
        "the sweep of children that no event told of",
        RESYNC,
        "        self._store.children.forget(children - await self._take_in_children())",
        "        self._store.children.forget(set())",
        (f"{UNIT}/test_resync.py::test_a_pod_no_event_told_of_is_found",),
    ),
    Mutant(
        "the isolation of a namespace that the API server refuses",
        "operator/efrit/controller/namespaces.py",
        "                if scope is None:\n                    raise",
        "                raise",
        (
            f"{UNIT}/test_namespaces.py::test_a_refused_namespace_keeps_nobody_waiting_and_is_retried_about_once_a_minute",
        ),
    ),
    Mutant(
        "the search for what has gone from a namespace before it is served again",
        RESYNC,
        "        if self._store.is_listed(self._scope):",
        "        if False:",
        (f"{UNIT}/test_resync.py::test_a_namespace_listed_again_is_rid_of_what_has_gone_and_leaves_others_alone",),
    ),
    Mutant(
        "the hold of work in a namespace that is not served",
        "operator/efrit/controller/reconcile.py",
        "        if not self._is_served(work.namespace):",
        "        if False:",
        (f"{UNIT}/test_reconcile.py::test_a_key_of_a_namespace_that_is_not_served_is_not_looked_at",),
    ),
    Mutant(
        "the thought that an earlier controller may have handed a request over",
        HANDOVER,
        "    return listed_at_start and not closed_before",
        "    return False",
        (
            f"{UNIT}/test_requests.py::test_a_request_older_than_the_controller_for_an_instance_that_is_gone_has_an_unknown_end",
        ),
    ),
    Mutant(
        "the thought that a lost node may have begun a request",
        "operator/efrit/controller/decide/binding.py",
        "    if request.spec.session is not None or context.may_be_handed_over:",
        "    if request.spec.session is not None:",
        (f"{UNIT}/test_binding.py::test_any_other_request_stays",),
    ),
    Mutant(
        "the record that an instance is open, before the first request is handed over",
        HANDOVERS,
        "        if not is_open or handover_id != target.facts.handover_id:",
        "        if False:",
        (f"{UNIT}/store/test_handovers.py::test_nothing_is_handed_over_under_an_id_that_is_not_stored",),
    ),
    Mutant(
        "the marks of all requests that an instance may have, before it is closed",
        HANDOVERS,
        "        return not any(self._unmarked(entry, requests[key], instance) for key in entry.open_requests)",
        "        return True",
        (f"{UNIT}/test_handover_model.py",),
    ),
    Mutant(
        "the new id after a write of Closed whose outcome may stay unknown",
        HANDOVERS,
        "        entry.facts = replace(entry.facts, handover_id=new_handover_id())\n        return True",
        "        return True",
        (f"{UNIT}/test_handover_model.py",),
    ),
    Mutant(
        "the note that a request is being handed over while its instance is about to be closed",
        HANDOVERS,
        "        entry.submitting = True",
        "        entry.submitting = False",
        (f"{UNIT}/test_handover_model.py",),
    ),
    Mutant(
        "the resource version a status is written on condition of",
        ACTOR,
        '"metadata": {"resourceVersion": action.resource_version, "uid": action.uid}',
        '"metadata": {"uid": action.uid}',
        (f"{UNIT}/act/test_actor.py",),
    ),
    Mutant(
        "the wait for a busy API server whose pause kopf cannot read",
        "operator/efrit/controller/watch/kopf_watch.py",
        "        if pause is None:\n",
        "        if True:\n",
        (f"{UNIT}/watch/test_kopf_watch.py::test_a_busy_api_server_that_names_a_date_ends_no_watch",),
    ),
    Mutant(
        "the UID a deletion is on condition of",
        KUBE,
        'conditions = {"uid": uid, "resourceVersion": resource_version}',
        'conditions = {"resourceVersion": resource_version}',
        (f"{UNIT}/act/test_actor.py",),
    ),
    Mutant(
        "the second look at what a conflict or a refusal was about",
        ACTOR,
        "            await self._reread(action)\n            # Not every",
        "            # Not every",
        (f"{UNIT}/act/test_actor.py",),
    ),
    Mutant(
        "the note that a request may have arrived though its bridge fell silent",
        ACTOR,
        "            if isinstance(error, BridgeUnreachable):",
        "            if False:",
        (f"{UNIT}/act/test_actor.py",),
    ),
    Mutant(
        "the controller's rescan of open requests",
        RESYNC,
        "                self._store.requests.observe(obj)\n        for (namespace, name), uid in before.items():",
        "                pass\n        for (namespace, name), uid in before.items():",
        (f"{UNIT}/test_resync.py::test_an_open_request_no_event_told_of_is_found",),
    ),
    Mutant(
        "the end of the work of a controller that lost its lease",
        LEASE,
        "            task.cancel()\n",
        "            pass\n",
        (f"{UNIT}/test_lease.py::test_a_lease_taken_by_another_ends_the_leading",),
    ),
    Mutant(
        "the question whose an object is before it is applied",
        "operator/efrit/controller/act/owned_children.py",
        """            found = await self._owned(manifest, key[0])
""",
        """            return self._keep(key, await self._kube.apply(manifest))
""",
        (f"{UNIT}/act/test_actor.py::test_an_object_that_the_instance_does_not_own_is_neither_taken_nor_changed",),
    ),
    Mutant(
        "the UID as a condition of applying a child that is known",
        "operator/efrit/controller/act/owned_children.py",
        "await self._kube.apply(manifest, uid=uid))",
        "await self._kube.apply(manifest))",
        (f"{UNIT}/act/test_actor.py::test_a_child_that_is_known_is_one_call_and_never_another_of_its_name",),
    ),
    Mutant(
        "the look at the lease before anything is done",
        ACTOR,
        "        if not self._leading():",
        "        if False:",
        (f"{UNIT}/act/test_actor.py::test_nothing_is_done_once_the_lease_may_be_somebody_elses",),
    ),
    Mutant(
        "the controller's search for requests that are gone",
        RESYNC,
        "            if listed.get((namespace, name)) != uid:",
        "            if False:",
        (f"{UNIT}/test_resync.py::test_a_request_that_is_gone_without_an_event_must_be_verified",),
    ),
    Mutant(
        "the look whether the status tells of a restart already, before there is an event of it",
        "operator/efrit/controller/decide/self_check.py",
        "rfc3339(restart.time) in told.message",
        "False",
        (f"{SELF_CHECK}::test_a_restart_is_one_event_however_often_the_bridge_is_lost",),
    ),
    Mutant(
        "the reason SelfCheckFailed of an instance that is not Ready",
        "operator/efrit/controller/decide/readiness.py",
        "    if stats.emacs.self_check_problem is not None:\n",
        "    if False:\n",
        (f"{SELF_CHECK}::test_an_emacs_that_fails_its_self_check_is_not_ready_and_said_to_be_so",),
    ),
)
