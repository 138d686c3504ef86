"""An attack uses of a model what its entry declares: reports and the verdict sort attacks by it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unmask.testing.attacks.setting import AttackSubject, radius
from unmask.testing.known import linear_problem
from unmask.testing.laws import require

__all__ = ["CHECKS"]


class _ClassOnly(nn.Module):
    """Answers with the class of another model alone: one-hot logits."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: Tensor) -> Tensor:
        logits = self.inner(images)
        shown: Tensor = nn.functional.one_hot(logits.argmax(1), logits.shape[1]).to(logits.dtype)
        return shown


def uses_what_it_declares(subject: AttackSubject) -> None:
    """An attack by scores takes no gradient; one by labels sees nothing but the predicted class."""
    configured = subject.configured()
    if configured.access not in ("scores", "labels"):
        return
    model, images, _ = linear_problem(n=6)
    with torch.no_grad():
        labels = model(images).argmax(1)
    epsilon = radius(subject.norm, 12)
    results = subject.evaluated(model, images, labels, [epsilon], attack=configured)
    require(
        bool((results["backwards"] == 0).all()),
        f"it declares access = '{configured.access}' and took {int(results['backwards'].max())} gradients",
        "Call the target under torch.no_grad(), or declare access = 'gradients'.",
    )
    if configured.access != "labels":
        return
    seen = [
        subject.returned(subject.task(shown, images, labels, epsilon), configured)
        for shown in (model, _ClassOnly(model).eval())
    ]
    same = len(seen[0]) == len(seen[1]) and all(
        torch.equal(a, b) for a, b in zip(seen[0], seen[1], strict=True)
    )
    require(
        same,
        "it declares access = 'labels' and behaves otherwise when the logits change but the classes do not",
        "Use target(images).argmax(1) alone, or declare access = 'scores'.",
    )


CHECKS = (uses_what_it_declares,)
