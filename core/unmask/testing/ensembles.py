"""The laws for ensembles."""

from __future__ import annotations

from torch import nn

from unmask.testing.known import small_net
from unmask.testing.laws import require
from unmask.testing.models import CLASSES, check_classifier, check_door, check_guest, images_for
from unmask.testing.subject import Subject
from unmask.testing.world import World

__all__ = ["CHECKS"]


def _members(subject: Subject) -> list[nn.Module]:
    return [small_net(subject.image[0], CLASSES, seed=seed) for seed in range(subject.members)]


def _built(subject: Subject) -> nn.Module:
    model: nn.Module = subject.once("built", lambda: subject.build(_members(subject)).eval())
    return model


def answers_like_its_members(subject: Subject) -> None:
    """An ensemble maps images to finite logits over the classes of its members."""
    check_classifier(_built(subject), images_for(subject), CLASSES)


def is_taken_by_an_evaluation(subject: Subject) -> None:
    """An evaluation takes what is built: nothing about it is refused."""
    check_door(_built(subject), images_for(subject))


def changes_nothing_when_called(subject: Subject) -> None:
    """A call in eval mode changes neither the ensemble nor the images."""
    check_guest(_built(subject), images_for(subject))


def leaves_its_members_alone(subject: Subject) -> None:
    """The members are somebody else's models: to build an ensemble of them, and to ask it, changes none."""
    members = _members(subject)
    worlds = [World.of(member) for member in members]
    built = subject.build(members).eval()
    check_guest(built, images_for(subject))
    for k, world in enumerate(worlds):
        changed = world.changed()
        world.restore()
        require(
            not changed,
            f"member {k} is not as before: {', '.join(changed)}",
            "Change copies of the members: copy.deepcopy(member); draw nothing while building, or from a "
            "generator "
            "of your own.",
        )


CHECKS = (
    answers_like_its_members,
    is_taken_by_an_evaluation,
    changes_nothing_when_called,
    leaves_its_members_alone,
)
