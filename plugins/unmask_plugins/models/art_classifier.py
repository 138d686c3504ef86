"""A PyTorch classifier of ART with its preprocessing, as a plain module."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unmask.errors import MisuseError, UserError
from unmask_plugins.adapters.libraries import ART
from unmask_plugins.models.factory import made_by

__all__ = ["ARTClassifier", "art_classifier"]


def art_classifier(factory: str, **options: Any) -> nn.Module:
    """The classifier that `factory` returns, in eval mode, with all that ART puts before it.

    Its preprocessing (`preprocessing`, `preprocessing_defences`) is done where it is written for torch, so
    that gradients pass as they do in ART. Images in [0, 1] are brought to its `clip_values` first.

    Args:
        factory: ``"package.module:callable"``, as for ``module``; it returns an ART `PyTorchClassifier`.
        options: Passed on to it.

    Raises:
        UserError: ART is not installed, the factory cannot be called, or the classifier changes images or
            outputs in NumPy, where no gradient passes.
        MisuseError: It is no `PyTorchClassifier`.
    """
    ART.needed("the model 'art'")
    from art.defences.preprocessor.preprocessor import PreprocessorPyTorch
    from art.estimators.classification import PyTorchClassifier

    classifier, _ = made_by(factory, options)
    if not isinstance(classifier, PyTorchClassifier):
        raise MisuseError(
            f"'{factory}' returned {type(classifier).__name__}, not an ART PyTorchClassifier. For a "
            "torch.nn.Module use 'module'.",
            where="factory",
        )
    steps = [step for step in classifier.preprocessing_operations if step.apply_predict]
    numpy = [type(step).__name__ for step in steps if not isinstance(step, PreprocessorPyTorch)]
    numpy += [type(step).__name__ for step in classifier.postprocessing_defences or ()]
    if numpy:
        raise UserError(
            f"the classifier uses {', '.join(numpy)}, which ART computes in NumPy, where neither gradients "
            "nor judgement can follow. Write that part as an nn.Module: a front end, or a part of the model.",
            where="factory",
        )
    low, high = (0.0, 1.0) if classifier.clip_values is None else map(_one, classifier.clip_values)
    return ARTClassifier(classifier.model, steps, low, high).eval()


def _one(value: Any) -> float:
    """One number for all pixels.

    Raises:
        UserError: There are several.
    """
    numbers = {float(number) for number in getattr(value, "ravel", lambda: [value])()}
    if len(numbers) != 1:
        raise UserError("the classifier has clip values for each pixel; give one for all.", where="factory")
    return numbers.pop()


class ARTClassifier(nn.Module):
    """Images in [0, 1] to what ART's classifier computes of them.

    Args:
        network: Its network.
        steps: What it does before, each with a method ``forward(images, labels)``.
        low: The smallest pixel value that it expects.
        high: The largest.
    """

    def __init__(self, network: nn.Module, steps: list[Any], low: float, high: float) -> None:
        super().__init__()
        self.network, self.steps, self.low, self.high = network, steps, low, high

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        if (self.low, self.high) != (0.0, 1.0):
            images = self.low + (self.high - self.low) * images
        for step in self.steps:
            images, _ = step.forward(images, None)
        logits: Tensor = self.network(images)
        return logits
