"""The yardsticks: bare loops, and other people's attacks where they are installed."""

from __future__ import annotations

import contextlib
import io
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from bench.setting import NotHereError

EPSILON = 8 / 255


def bare_pgd(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> Tensor:
    """PGD as one writes it down: nothing is counted, checked or kept."""
    x = (images + torch.empty_like(images).uniform_(-EPSILON, EPSILON)).clamp(0, 1)
    for _ in range(steps):
        x.requires_grad_()
        loss = nn.functional.cross_entropy(model(x), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        x = x.detach() + EPSILON / 4 * gradient.sign()
        x = torch.min(torch.max(x, images - EPSILON), images + EPSILON).clamp(0, 1)
    with torch.no_grad():
        model(x)
    return x


def bare_zero_order(model: nn.Module, images: Tensor, labels: Tensor, side: int, h: float) -> Tensor:
    """Two-sided differences block by block, one image at a time."""
    slopes = torch.zeros_like(images)
    _, channels, height, width = images.shape
    with torch.no_grad():
        for image, label, slope in zip(images, labels, slopes, strict=True):
            for c in range(channels):
                for i in range(0, height, side):
                    for j in range(0, width, side):
                        block = torch.zeros_like(image)
                        block[c, i : i + side, j : j + side] = h
                        up, down = (
                            nn.functional.cross_entropy(model((image + sign * block)[None]), label[None])
                            for sign in (1, -1)
                        )
                        slope += (up - down) / (2 * h * side**2) * (block > 0)
    return slopes


def pyautoattack(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    attacks: list[str] | None = None,
    queries: int = 5000,
    seed: int = 0,
) -> float:
    """Robust accuracy by pyautoattack's standard version, or some of its attacks with the same settings."""
    if find_spec("pyautoattack") is None:
        raise NotHereError("pyautoattack is not installed")
    from pyautoattack import AutoAttack

    with torch.random.fork_rng(), contextlib.redirect_stdout(io.StringIO()):
        adversary = AutoAttack(model, norm="Linf", eps=EPSILON, seed=seed, device=images.device)
        # The version custom would have five restarts.
        adversary.attacks_to_run = attacks or adversary.attacks_to_run
        adversary.square.n_queries = queries
        found, _ = adversary.run_standard_evaluation(images, labels, batch_size=len(images))
    with torch.no_grad():
        return float((model(found).argmax(1) == labels).double().mean())


def foolbox_pgd(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> Tensor:
    if find_spec("foolbox") is None:
        raise NotHereError("foolbox is not installed")
    import foolbox

    attack = foolbox.attacks.LinfPGD(rel_stepsize=0.25, steps=steps)
    asked = foolbox.PyTorchModel(model, bounds=(0, 1), device=images.device)
    found: Tensor = attack(asked, images, labels, epsilons=EPSILON)[1]
    return found


def torchattacks_pgd(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> Tensor:
    if find_spec("torchattacks") is None:
        raise NotHereError("torchattacks is not installed")
    import torchattacks

    found: Tensor = torchattacks.PGD(model, eps=EPSILON, alpha=EPSILON / 4, steps=steps)(images, labels)
    return found
