"""What a manifest says, as frozen types; `reading` makes them, and everything else reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

__all__ = [
    "NORMS",
    "PRECISIONS",
    "PREPARATIONS",
    "PROTOCOLS",
    "QUANTIZERS",
    "AttackSpec",
    "CompositeSpec",
    "DataSpec",
    "EnsembleSpec",
    "FrontEndSpec",
    "Manifest",
    "ModelReference",
    "ModelSpec",
    "NetworkSpec",
    "RecipeSpec",
    "WeightsSpec",
]

NORMS = ("linf", "l2", "l1", "l0")
PRECISIONS = ("float32", "fast")
PROTOCOLS = ("expected", "single-draw")
PREPARATIONS = ("auto", "eager", "channels-last", "torchscript", "inductor")
QUANTIZERS = ("8bit",)

# Options are kept as the manifest spells them: hyphenated keys, plain TOML values.
Options: TypeAlias = Mapping[str, Any]


@attrs.frozen
class DataSpec:
    """A data set.

    Attributes:
        use: Registered name, or ``distribution:name``.
        samples: Size of the seeded random subset; None: everything.
        options: The data set's own options.
    """

    use: str
    samples: int | None = None
    options: Options = attrs.field(factory=dict)


@attrs.frozen
class RecipeSpec:
    """How a model is trained.

    Attributes:
        use: Registered name, or ``distribution:name``.
        options: The recipe's own options.
        data: What to train on; None: the manifest's data set, its training part.
        seed: Another one gives other initial weights and other random numbers on the way.
    """

    use: str
    options: Options = attrs.field(factory=dict)
    data: DataSpec | None = None
    seed: int = 0


@attrs.frozen
class WeightsSpec:
    """A weights file.

    Attributes:
        path: As the manifest spells it; relative to the manifest's folder.
        sha256: What its bytes must hash to.
    """

    path: str
    sha256: str | None = None


@attrs.frozen
class FrontEndSpec:
    """What stands before a composite's backbone."""

    use: str
    options: Options = attrs.field(factory=dict)
    weights: WeightsSpec | None = None


@attrs.frozen
class NetworkSpec:
    """A model built by a registered model entry.

    Attributes:
        use: Registered name, or ``distribution:name``.
        options: The model's own options.
        weights: What it is loaded with.
        recipe: How it is trained.
        expected_accuracy: Clean accuracy it must have, a fraction; None: any.
    """

    use: str
    options: Options = attrs.field(factory=dict)
    weights: WeightsSpec | None = None
    recipe: RecipeSpec | None = None
    expected_accuracy: float | None = None

    @property
    def brings_weights(self) -> bool:
        """It needs no recipe: its table names a weights file, or asks its library for pretrained ones."""
        return self.weights is not None or bool(self.options.get("pretrained"))


@attrs.frozen
class CompositeSpec:
    """A backbone behind a front end.

    Attributes:
        backbone: Another model of the manifest by name, or a model of its own.
        front_end: What stands before it.
        weights: For the whole composite; its parts are then not trained.
        recipe: How the front end is trained, the backbone being as it is.
        expected_accuracy: Clean accuracy it must have, a fraction; None: any.
    """

    backbone: ModelReference
    front_end: FrontEndSpec
    weights: WeightsSpec | None = None
    recipe: RecipeSpec | None = None
    expected_accuracy: float | None = None


@attrs.frozen
class EnsembleSpec:
    """A model made of members.

    Attributes:
        use: Registered name of the ensemble, or ``distribution:name``.
        members: Other models of the manifest by name, or models of their own.
        copies: How many times each member stands in it, each copy trained from another seed.
        options: The ensemble's own options.
        weights: For the whole ensemble; its members are then not trained.
        recipe: How all members are trained together; None: each by its own recipe.
        expected_accuracy: Clean accuracy it must have, a fraction; None: any.
    """

    use: str
    members: tuple[ModelReference, ...]
    copies: int = 1
    options: Options = attrs.field(factory=dict)
    weights: WeightsSpec | None = None
    recipe: RecipeSpec | None = None
    expected_accuracy: float | None = None


ModelSpec: TypeAlias = NetworkSpec | CompositeSpec | EnsembleSpec
ModelReference: TypeAlias = str | ModelSpec


@attrs.frozen
class AttackSpec:
    """An attack.

    Attributes:
        use: Registered name, or ``distribution:name``.
        options: The attack's own options, `max-queries` and `timeout` among them.
    """

    use: str
    options: Options = attrs.field(factory=dict)


@attrs.frozen
class Manifest:
    """One evaluation run.

    Attributes:
        name: What the run is called; its folder bears the name.
        epsilons: Radii in ascending order, in units of a pixel value (l0: how many of them may change).
        data: The samples to attack.
        models: What is attacked, by name.
        attacks: What attacks, by name.
        norm: The norm of the threat model.
        seed: What every random number derives from.
        metrics: Measurements beyond the core ones: registered names, or tables with ``use`` and options.
        bounds: Smallest and largest valid pixel value; None: the data set's own.
        batch_size: Samples in one call of a model; None: chosen by the run.
        precision: ``float32``, or ``fast``: searches in bfloat16, verdicts in float32.
        protocol: How randomised models are scored: ``expected`` or ``single-draw``.
        prepare: The form in which models are searched; ``auto``: chosen by the run.
        device: Where to compute, in torch's spelling; None: the best there is.
        keep_examples: Store the adversarial images.
        quantize: ``8bit``: also judge every final example rounded to 256 values a pixel.
        diagnose: Add the cheap attacks that the verdict needs and that are missing.
        trace: Keep what the gradients of every step look like.
        max_queries: Forward passes that one sample of a cell may cost; None: no limit.
        timeout: Seconds that one cell may take; None: no limit.
        text: The TOML text.
        folder: Where relative paths start from.
        file: Where the text came from, for error messages.
    """

    name: str
    epsilons: tuple[float, ...]
    data: DataSpec
    models: Mapping[str, ModelSpec]
    attacks: Mapping[str, AttackSpec]
    norm: str = "linf"
    seed: int = 0
    metrics: tuple[str | Mapping[str, Any], ...] = ()
    bounds: tuple[float, float] | None = None
    batch_size: int | None = None
    precision: str = "float32"
    protocol: str = "expected"
    prepare: str = "auto"
    device: str | None = None
    keep_examples: bool = False
    quantize: str | None = None
    diagnose: bool = False
    trace: bool = False
    max_queries: int | None = None
    timeout: float | None = None
    text: str = attrs.field(default="", repr=False)
    folder: Path = attrs.field(factory=Path.cwd, repr=False)
    file: str | None = None

    def _repr_html_(self) -> str:
        from unmask.reports.notebook import manifest_html

        return manifest_html(self)
