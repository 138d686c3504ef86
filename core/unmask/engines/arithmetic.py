"""Does another process compute the same, to the last bit?"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.steadiness import logits_and_gradient

__all__ = ["SHOWN", "answers_hash"]

SHOWN = 64
"""Images that models are compared on."""


def answers_hash(facts: ModelFacts, images: Tensor) -> str:
    """A hash of a model's logits and input gradients on some images.

    Libraries choose their code by processor and number of threads, and another choice may round differently.
    Members that draw random numbers are left out.
    """
    digest = hashlib.sha256()
    shown = images[:SHOWN].to(device=facts.device, dtype=facts.dtype)
    for member in facts.members:
        if member.stochastic:
            continue
        rows = [shown[i : i + 1] for i in range(min(len(shown), 4))] if member.alone else [shown]
        for images_of_call in rows:
            for tensor in logits_and_gradient(member.module, images_of_call):
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
