"""Any classifier of timm, by its name there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from torch import nn

from unmask.errors import MisuseError, UserError, nearest
from unmask_plugins.models.hub import not_built
from unmask_plugins.models.preprocessing import Interpolation, Normalize, Resize, put_before

__all__ = ["timm_model"]

_TIMM_NAMES = {"num_classes": "classes", "in_chans": "image_channels"}


def timm_model(
    name: str,
    pretrained: bool = False,
    classes: int | None = None,
    image_channels: int | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **options: Any,
) -> nn.Module:
    """A timm model with its own normalisation and input size inside, in eval mode.

    Both come from the model's configuration in timm; images of another size are resized as it says. Weights
    are named as timm names them.

    Args:
        name: As timm lists it, such as ``vit_tiny_patch16_224`` or ``resnet18.a1_in1k``.
        pretrained: Take timm's weights, from its cache or the Hugging Face hub.
        classes: Number of logits; the model's own unless given. Pretrained weights then lack the last layer.
        image_channels: Channels of the images; the model's own, mostly 3, unless given.
        size: Height and width that the network gets to see; ``img_size`` where that is given, else the
            configuration's.
        mean: Instead of the configuration's.
        std: Instead of the configuration's.
        options: Passed on to `timm.create_model`, such as ``img_size = 32, patch_size = 4`` for a vision
            transformer.

    Raises:
        UserError: timm has no such model, cannot build it so, or its weights cannot be fetched.
        MisuseError: The model is no classifier of images.
    """
    import timm
    from timm.data import config as data_config

    for theirs, ours in _TIMM_NAMES.items():
        if theirs in options:
            raise UserError(f"is called '{ours.replace('_', '-')}' here.", where=theirs)
    passed = dict(options)
    if classes is not None:
        passed["num_classes"] = classes
    if image_channels is not None:
        passed["in_chans"] = image_channels
    known = name.partition(".")[0]
    if ":" not in name and not timm.is_model(known):
        close = nearest(known, timm.list_models())
        hint = f"Did you mean '{close}'? " if close else ""
        raise UserError(
            f"timm {timm.__version__} has no model '{name}'. {hint}timm.list_models() lists them all.",
            where="name",
        )
    try:
        network = timm.create_model(name, pretrained=pretrained, **passed)
    except Exception as error:
        raise not_built(f"timm's '{name}'", error, fetches=pretrained or ":" in name) from error
    if not isinstance(network, nn.Module) or not getattr(network, "num_classes", 0):
        raise MisuseError(f"timm's '{name}' is no classifier: it has no logits.", where="name")
    resolve: Any = data_config.resolve_model_data_config
    config = resolve(network)
    channels = image_channels or int(config["input_size"][0])
    height, width = _input_size(size, options.get("img_size"), config["input_size"])
    interpolation = config["interpolation"]
    return put_before(
        network,
        Resize(
            height,
            width,
            # What torch cannot do on tensors, such as lanczos, is nearest to bicubic.
            cast("Interpolation", interpolation if interpolation in get_args(Interpolation) else "bicubic"),
        ),
        Normalize(
            _per_channel(config["mean"], channels) if mean is None else mean,
            _per_channel(config["std"], channels) if std is None else std,
            channels,
        ),
    ).eval()


def _input_size(size: int | None, image_size: Any, configured: Sequence[int]) -> tuple[int, int]:
    if size is not None:
        if size < 1:
            raise UserError(f"{size} must be at least 1.", where="size")
        return size, size
    if isinstance(image_size, int):
        return image_size, image_size
    height, width = configured[1:] if image_size is None else image_size
    return int(height), int(width)


def _per_channel(values: Sequence[float], channels: int) -> Sequence[float]:
    """The configuration's values; their mean for images that do not have its colours."""
    return values if len(values) == channels else [sum(values) / len(values)]
