"""The step that climbs fastest."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.task import Task
from unmask_plugins.attacks.l1_box import project_l1_box

__all__ = ["climbed"]


def climbed(task: Task, x: Tensor, gradient: Tensor, length: float, share: float = 0.0) -> Tensor:
    """`x` after a step of some length along the steepest direction, brought back into ball and box.

    In l1 the step moves a share of the coordinates, those of largest slope among those that the box lets
    move, all by the same amount (Tramer & Boneh 2019, "Adversarial training and robustness for multiple
    perturbations", section 4.1, SLIDE), and the projection is onto ball and box together (Croce & Hein 2021,
    "Mind the box", proposition 1): with one after the other the box takes away what the ball allows.

    Args:
        task: Gives ball and box.
        x: The points.
        gradient: What is climbed.
        length: Of the step, in the norm.
        share: Share of the coordinates moved in l1, at least one.
    """
    ball = task.ball
    if ball.norm != "l1":
        return ball.project(x + length * ball.steepest(gradient), around=task.x)
    low, high = ball.bounds
    slope = torch.nan_to_num(gradient.flatten(1), nan=0.0)
    point = x.flatten(1)
    stuck = ((point >= high) & (slope > 0)) | ((point <= low) & (slope < 0))
    slope = torch.where(stuck, 0.0, slope)
    count = max(1, round(share * slope.shape[1]))
    moved = torch.zeros_like(slope)
    largest = slope.abs().sort(dim=1, descending=True, stable=True).indices[:, :count]
    moved.scatter_(1, largest, slope.gather(1, largest).sign())
    direction = moved / moved.abs().sum(1, keepdim=True).clamp_min(1.0)
    return project_l1_box(x + length * direction.reshape(x.shape), ball, around=task.x)
