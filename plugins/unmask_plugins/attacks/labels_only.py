"""Parts of attacks that see nothing but the predicted class."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.data import DataReference, LabelledImages
from unmask.evaluation.task import Task
from unmask_plugins.attacks.aims import fooled, wide

__all__ = ["between_images", "first_adversarial", "to_boundary"]


def first_adversarial(task: Task, tries: int, starts: DataReference | None = None) -> tuple[Tensor, Tensor]:
    """An image that is misclassified, or for a target classified as that: the first of some tries for every
    sample, and where one was found.

    The start of Brendel et al. (2018, section 2.1) and Chen et al. (2020, section 3.2). Where none is found
    the image itself is given.

    Args:
        task: The samples.
        tries: How many images are shown to the model.
        starts: Of these, every sample draws among the images of its target, or of any class but its own; so
            no other sample of the run has a part in it. None: uniform noise.
    """
    pools = None if starts is None else _Pools.of(starts.data, task)
    x, found = task.x.clone(), torch.zeros_like(task.labels, dtype=torch.bool)
    low, high = task.ball.bounds
    for _ in range(tries):
        rows = (~found & task.target.active).nonzero().squeeze(1)
        if len(rows) == 0:
            break
        part = task.select(rows)
        if pools is None:
            drawn = part.random.uniform(tuple(task.x.shape[1:]), low, high).to(task.x.dtype).clamp(low, high)
        else:
            drawn = pools.draw(part)
        hit = fooled(part, drawn)
        x = x.index_copy(0, rows, torch.where(wide(hit), drawn, part.x))
        found = found.index_copy(0, rows, hit)
    return x, found


@attrs.frozen(eq=False)
class _Pools:
    """Images by their class.

    Attributes:
        images: In the order of their labels.
        first: Where each class begins, int64 [class].
        count: How many images it has, int64 [class].
    """

    images: Tensor
    first: Tensor
    count: Tensor

    @classmethod
    def of(cls, starts: LabelledImages, task: Task) -> _Pools:
        labels = starts.labels.to(task.labels)
        count = torch.bincount(labels, minlength=task.target.classes)
        return cls(starts.images.to(task.x)[labels.argsort(stable=True)], count.cumsum(0) - count, count)

    def draw(self, task: Task) -> Tensor:
        """An image for every sample: of its target, or any class but its own; itself where there is none."""
        u = task.random.uniform().double()
        if task.targets is None:
            mine = self.count[task.labels]
            many = len(self.images) - mine
            place = (u * many).long()
            place = torch.where(place >= self.first[task.labels], place + mine, place)
        else:
            many = self.count[task.targets]
            place = self.first[task.targets] + (u * many).long()
        drawn = self.images[place.clamp_max(len(self.images) - 1)]
        return torch.where(wide(many > 0), drawn, task.x)


def between_images(task: Task, x: Tensor, share: Tensor) -> Tensor:
    """A point between every image and `x`: 0 is the image, 1 is `x`.

    linf: `x` cut to that share of the range of its perturbation. l2: on the straight line.
    """
    difference = x.double() - task.x.double()
    if task.ball.norm == "linf":
        limit = wide(share * difference.flatten(1).abs().amax(1))
        moved = torch.minimum(torch.maximum(difference, -limit), limit)
    else:
        moved = wide(share) * difference
    low, high = task.ball.bounds
    return (task.x.double() + moved).to(x.dtype).clamp(low, high)


def to_boundary(task: Task, x: Tensor, tolerance: float) -> Tensor:
    """Bisection between every image and an adversarial `x`; the end that is adversarial.

    Args:
        task: The samples.
        x: An adversarial point for each.
        tolerance: Share of the way that is left uncertain.
    """
    low = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    high = torch.ones_like(low)
    best = x
    width = 1.0
    while width > tolerance and len(x):
        middle = (low + high) / 2
        point = between_images(task, x, middle)
        hit = fooled(task, point)
        best = torch.where(wide(hit), point, best)
        low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
        width /= 2
    return best
