"""Any image classifier of transformers, by its name on the Hugging Face hub or from a local folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from unmask.errors import UserError
from unmask.manifest.location import resolved
from unmask_plugins.adapters.libraries import TRANSFORMERS
from unmask_plugins.models.hub import not_built
from unmask_plugins.models.preprocessing import Interpolation, Normalize, Resize, put_before

__all__ = ["hugging_face_model"]

_INTERPOLATION: Mapping[int, Interpolation] = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""By PIL's number; what torch cannot do on tensors, such as lanczos (1), is nearest to bicubic."""


def hugging_face_model(
    name: str,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    revision: str | None = None,
    **options: Any,
) -> nn.Module:
    """An image classifier of transformers with its image processor inside, in eval mode.

    The processor's mean, standard deviation and size become part of the model, as tensors that gradients
    pass; its rounding to 8 bits and its cropping do not: images of another size are resized to the size that
    the network takes. Weights are named as transformers names them.

    Args:
        name: A repository such as ``google/vit-base-patch16-224``, or a folder that `save_pretrained` wrote,
            relative to the manifest.
        size: Height and width that the network gets to see, instead of the processor's.
        mean: Instead of the processor's.
        std: Instead of the processor's.
        revision: Branch, tag or commit of the repository.
        options: Passed on to `AutoModelForImageClassification.from_pretrained`.

    Raises:
        UserError: transformers is not installed, there is no such model, or it cannot be fetched.
    """
    TRANSFORMERS.needed("the model 'hugging-face'")
    from transformers import AutoModelForImageClassification

    folder = resolved(name)
    local = folder.is_dir()
    if not local and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise UserError(f"there is no folder {folder}.", where="name")
    source = str(folder) if local else name
    fixed = {} if revision is None else {"revision": revision}
    try:
        network: nn.Module = AutoModelForImageClassification.from_pretrained(source, **fixed, **options)
    except Exception as error:
        if local:
            raise not_built(f"the model in {folder}", error, fetches=False) from error
        raise _not_fetched(name, error) from error
    said = _processor(source, fixed)
    height, width = _size(size, said, network)
    channels = int(getattr(network.config, "num_channels", 3))
    interpolation = _INTERPOLATION.get(int(said.get("resample") or 2), "bicubic")
    normalises = bool(said.get("do_normalize", True))
    put_before(
        network,
        Resize(height, width, interpolation),
        Normalize(
            mean if mean is not None else said.get("image_mean") if normalises else None,
            std if std is not None else said.get("image_std") if normalises else None,
            channels,
        ),
    )
    network.register_forward_hook(_logits)
    return network.eval()


def _logits(network: nn.Module, arguments: Any, output: Any) -> Tensor:
    found: Tensor = output.logits if hasattr(output, "logits") else output[0]
    return found


def _not_fetched(name: str, error: Exception) -> UserError:
    cause = " ".join(str(error).split())
    cause = cause if len(cause) <= 300 else f"{cause[:297]}..."
    return UserError(
        f"'{name}' is neither a folder beside the manifest nor in the local cache, and could not be fetched "
        f"({type(error).__name__}: {cause.rstrip('.')}). Look whether the name is right, connect to the "
        "network, or save the model on another machine with save_pretrained and name its folder.",
        where="name",
    )


def _processor(source: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """What the model's image processor is set to; nothing where it has none."""
    from transformers.image_processing_base import ImageProcessingMixin

    try:
        said, _ = ImageProcessingMixin.get_image_processor_dict(source, **fixed)
    except OSError:
        return {}
    return dict(said)


def _size(size: int | None, said: Mapping[str, Any], network: nn.Module) -> tuple[int, int]:
    """Height and width that the network is shown: after cropping, where its processor crops."""
    if size is not None:
        if size < 1:
            raise UserError(f"{size} must be at least 1.", where="size")
        return size, size
    told = said.get("crop_size") if said.get("do_center_crop") else said.get("size")
    if told is None:
        told = getattr(network.config, "image_size", None)
    if isinstance(told, Mapping):
        if "height" in told:
            return int(told["height"]), int(told["width"])
        told = told.get("shortest_edge")
    if isinstance(told, int):
        return told, told
    if isinstance(told, list | tuple) and len(told) == 2:
        return int(told[0]), int(told[1])
    raise UserError("the model does not tell the size of its images; give it.", where="size")
