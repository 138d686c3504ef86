"""What must be known of a model before it is attacked, and what is refused at once."""

from __future__ import annotations

from typing import Literal

import attrs
import torch
from torch import Tensor, nn

from unmask.crashes import surviving
from unmask.errors import MisuseError, UserError, in_words
from unmask.evaluation.batching import QUANTUM, is_out_of_memory
from unmask.evaluation.going_round import has_front_end
from unmask.evaluation.rows import first_of_each
from unmask.evaluation.steadiness import steady_at, steady_from, takes_one
from unmask.models.defended import Defended
from unmask.models.foreign_random import RandomState, seed_everything
from unmask.models.guest import guests
from unmask.models.randomized import RandomizedEnsemble

__all__ = ["Member", "ModelFacts", "inspect_model"]

Randomness = Literal["deterministic", "enumerated", "drawn"]

PROBES = 16
"""How many images the inspection looks at."""

_REPEATS = 4
"""How often it asks the same question to find randomness that leaves no trace in a generator."""


@attrs.frozen(eq=False)
class Member:
    """One deterministic or self-drawing part of a model.

    Attributes:
        module: The classifier.
        probability: How often it answers.
        stochastic: It draws random numbers when called.
        rows_vary: Copies of one image in a batch get draws of their own.
        alone: Its answer for a row depends on the rest of the batch, so it is called one row at a time.
        least: From this many rows of a call on, a row's answer is the same to the last bit.
        fixed: Only in calls of exactly this many rows it is; None: in calls of any larger number too.
    """

    module: nn.Module
    probability: float = 1.0
    stochastic: bool = False
    rows_vary: bool = False
    alone: bool = False
    least: int = QUANTUM
    fixed: int | None = None

    @property
    def front_end(self) -> nn.Module | None:
        """What stands before the classifier, when it is known."""
        return self.module.front_end if isinstance(self.module, Defended) else None

    @property
    def has_front_end(self) -> bool:
        """Whether it is behind a front end, or some of what it is made of is."""
        return has_front_end(self.module)

    @property
    def backbone(self) -> nn.Module:
        """The classifier without any front end."""
        inner = self.module
        while isinstance(inner, Defended):
            inner = inner.backbone
        return inner


@attrs.frozen(eq=False)
class ModelFacts:
    """What an inspection found.

    Attributes:
        name: The model's name in the run.
        classes: Number of logits.
        members: Its parts; more than one for a randomised ensemble.
        dtype: Floating dtype of its parameters.
        device: Where it lives.
        notes: Warnings worth telling.
    """

    name: str
    classes: int
    members: tuple[Member, ...]
    dtype: torch.dtype
    device: torch.device
    notes: tuple[str, ...] = ()

    @property
    def randomness(self) -> Randomness:
        """``deterministic``; ``enumerated`` (finitely many members); ``drawn`` (anything else)."""
        if any(member.stochastic for member in self.members):
            return "drawn"
        return "enumerated" if len(self.members) > 1 else "deterministic"

    @property
    def has_front_end(self) -> bool:
        """Whether an attack can go round a front end of it."""
        return any(member.has_front_end for member in self.members)


def _flatten(model: nn.Module, probability: float = 1.0) -> list[tuple[nn.Module, float]]:
    """Members of nested randomised ensembles with the probability that each answers."""
    if not isinstance(model, RandomizedEnsemble):
        return [(model, probability)]
    shares = model.probabilities.tolist()
    found = []
    for member, share in zip(model.members, shares, strict=True):
        if share > 0:
            found += _flatten(member, probability * share)
    return found


def _placement(model: nn.Module) -> tuple[torch.dtype, torch.device]:
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point() and tensor is not getattr(model, "probabilities", None):
            return tensor.dtype, tensor.device
    return torch.float32, torch.device("cpu")


def _ask(model: nn.Module, images: Tensor, where: str) -> Tensor:
    try:
        with torch.no_grad():
            # A copy: some models work in place.
            logits = model(images.clone(memory_format=torch.contiguous_format))
    except (Exception, SystemExit) as cause:
        if is_out_of_memory(cause):
            raise UserError(
                f"{len(images)} images of shape {tuple(images.shape[1:])} do not fit into memory: "
                f"{in_words(cause)}. Take a device with more memory, or smaller images.",
                where=where,
            ) from cause
        raise UserError(
            f"the model failed on images of shape {tuple(images.shape)}: {in_words(cause)}. "
            "Check that it takes images of this size and number of channels, NCHW.",
            where=where,
        ) from cause
    if not isinstance(logits, Tensor):
        raise MisuseError(
            f"the model returned {type(logits).__name__}, not a tensor of logits [sample, class]. "
            "Wrap it in a module that returns the logits alone.",
            where=where,
        )
    if logits.ndim != 2 or len(logits) != len(images) or logits.shape[1] < 2:
        raise UserError(
            f"the model returned shape {tuple(logits.shape)} for {len(images)} images; logits are "
            "[sample, class] with at least two classes.",
            where=where,
        )
    if not logits.is_floating_point():
        raise MisuseError(f"the model returned {logits.dtype}; logits are floating-point.", where=where)
    return logits


def _refuse_training(model: nn.Module, where: str) -> None:
    training = [name or "the model itself" for name, module in model.named_modules() if module.training]
    if training:
        shown = ", ".join(training[:3]) + (f" and {len(training) - 3} more" if len(training) > 3 else "")
        raise UserError(
            f"in training mode: {shown}. Dropout and batch normalisation would make every number "
            "meaningless; call model.eval() first.",
            where=where,
        )


