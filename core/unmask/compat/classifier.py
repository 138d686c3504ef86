"""What `AutoAttack` is given as a model: a module, or any function of images."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from torch import Tensor, nn

from unmask.errors import MisuseError
from unmask.evaluation.arguments import whole_number
from unmask.models.device import placed_on
from unmask.models.guest import guests

__all__ = ["Classifier"]


class _Called(nn.Module):
    """A function as a module that lies where the function is to be called."""

    def __init__(self, function: Callable[[Tensor], Tensor], device: str | torch.device) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("place", torch.zeros((), device=device), persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images)


@attrs.frozen(eq=False)
class Classifier:
    """A model and where it is to be asked.

    Attributes:
        model: Images in [0, 1] to logits: an `nn.Module` in eval mode, or a function.
        device: Where to compute; where the model is, when None.
    """

    model: nn.Module | Callable[[Tensor], Tensor]
    device: str | torch.device | None

    def check(self, images: Tensor, labels: Tensor, batch_size: int) -> None:
        """Refuse what no evaluation could take, before the model's first answer that counts."""
        from unmask.evaluation.inputs import check_samples
        from unmask.evaluation.inspection import inspect_model

        whole_number(batch_size, "bs", optional=False)
        for where, value in (("x_orig", images), ("y_orig", labels)):
            if not isinstance(value, Tensor):
                raise MisuseError(f"must be a torch.Tensor, not {type(value).__name__}.", where=where)
        data = check_samples(images, labels, (0.0, 1.0))
        model = self.module(images.device)
        with placed_on([model], self.device):
            inspect_model(model, data.images, data.labels)

    def module(self, device: torch.device) -> nn.Module:
        """The model; a function is called on the device that was given, or where the images are."""
        return self.model if isinstance(self.model, nn.Module) else _Called(self.model, self.device or device)

    def classes(self, images: Tensor, batch_size: int) -> Tensor:
        """What the model says of images, int64 [sample]."""
        device = self.device
        if device is None and isinstance(self.model, nn.Module):
            device = next((tensor.device for tensor in self.model.parameters()), images.device)
        with torch.no_grad(), guests([self.module(images.device)]):
            parts = [
                self.model(part.to(device or images.device).clone()).argmax(1)
                for part in images.split(batch_size)
            ]
        return torch.cat(parts).to(images.device)
