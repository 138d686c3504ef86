"""The libraries that adapters give access to, and how each is installed."""

from __future__ import annotations

from unmask.entries import Library

__all__ = ["ADV_LIB", "ART", "CLEVERHANS", "FOOLBOX", "ROBUSTBENCH", "TORCHATTACKS", "TRANSFORMERS"]

FOOLBOX = Library("foolbox", "foolbox", "foolbox", "pip install 'unmask[foolbox]'")
ART = Library("art", "art", "adversarial-robustness-toolbox", "pip install 'unmask[art]'")
TORCHATTACKS = Library(
    "torchattacks",
    "torchattacks",
    "torchattacks",
    "pip install --no-deps torchattacks requests (it pins a requests of 2020, which it can do without)",
)
ADV_LIB = Library(
    "adv-lib",
    "adv_lib",
    "adv-lib",
    "pip install --no-deps adv-lib tqdm (visdom, which it asks for, only draws curves)",
)
CLEVERHANS = Library(
    "cleverhans",
    "cleverhans",
    "cleverhans",
    "pip install --no-deps cleverhans absl-py easydict six (its torch part does without TensorFlow)",
)
ROBUSTBENCH = Library(
    "robustbench",
    "robustbench",
    "robustbench",
    "pip install --no-deps robustbench gdown geotorch torchdiffeq pandas pyyaml requests "
    "(it pins timm 1.0.9)",
)
TRANSFORMERS = Library("transformers", "transformers", "transformers", "pip install 'unmask[hugging-face]'")