def _refuse_probabilities(logits: Tensor, where: str) -> None:
    values = logits.double()
    within = bool(((values >= 0) & (values <= 1)).all())
    if not within or not bool(((values.sum(1) - 1).abs() < 1e-4).all()):
        return
    # Constant 0/1 rows are legitimate logits of test models; a softmax leaves strictly mixed ones.
    if bool(((values > 1e-6) & (values < 1 - 1e-6)).any()):
        raise UserError(
            "the outputs are probabilities (every row lies in [0, 1] and sums to 1). Attacks need logits: "
            "remove the final softmax.",
            where=where,
        )


def _differ(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return True
    scale = 1.0 + float(b[torch.isfinite(b)].abs().max()) if bool(torch.isfinite(b).any()) else 1.0
    return not bool(torch.isclose(a, b, rtol=0.0, atol=1e-4 * scale, equal_nan=True).all())


def _probe_member(
    module: nn.Module, probability: float, images: Tensor, logits: Tensor, where: str
) -> tuple[Member, list[str]]:
    """What there is to know of a member that answered the images with these logits."""
    notes: list[str] = []
    before = RandomState.capture(module)
    answers = [logits, *(_ask(module, images, where) for _ in range(_REPEATS - 1))]
    if not bool(torch.isfinite(answers[0]).all()):
        raise UserError(
            "the logits of clean images are NaN or infinite. Check the weights and the input range.",
            where=where,
        )
    _refuse_probabilities(answers[0], where)
    drew = not before.same_as(RandomState.capture(module))
    varies = any(_differ(answer, answers[0]) for answer in answers[1:])
    if drew or varies:
        copies = images[:1].expand(PROBES, *images.shape[1:])
        rows_vary = False
        for seed in range(_REPEATS * 2):
            seed_everything(module, seed)
            answer = _ask(module, copies, where)
            rows_vary = rows_vary or _differ(answer, answer[:1].expand_as(answer))
        seed_everything(module, 0)
        first = _ask(module, images, where)
        seed_everything(module, 0)
        if _differ(_ask(module, images, where), first):
            notes.append(
                "draws random numbers that cannot be seeded; its scores vary from run to run within their "
                "interval"
            )
        return Member(module, probability, stochastic=True, rows_vary=rows_vary), notes
    try:
        least = steady_from(module, images)
    except Exception as cause:
        if not is_out_of_memory(cause):
            raise
        notes.append(
            "does not fit into memory with more than a few images, with which it was to be compared with "
            "itself; it is called one image at a time"
        )
        return Member(module, probability, alone=True), notes
    if least is not None and images.device.type == "cpu":
        return Member(module, probability, least=least), notes
    filled = images[:1].expand(len(images), *images.shape[1:])
    if len(images) > 1 and _differ(_ask(module, filled, where)[:1], answers[0][:1]):
        notes.append(
            "answers differently when other images are in the batch; it is called one image at a time"
        )
        return Member(module, probability, alone=True), notes
    if least is None and steady_at(module, images, 2 * QUANTUM):
        return Member(module, probability, least=2 * QUANTUM, fixed=2 * QUANTUM), notes
    if least is None:
        return Member(module, probability, alone=takes_one(module, images)), notes
    return Member(module, probability, least=least), notes


def inspect_model(model: nn.Module, images: Tensor, labels: Tensor, *, name: str = "model") -> ModelFacts:
    """Look at a model with a few images; it is left as it was.

    Args:
        model: Images [sample, channel, height, width] to logits [sample, class].
        images: Clean images; the first few are shown to the model.
        labels: Their classes.
        name: Its name in messages.

    Raises:
        UserError: It is in training mode, raises, returns probabilities, non-finite logits, a wrong shape, or
            fewer classes than the labels need; or it ends the process.
    """
    where = f"models.{name}"
    if not isinstance(model, nn.Module):
        raise MisuseError(
            f"must be a torch.nn.Module from images to logits, not {type(model).__name__}.", where=where
        )
    _refuse_training(model, where)
    dtype, device = _placement(model)
    if dtype not in (torch.float32, torch.float64):
        raise MisuseError(
            f"its weights are {str(dtype).removeprefix('torch.')}; verdicts are taken in single precision or "
            "better: call model.float() first.",
            where=where,
        )
    # One image of every class where there are enough, so that a constant part of the data does not mislead.
    varied = first_of_each(labels, torch.arange(len(labels)))[:PROBES]
    chosen = torch.cat([varied, torch.arange(len(labels))]).unique()[: max(PROBES, len(varied))]
    shown = images[chosen].to(device=device, dtype=dtype)
    notes: list[str] = []
    members: list[Member] = []
    classes = 0
    with surviving(f"model '{name}' was inspected", where, theirs=True), guests([model]):
        for module, probability in _flatten(model):
            logits = _ask(module, shown, where)
            if members and logits.shape[1] != classes:
                raise UserError(
                    f"its members do not agree: one has {classes} classes, another {logits.shape[1]}.",
                    where=where,
                )
            classes = logits.shape[1]
            member, said = _probe_member(module, probability, shown, logits, where)
            members.append(member)
            notes += [note for note in said if note not in notes]
    if len(labels) and int(labels.max()) >= classes:
        raise UserError(
            f"has {classes} classes, but the labels go up to {int(labels.max())}. Labels are class indices "
            f"from 0 to {classes - 1}.",
            where=where,
        )
    return ModelFacts(name, classes, tuple(members), dtype, device, tuple(notes))
