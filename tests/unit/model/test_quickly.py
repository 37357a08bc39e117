"""Quick constructors make what the classes make."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from federator.model.decision import Decision, Reason, Verdict, quick_decision, quick_verdict
from federator.model.names import WorkloadKey
from federator.model.quickly import likewise, quickly

KEY = WorkloadKey("PinterestService", "ads", "web")


def test_a_quick_constructor_makes_equal_objects_of_the_class_itself() -> None:
    made = quick_verdict("a", Reason.CHOSEN, "m", fit=2)
    assert made == Verdict("a", Reason.CHOSEN, "m", 2)
    assert type(made) is Verdict
    assert hash(made) == hash(Verdict("a", Reason.CHOSEN, "m", 2))
    assert repr(made) == repr(Verdict("a", Reason.CHOSEN, "m", 2))
    assert replace(made, fit=4) == Verdict("a", Reason.CHOSEN, "m", 4)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_it_makes_is_frozen_and_has_its_own_defaults() -> None:
    first, second = (
        quick_decision(KEY, "u", 1, (), 1, Reason.CHOSEN, "m", (), 0.0, "h", seq=2)
        for _ in range(2)
    )
    assert first == Decision(KEY, "u", 1, (), 1, Reason.CHOSEN, "m", (), 0.0, "h", seq=2)
    assert first.marks is not second.marks
    with pytest.raises(FrozenInstanceError):
        first.seq = 3  # type: ignore[misc]


def test_arguments_are_checked_as_by_the_class() -> None:
    with pytest.raises(TypeError):
        quick_verdict("a", Reason.CHOSEN)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        quick_verdict("a", Reason.CHOSEN, "m", color="red")  # type: ignore[call-arg]


def test_a_quick_copy_is_what_replace_makes() -> None:
    verdict = Verdict("a", Reason.CHOSEN, "m", 3)
    moved = likewise(Verdict, "cluster", "fit")
    assert moved(verdict, "b", 8) == replace(verdict, cluster="b", fit=8)
    assert type(moved(verdict, "b", 8)) is Verdict
    decision = quick_decision(KEY, "u", 1, (), 1, Reason.CHOSEN, "m", (), 0.0, "h", seq=2)
    assert likewise(Decision, "seq")(decision, 3) == replace(decision, seq=3)
    with pytest.raises(TypeError, match="colour"):
        likewise(Verdict, "colour")


@dataclass(frozen=True)
class _Unslotted:
    name: str


@dataclass(frozen=True, slots=True)
class _Checked:
    name: str

    def __post_init__(self) -> None:
        raise ValueError(self.name)


@dataclass(frozen=True, slots=True)
class _Derived:
    name: str
    length: int = field(default=0, init=False)


@pytest.mark.parametrize("cls", [_Unslotted, _Checked, _Derived])
def test_a_class_that_does_more_is_refused(cls: type[object]) -> None:
    with pytest.raises(TypeError):
        quickly(cls)
