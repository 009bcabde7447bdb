"""What actions tell back: the store's side of the conversation, as the actors see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from efrit.controller.decide.views import Key
from efrit.errors import EfritError
from efrit.protocol import Event, RequestView


class PlanSink(Protocol):
    """Takes in what was learned while acting for a plan."""

    def observe_plan(self, obj: Mapping[str, Any]) -> None:
        """Take in the EfritPlan an API call returned."""

    def plan_gone(self, plan: Key, uid: str) -> None:
        """Take in that a plan does not exist any more."""

    def listed(self, plan: Key, uid: str, found: Iterable[Mapping[str, Any]]) -> None:
        """Take in all requests that a plan has."""

    def result_read(self, plan: Key, uid: str, request_uid: str, text: str) -> None:
        """Take in the whole result of a request."""

    def created(self, plan: Key, uid: str, obj: Mapping[str, Any]) -> None:
        """Take in that a request of a plan is there."""

    def refused(self, plan: Key, uid: str, sentence: str) -> None:
        """Take in that the API server did not take a request of a plan."""

    def cramped(self, plan: Key, uid: str) -> None:
        """Take in that the object of a plan has no room for the status it was to get."""


class Sink(Protocol):
    """Takes in what was learned while acting."""

    @property
    def plans(self) -> PlanSink:
        """The part for plans."""

    def observe_instance(self, obj: Mapping[str, Any]) -> None:
        """Take in the EfritInstance an API call returned."""

    def observe_request(self, obj: Mapping[str, Any]) -> None:
        """Take in the EfritRequest an API call returned."""

    def observe_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in the StatefulSet an API call returned."""

    def observe_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in the PersistentVolumeClaim an API call returned."""

    def claim_gone(self, instance: Key, name: str) -> None:
        """Take in that the API server does not know a claim of an instance."""

    def secret_applied(self, instance: Key) -> None:
        """Take in that the Secret of an instance is there."""

    def bridge_event(self, instance: Key, pod_uid: str, event: Event) -> None:
        """Take in one event of a bridge."""

    def bridge_lost(self, instance: Key, pod_uid: str, problem: str) -> None:
        """Take in that a bridge cannot be reached."""

    def bridge_closed(self, instance: Key) -> None:
        """Take in that a connection was closed on purpose."""

    def request_view(self, instance: Key, view: RequestView) -> None:
        """Take in what a bridge answered about a request."""

    def submit_begins(self, instance: Key, request: Key, uid: str, handover_id: str) -> bool:
        """Take in that a request is about to be sent to a bridge; whether it may be."""

    def submit_ended(self, instance: Key, request: Key, uid: str) -> None:
        """Take in that a bridge has answered about a request sent to it, or will not."""

    def handed_over(self, instance: Key, request: Key, uid: str) -> None:
        """Take in that a request was sent to a bridge that did not answer: it may have it."""

    def close_begins(self, instance: Key) -> bool:
        """Take in that the status of an instance is about to say Closed; whether it may."""

    def action_failed(self, request: Key, uid: str, action: str, error: EfritError, *, refused: bool = False) -> None:
        """Take in that an action for a request failed; `refused` where repeating it as it is will not help."""

    def result_stored(self, request: Key, uid: str) -> None:
        """Take in that the Secret with the result of a request is there."""

    def absent(self, request: Key, uid: str, queue_id: str) -> None:
        """Take in that a queue does not know a request."""

    def turned_away(self, request: Key, uid: str, sentence: str) -> None:
        """Take in that a bridge will never take a request."""

    def acknowledged(self, instance: Key, uid: str) -> None:
        """Take in that a bridge was told that its answer is stored."""

    def pause_handover(self, instance: Key) -> None:
        """Hand no more requests to an instance."""

    def resume_handover(self, instance: Key) -> None:
        """Hand requests to an instance again."""

    def not_idle(self, instance: Key) -> None:
        """Take in that an instance that was taken for idle has open work."""

    def instance_deleted(self, instance: Key, uid: str) -> None:
        """Take in that an EfritInstance was deleted."""

    def apply_unanswered(self, instance: Key) -> None:
        """Take in that it is not known whether the API server took the children."""

    def applied(self, instance: Key, generation: int, digest: str) -> bool:
        """Take in that the children of this generation were accepted; whether that was to be expected."""

    def refused(self, instance: Key, generation: int, sentence: str) -> None:
        """Take in that a child was refused."""

    def failed(self, instance: Key, generation: int, sentence: str) -> bool:
        """Take in that the API server failed over a child; whether that is by now as good as a refusal."""

    def explained(self, instance: Key, problem: str | None) -> None:
        """Take in Kubernetes' sentence on why an instance does not start."""

    def status_written(self, instance: Key) -> None:
        """Take in that an instance's status was written."""

    def cramped(self, key: Key, uid: str) -> None:
        """Take in that the object of a request has no room for the status it was to get."""

    def progress_dropped(self, key: Key, uid: str) -> None:
        """Take in that the status of a request could not say how far it has come."""

    def session_found(self, key: Key, uid: str, instance: str) -> None:
        """Take in which instance has the session a request continues, `""` for none."""

    def request_gone(self, key: Key, uid: str) -> None:
        """Take in that a request does not exist any more."""
