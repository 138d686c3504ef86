"""Whether what a model says of an image hangs, to the last bit, on the calls it is asked in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unmask.evaluation.batching import LEAST, QUANTUM, rows_at_once, sizes_that_tell

__all__ = ["logits_and_gradient", "steady_at", "steady_from", "takes_one"]


def takes_one(module: nn.Module, images: Tensor) -> bool:
    """Whether the model answers a single image; one that does not cannot be called one row at a time."""
    try:
        with torch.no_grad():
            module(images[:1].clone())
    except Exception:
        return False
    return True


def logits_and_gradient(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """The answer and the gradient of a smooth function of it; zero where nothing can be differentiated."""
    with torch.enable_grad():
        x = images.detach().requires_grad_()
        logits = module(x.clone())
        if not logits.requires_grad:
            return logits, torch.zeros_like(images)
        # The gradient may be severed on purpose.
        (gradient,) = torch.autograd.grad(logits.logsumexp(1).sum(), x, allow_unused=True)
    return logits.detach(), torch.zeros_like(images) if gradient is None else gradient


def steady_from(module: nn.Module, images: Tensor) -> int | None:
    """From how many rows on a row's last bits stay the same wherever it stands in a batch, if ever.

    Matrix products of odd sizes round differently with the alignment of a row in memory; one differing bit
    is enough for the sign of a gradient to turn, and an attack with it. Only asked on the CPU: elsewhere one
    image at a time would cost too much, and what hangs on it is reported as borderline.
    """
    if images.device.type != "cpu":
        return QUANTUM
    # No more rows than calls have: large images are dear, and few of them fit into memory with a graph.
    count = min(5 * QUANTUM, max(rows_at_once(images[0]), 2 * QUANTUM))
    many = images.repeat(-(-count // len(images)), 1, 1, 1)[:count]
    shuffled = torch.randperm(len(many), generator=torch.Generator().manual_seed(0))
    logits, gradient = logits_and_gradient(module, many)

    def same_in_batches_of(size: int) -> bool:
        rows = shuffled[-size:]
        again = logits_and_gradient(module, many[rows])
        return torch.equal(again[0], logits[rows]) and torch.equal(again[1], gradient[rows])

    def does(least: int) -> bool:
        return all(same_in_batches_of(size) for size in sizes_that_tell(least) if size <= count)

    return next(filter(does, LEAST), None)


def steady_at(module: nn.Module, images: Tensor, size: int) -> bool:
    """Whether a row's last bits stay the same wherever it stands in batches of one size.

    So it is with matrix products whose rows begin at full cache lines: the code is chosen by their number.
    """
    many = images.repeat(-(-3 * size // len(images)), 1, 1, 1)[: 3 * size]
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    for turn in range(2):
        order = torch.randperm(len(many), generator=torch.Generator().manual_seed(turn))
        for rows in order.split(size):
            logits, gradient = logits_and_gradient(module, many[rows])
            for row, answer, slope in zip(rows.tolist(), logits, gradient, strict=True):
                before = seen.setdefault(row, (answer, slope))
                if not (torch.equal(before[0], answer) and torch.equal(before[1], slope)):
                    return False
    return True
