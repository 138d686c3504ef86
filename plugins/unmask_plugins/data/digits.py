"""Handwritten digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unmask.data import LabelledImages
from unmask.errors import UserError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["TEST_IMAGES", "digits"]

TEST_IMAGES = 360
"""The last so many of the 1,797 images are the test set."""


def digits(split: Literal["train", "test"] = "test") -> LabelledImages:
    """The test set of UCI's Optical Recognition of Handwritten Digits, 1,797 images of 8 x 8 pixels.

    Args:
        split: ``test``, the last 360 images, or ``train``, the 1,437 before them. Ids count through both.

    Returns:
        Images [sample, 1, 8, 8], float32 in [0, 1] in steps of 1/16, and their digit.

    Raises:
        UserError: An unknown split.
    """
    import torch

    if split not in ("train", "test"):
        raise UserError(f"'{split}' is neither 'train' nor 'test'.", where="split")
    table = torch.from_numpy(_table())
    images = table[:, :64].float().div(16.0).reshape(-1, 1, 8, 8)
    labels = table[:, 64].long()
    ids = torch.arange(len(images))
    rows = slice(-TEST_IMAGES, None) if split == "test" else slice(None, -TEST_IMAGES)
    return LabelledImages(images=images[rows], labels=labels[rows], ids=ids[rows], name="digits")


def _table() -> np.ndarray[Any, Any]:
    """64 pixel values and the digit of every image, [image, 65].

    Read from scikit-learn's own file where it lies as usual: importing the library takes longer than that.
    """
    import numpy as np

    spec = find_spec("sklearn")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder, "datasets", "data", "digits.csv.gz")
        if file.exists():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    whole = load_digits()
    return np.column_stack([whole.data, whole.target])
