"""The members of an ensemble trained together, so that examples of one do not mislead another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask_plugins.recipes.inner_maximisation import Crafting
from unmask_plugins.recipes.loop import right_answers

__all__ = ["crossing", "transfer_penalty_losses"]


def crossing(logits: Tensor, labels: Tensor, promote: float, demote: float) -> Tensor:
    """What one member learns from another's examples, a scalar.

        mean of  promote * 1[right] CE(f_i(x_j), y)  -  demote * 1[wrong] H(softmax f_i(x_j))

    On the secure set, where member i withstands the example of member j, it is promoted; on the
    insecure set it is demoted to know nothing, rather than to agree on a wrong class.

    Args:
        logits: f_i(x_j) [sample, class].
        labels: y [sample].
        promote: Weight on the secure set.
        demote: Weight on the insecure set.
    """
    right = (logits.detach().argmax(1) == labels).to(logits.dtype)
    log_p = logits.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    kept = cross_entropy(logits, labels, reduction="none")
    return (promote * right * kept - demote * (1 - right) * entropy).mean()


def transfer_penalty_losses(
    members: Sequence[nn.Module], promote: float, demote: float, craft: Crafting, clean: float
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The loss of the crossing collaborative ensemble (Bui et al. 2021).

        sum_i  clean * CE(f_i(x), y) + CE(f_i(x_i), y) + 1 / (n - 1) sum_{j != i} crossing(f_i(x_j), y)

    x_i is an adversarial example of member i of n. All members learn at once.

    Args:
        members: f_1 to f_n, in train mode.
        promote: Weight of `crossing` where a member withstands another's example.
        demote: Weight of `crossing` where it does not.
        craft: Makes the examples.
        clean: Weight of the clean images.
    """
    n = len(members)

    def losses(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        examples = [craft(member, images, labels) for member in members]
        total, rights = images.new_zeros(()), []
        for i, member in enumerate(members):
            if clean:
                total = total + clean * cross_entropy(member(images), labels)
            for j, shown in enumerate(examples):
                answers = member(shown)
                if i == j:
                    total = total + cross_entropy(answers, labels)
                    rights.append(right_answers(answers, labels))
                else:
                    total = total + crossing(answers, labels, promote, demote) / (n - 1)
        return total, torch.stack(rights).mean()

    return losses
