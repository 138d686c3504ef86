"""The step that climbs fastest."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.task import Task
from unmask_plugins.attacks.ball_and_box import project_both

__all__ = ["climbed"]


def climbed(task: Task, x: Tensor, gradient: Tensor, length: float, share: float = 0.0) -> Tensor:
    """`x` after a step of some length along the steepest direction, brought back into ball and box.

    In l1 the step moves a share of the coordinates, those of largest slope among those that the box lets
    move further, all by the same amount (Tramer & Boneh 2019, "Adversarial training and robustness for
    multiple perturbations", section 4.1, SLIDE). The projection is onto ball and box together.

    Args:
        task: Gives ball and box.
        x: The points.
        gradient: What is climbed.
        length: Of the step, in the norm.
        share: Share of the coordinates moved in l1, at least one.
    """
    ball = task.ball
    if ball.norm != "l1":
        return project_both(x + length * ball.steepest(gradient), ball, around=task.x)
    low, high = ball.bounds
    slope = torch.nan_to_num(gradient.flatten(1), nan=0.0)
    point = x.flatten(1)
    stuck = ((point >= high) & (slope > 0)) | ((point <= low) & (slope < 0))
    size = torch.where(stuck, 0.0, slope.abs())
    count = max(1, round(share * slope.shape[1]))
    largest = size.sort(dim=1, descending=True, stable=True).indices[:, :count]
    moved = torch.zeros_like(size).scatter_(1, largest, 1.0) * (size > 0)
    pace = length / moved.sum(1, keepdim=True).clamp_min(1.0)
    # The projection shortens all coordinates alike. Those that lie at the border with good reason are pushed
    # as hard, so that it takes nothing from them.
    held = stuck & (slope.abs() >= size.gather(1, largest[:, -1:]))
    step = torch.where(held, 1.0, moved) * pace * slope.sign()
    return project_both(x + step.reshape(x.shape), ball, around=task.x)
