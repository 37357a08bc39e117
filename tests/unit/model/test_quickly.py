"""Quick constructors make what the classes make."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from federator.model.decision import Decision, Reason, Share, quick_decision, quick_share
from federator.model.names import WorkloadKey
from federator.model.quickly import likewise, quickly

KEY = WorkloadKey("PinterestService", "ads", "web")


def test_a_quick_constructor_makes_equal_objects_of_the_class_itself() -> None:
    made = quick_share("a", 3, 2, ranges=((0, 2),))
    assert made == Share("a", 3, 2, ranges=((0, 2),))
    assert type(made) is Share
    assert hash(made) == hash(Share("a", 3, 2, 0, ((0, 2),)))
    assert repr(made) == repr(Share("a", 3, 2, 0, ((0, 2),)))
    assert replace(made, seq=4) == Share("a", 3, 2, 4, ((0, 2),))
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
        quick_share("a", 1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        quick_share("a", 1, 1, color="red")  # type: ignore[call-arg]


def test_a_quick_copy_is_what_replace_makes() -> None:
    share = Share("a", 3, 2, 7, ((0, 2),), pods=(1,))
    moved = likewise(Share, "cluster", "seq")
    assert moved(share, "b", 8) == replace(share, cluster="b", seq=8)
    assert type(moved(share, "b", 8)) is Share
    decision = quick_decision(KEY, "u", 1, (), 1, Reason.CHOSEN, "m", (), 0.0, "h", seq=2)
    assert likewise(Decision, "seq")(decision, 3) == replace(decision, seq=3)
    with pytest.raises(TypeError, match="colour"):
        likewise(Share, "colour")


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
