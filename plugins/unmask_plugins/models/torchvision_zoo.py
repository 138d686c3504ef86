"""Any classifier of torchvision, by its name there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import nn

from unmask.errors import UserError, nearest
from unmask_plugins.models.hub import not_built
from unmask_plugins.models.preprocessing import Interpolation, Normalize, Resize, put_before

__all__ = ["torchvision_model"]


def torchvision_model(
    name: str,
    pretrained: bool | str = False,
    classes: int | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **options: Any,
) -> nn.Module:
    """A torchvision classifier with its own normalisation and input size inside, in eval mode.

    Both come from the model's weights entry in torchvision; images of another size are resized to the size
    that the entry crops to. Weights are named as torchvision names them.

    Args:
        name: As torchvision lists it, such as ``resnet50`` or ``vit_b_16``.
        pretrained: Take torchvision's weights, from its cache or the PyTorch hub: its default ones, or those
            of a name such as ``IMAGENET1K_V2``.
        classes: Number of logits; the model's own unless given. Pretrained weights keep their own.
        size: Height and width that the network gets to see; ``image_size`` where that is given, else the
            entry's.
        mean: Instead of the entry's.
        std: Instead of the entry's.
        options: Passed on to the model's builder.

    Raises:
        UserError: torchvision has no such classifier or weights, cannot build it so, or its weights cannot be
            fetched.
    """
    import torchvision

    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        close = nearest(name, known)
        hint = f"Did you mean '{close}'? " if close else ""
        raise UserError(
            f"torchvision {torchvision.__version__} has no classifier '{name}'. {hint}"
            "torchvision.models.list_models(torchvision.models) lists them all.",
            where="name",
        )
    entries = torchvision.models.get_model_weights(name)
    entry = entries.DEFAULT
    if isinstance(pretrained, str):
        if pretrained not in entries.__members__:
            raise UserError(
                f"'{name}' has no weights '{pretrained}'. Known: {', '.join(entries.__members__)}.",
                where="pretrained",
            )
        entry = entries[pretrained]
    passed = dict(options)
    if "num_classes" in passed:
        raise UserError("is called 'classes' here.", where="num_classes")
    if classes is not None:
        own = len(entry.meta["categories"])
        if pretrained and classes != own:
            raise UserError(
                f"the pretrained weights have {own} classes, not {classes}. Leave 'classes' out, or "
                "'pretrained'.",
                where="classes",
            )
        passed["num_classes"] = classes
    if "init_weights" not in passed and name in ("googlenet", "inception_v3"):
        passed["init_weights"] = not pretrained  # otherwise they warn that this default will change
    try:
        network: nn.Module = torchvision.models.get_model(
            name, weights=entry if pretrained else None, **passed
        )
    except Exception as error:
        raise not_built(f"torchvision's '{name}'", error, fetches=bool(pretrained)) from error
    shown = entry.transforms()
    height, width = _input_size(size, options.get("image_size"), shown.crop_size)
    return put_before(
        network,
        Resize(height, width, cast("Interpolation", shown.interpolation.value)),
        Normalize(shown.mean if mean is None else mean, shown.std if std is None else std, 3),
    ).eval()


def _input_size(size: int | None, image_size: Any, crop: Sequence[int]) -> tuple[int, int]:
    side = size if size is not None else image_size if isinstance(image_size, int) else int(crop[-1])
    if side < 1:
        raise UserError(f"{side} must be at least 1.", where="size")
    return side, side
