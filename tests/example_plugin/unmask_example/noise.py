"""Random search over the corners of the linf ball."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask import Ball, SampleRandom, Target


@attrs.frozen
class RandomCorners:
    """Draws corners of the ball and keeps, for every image, the one with the smallest margin.

    Attributes:
        queries: How many corners are tried for every image.
    """

    queries: int = attrs.field(default=100, validator=attrs.validators.ge(1))

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """The final examples, one for every image."""
        best = images.clone()
        lowest = torch.full((len(images),), torch.inf, device=images.device)
        for _ in range(self.queries):
            # Only the images that still stand and have queries left.
            rows = target.active.nonzero().squeeze(1)
            if len(rows) == 0:
                break
            signs = random.select(rows).signs(tuple(images.shape[1:]))
            corners = budget.project(images[rows] + budget.epsilon * signs, around=images[rows])
            margins = _margin(target.select(rows)(corners), labels[rows])
            better = margins < lowest[rows]
            best[rows[better]] = corners[better]
            lowest[rows[better]] = margins[better]
        return best


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the largest other, [sample]; negative where the answer is wrong."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own - others.amax(1)
