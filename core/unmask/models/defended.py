"""A classifier behind a front end."""

from __future__ import annotations

from torch import Tensor, nn

from unmask.errors import MisuseError

__all__ = ["Defended"]


class Defended(nn.Module):
    """`backbone(front_end(images))`, with both parts known to the attacks.

    Args:
        front_end: Image to image, same shape.
        backbone: Images to logits.

    Raises:
        MisuseError: A part is not an `nn.Module`.
    """

    def __init__(self, front_end: nn.Module, backbone: nn.Module) -> None:
        super().__init__()
        for name, part in (("front_end", front_end), ("backbone", backbone)):
            if not isinstance(part, nn.Module):
                raise MisuseError(f"must be a torch.nn.Module, not {type(part).__name__}.", where=name)
        self.front_end = front_end
        self.backbone = backbone
        # A container has no mode of its own: made of parts in eval mode, it is in eval mode.
        self.training = front_end.training or backbone.training

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        logits: Tensor = self.backbone(self.front_end(images))
        return logits
