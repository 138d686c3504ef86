"""Classifiers that come as a whole file, without the Python code that made them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from unmask.errors import UserError
from unmask.manifest.location import resolved
from unmask.weights import sha256_of_file
from unmask_plugins.models.preprocessing import Normalize

__all__ = ["Program", "exported", "torchscript"]


class Program(nn.Module):
    """A network read from a file, after normalisation.

    Args:
        network: Images to logits.
        normalize: Applied to the images first.
        classes: Least number of logits it must give; None: whatever it gives.
    """

    def __init__(self, network: nn.Module, normalize: Normalize, classes: int | None) -> None:
        super().__init__()
        self.network, self.normalize, self.classes = network, normalize, classes

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] in [0, 1] to logits [sample, class].

        Raises:
            UserError: Fewer logits than stated.
        """
        logits: Tensor = self.network(self.normalize(images))
        if self.classes is not None and logits.shape[-1] < self.classes:
            raise UserError(
                f"the file's network gives {logits.shape[-1]} logits for {self.classes} classes.",
                where="classes",
            )
        return logits


class Exported(Program):
    """An exported program: what it does is fixed, also whether it was exported for training."""

    def train(self, mode: bool = True) -> Self:
        """Only eval mode exists; exported graphs refuse even to be asked.

        Raises:
            UserError: Train mode is asked for.
        """
        if mode:
            raise UserError("an exported program cannot be trained; train the model and export it again.")
        for module in self.modules():
            module.training = False
        return self


def torchscript(
    path: Path,
    classes: int | None = None,
    image_channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    sha256: str | None = None,
) -> nn.Module:
    """A classifier that `torch.jit.save` wrote, in eval mode.

    Args:
        path: The file; relative to the manifest.
        classes: Least number of logits it must give; those that the data need unless given.
        image_channels: Channels of the images.
        mean: Subtracted from each channel of the images; 0 unless given.
        std: Each channel is divided by it; 1 unless given.
        sha256: What the file must hash to, in hexadecimal digits.

    Raises:
        UserError: There is no such file, it is not TorchScript, or it has another hash.
    """
    file = _checked(path, sha256)
    normalize = Normalize(mean, std, image_channels)
    try:
        network = torch.jit.load(str(file), map_location="cpu")
    except Exception as error:
        raise UserError(
            f"{file} is not a TorchScript file: {_first_line(error)}. For bare weights name the architecture "
            "and give them under 'weights'; for a program of torch.export use 'torch-export'.",
            where="path",
        ) from error
    return Program(network, normalize, classes).eval()


def exported(
    path: Path,
    classes: int | None = None,
    image_channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    sha256: str | None = None,
) -> nn.Module:
    """A classifier that `torch.export.save` wrote.

    Export it in eval mode and with a dynamic batch dimension: batches of several sizes are shown to it.

    Args:
        path: The file (``.pt2``); relative to the manifest.
        classes: Least number of logits it must give; those that the data need unless given.
        image_channels: Channels of the images.
        mean: Subtracted from each channel of the images; 0 unless given.
        std: Each channel is divided by it; 1 unless given.
        sha256: What the file must hash to, in hexadecimal digits.

    Raises:
        UserError: There is no such file, it is no exported program, or it has another hash, or it takes
            batches of one size only.
    """
    file = _checked(path, sha256)
    normalize = Normalize(mean, std, image_channels)
    try:
        program = torch.export.load(str(file))
    except Exception as error:
        raise UserError(
            f"{file} is not a program of torch.export: {_first_line(error)}. For TorchScript use "
            "'torchscript'.",
            where="path",
        ) from error
    _refuse_fixed_batches(program, file)
    return Exported(program.module(), normalize, classes).eval()


def _refuse_fixed_batches(program: Any, file: Path) -> None:
    names = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in names and "val" in node.meta:
            first = node.meta["val"].shape[0]
            if isinstance(first, int):
                raise UserError(
                    f"{file} takes batches of {first} images only. Export it with a dynamic batch "
                    'dimension: dynamic_shapes = ({0: torch.export.Dim("batch")},).',
                    where="path",
                )
            return


def _checked(path: Path, sha256: str | None) -> Path:
    file = resolved(path)
    if not file.is_file():
        raise UserError(f"there is no file {file}.", where="path")
    if sha256 is not None and (found := sha256_of_file(file)) != sha256.strip().lower():
        raise UserError(f"{file} has the sha256 {found}, not {sha256}; nothing was loaded.", where="sha256")
    return file


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
