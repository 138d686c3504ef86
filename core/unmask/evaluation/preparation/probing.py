"""Is a form the model it stands for, does it treat every row alone, and how fast is it?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

__all__ = ["disagreement", "logit_difference", "margin_error", "seconds_per_image", "unsteady"]

Answer = Callable[[Tensor], Tensor]


def answered(module: Answer, images: Tensor) -> Tensor:
    """The answer, nothing differentiated."""
    with torch.no_grad():
        return module(images.clone())


def _with_gradient(module: Answer, images: Tensor) -> tuple[Tensor, Tensor]:
    """The answer and the gradient of a fixed smooth function of it."""
    with torch.enable_grad():
        x = images.detach().requires_grad_()
        answer = module(x.clone())
        if not answer.requires_grad:
            return answer, torch.zeros_like(images)
        flat = answer.flatten(1)
        weights = torch.linspace(-1.0, 1.0, flat.shape[1], dtype=flat.dtype, device=flat.device)
        # The gradient may be severed on purpose.
        (gradient,) = torch.autograd.grad((flat * weights).sum(), x, allow_unused=True)
    return answer.detach(), torch.zeros_like(images) if gradient is None else gradient


def logit_difference(plain: Answer, form: Answer, images: Tensor) -> float:
    """Largest difference between the two answers."""
    return float((answered(plain, images) - answered(form, images)).abs().max())


def margin_error(plain: Tensor, form: Tensor) -> float:
    """By how much two answers differ in any logit's distance to any other's, at worst over the images."""
    difference = plain.double() - form.double()
    return float((difference.amax(1) - difference.amin(1)).max())


def disagreement(plain: nn.Module, form: nn.Module, images: Tensor, half: bool) -> str | None:
    """Why a form is not the module it stands for, if it is not: its answers or its gradients are others."""
    expected, slope = _with_gradient(plain, images)
    for graph in (False, True):
        answer, found = _with_gradient(form, images) if graph else (answered(form, images), slope)
        if answer.shape != expected.shape or not bool(torch.isfinite(answer).all()):
            return "its answers have another shape or are not finite"
        scale = 1.0 + float(expected.abs().max())
        if float((answer - expected).abs().max()) > (0.1 if half else 1e-3) * scale:
            return "its answers differ from the plain model's"
        size = slope.flatten(1).norm(dim=1)
        off = (found - slope).flatten(1).norm(dim=1)
        # An input at the kink of a rectifier may fall on its other side; most must agree, and vanish alike.
        if bool(((size == 0) != (found.flatten(1).norm(dim=1) == 0)).any()):
            return "its gradients vanish elsewhere than the plain model's"
        if float((off / size.clamp_min(1e-30)).median()) > (0.7 if half else 1e-3):
            return "its gradients differ from the plain model's"
    return None


def unsteady(form: nn.Module, images: Tensor, *, graph: bool, sizes: Sequence[int] = (24, 13, 8)) -> bool:
    """Whether a row's last bits change with its place or its batch, on the CPU; elsewhere not asked.

    Args:
        form: What is asked.
        images: Some images.
        graph: Ask for gradients too.
        sizes: The batches that a row is compared in; the first holds all others.
    """
    if images.device.type != "cpu":
        return False
    ask = (lambda x: _with_gradient(form, x)) if graph else (lambda x: (answered(form, x),))
    many = images.repeat(-(-sizes[0] // len(images)), 1, 1, 1)[: sizes[0]]
    expected = ask(many)
    order = torch.randperm(len(many), generator=torch.Generator().manual_seed(0))
    for size in sizes:
        rows = order[:size]
        if not all(torch.equal(a, b[rows]) for a, b in zip(ask(many[rows]), expected, strict=True)):
            return True
    return False


def seconds_per_image(module: Answer, images: Tensor, *, graph: bool, repeats: int = 2) -> float:
    """Seconds of a call by the number of images: the best of a few, after one that warms up."""
    best = float("inf")
    for i in range(repeats + 1):
        _wait(images.device)
        started = time.perf_counter()
        if graph:
            _with_gradient(module, images)
        else:
            answered(module, images)
        _wait(images.device)
        if i:
            best = min(best, time.perf_counter() - started)
    return best / len(images)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
