"""The one place where steps become requests: each in its cluster's lane, its outcome returned as
data.

Used by hub and member. It never repeats a step and never raises an ApiError; what an outcome means
for the next turn is the controller's to say.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.event_recorder import EventRecorder
from federator.kube.control.lanes import Lane
from federator.model.steps import Apply, Create, Delete, EmitEvent, ObjectRef, Patch, Step


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a step. `obj` is the object as the server has it now, where it told."""

    step: Step
    error: errors.ApiError | None = None
    obj: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """The server holds what the step asked for."""
        return self.error is None

    @property
    def unknown(self) -> bool:
        """It is unknown whether the step took effect: it was sent, and no answer came (F29)."""
        return isinstance(self.error, errors.Unreachable | errors.Malformed)

    @property
    def gone(self) -> bool:
        """The object is not there. A kind that is not served (any more) proves nothing about its
        objects."""
        return isinstance(self.error, errors.NotFound) and not isinstance(
            self.error, errors.NotServed
        )


class Applier:
    """Carries steps out on one API server. `component` signs its Events."""

    def __init__(
        self,
        client: Client,
        lane: Lane,
        *,
        clock: Clock,
        component: str = "federator",
        instance: str = "",
    ) -> None:
        self.client = client
        self.lane = lane
        self.recorder = EventRecorder(client, clock=clock, component=component, instance=instance)

    async def apply(self, step: Step, key: Hashable = None) -> StepResult:
        """Carries out one step. `key` is the owner of the turn in the lane; by default the object's
        namespace and name."""
        ref = target(step)
        try:
            async with self.lane.slot((ref.namespace, ref.name) if key is None else key):
                return StepResult(step, obj=await self._send(step))
        except errors.ApiError as exc:
            outcome = StepResult(step, error=exc)
            # Gone is what a Delete asks for.
            return StepResult(step) if outcome.gone and isinstance(step, Delete) else outcome

    async def _send(self, step: Step) -> Mapping[str, Any] | None:
        match step:
            case Create(ref, body, strict):
                return await self.client.create(ref, body, strict=strict)
            case Patch():
                return await self.client.patch(
                    step.ref, _conditioned(step), subresource=step.subresource
                )
            case Apply():
                return await self.client.patch(
                    step.ref,
                    _conditioned(step),
                    kind="apply",
                    subresource=step.subresource,
                    force=step.force,
                )
            case Delete(ref, uid, propagation, version):
                return await self.client.delete(
                    ref, uid=uid, propagation=propagation, resource_version=version
                )
            case EmitEvent():
                return await self.recorder.record(step)
            case _:
                assert_never(step)


def _conditioned(step: Patch | Apply) -> Mapping[str, Any]:
    """The patch with its preconditions, which an API server reads out of the metadata that the
    patch sets."""
    conditions = {"resourceVersion": step.resource_version, "uid": step.uid}
    given = {name: value for name, value in conditions.items() if value}
    if not given:
        return step.body
    return {**step.body, "metadata": {**(step.body.get("metadata") or {}), **given}}


def target(step: Step) -> ObjectRef:
    return step.regarding if isinstance(step, EmitEvent) else step.ref
