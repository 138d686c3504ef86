"""AutoAttack's class, with this framework's attacks and judgement behind it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from unmask.compat.classifier import Classifier
from unmask.compat.stages import APGD, FAB, STAGES, Square, TargetedAPGD, stage_attack
from unmask.compat.state import EvaluationState
from unmask.errors import MisuseError, UserError, suggestion
from unmask.option_values import exact_float

__all__ = ["AutoAttack"]

_NORMS = {"Linf": "linf", "L2": "l2", "L1": "l1"}


@attrs.define(eq=False)
class _Outcome:
    """What is known of the samples so far.

    Attributes:
        correct: Probability of the right class, [sample]; 0 or 1 for deterministic models.
        images: The final examples.
        classes: What the model says of them.
    """

    correct: Tensor
    images: Tensor
    classes: Tensor


class AutoAttack:
    """AutoAttack (Croce & Hein 2020) by its own interface; what is run and judged is this framework's.

    ``from autoattack import AutoAttack`` becomes ``from unmask.compat import AutoAttack``. The attacks are
    the stages of the suite ``autoattack``; each works on what those before it left. Their settings are
    attributes, as in the original: ``.attacks_to_run``, ``.apgd``, ``.apgd_targeted``, ``.fab``, ``.square``.

    What differs: models must be in eval mode and give logits, which is checked and said; every example is
    judged in float64; randomised models are scored by expected correctness, so that `version` ``rand`` says
    how likely a sample is classified right, not whether it once was.

    Args:
        model: Images in [0, 1], NCHW, to logits: an `nn.Module` in eval mode, or a function.
        norm: ``Linf``, ``L2`` or ``L1``.
        eps: The radius.
        seed: Of every random stream; None: a new one, which the log tells.
        verbose: Tell what is done, on the standard output.
        attacks_to_run: For version ``custom``: ``apgd-ce``, ``apgd-dlr``, ``apgd-t``, ``fab``, ``fab-t`` and
            ``square``.
        version: ``standard``, ``plus``, ``rand`` or ``custom``.
        is_tf_model: TensorFlow models cannot be run.
        device: Where to compute; where the model is, when None.
        log_path: Also write what is told to this file.

    Raises:
        UserError: An unknown norm or version, a radius that is none, or a TensorFlow model.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Tensor], Tensor],
        norm: str = "Linf",
        eps: float = 0.3,
        seed: int | None = None,
        verbose: bool = True,
        attacks_to_run: Sequence[str] = (),
        version: str = "standard",
        is_tf_model: bool = False,
        device: str | torch.device | None = None,
        log_path: str | os.PathLike[str] | None = None,
    ) -> None:
        if is_tf_model:
            raise UserError("models of TensorFlow cannot be run; convert it to torch.", where="is_tf_model")
        if norm not in _NORMS:
            raise UserError(f"there is no norm '{norm}'. {suggestion(norm, _NORMS)}", where="norm")
        if version not in (*STAGES, "custom"):
            raise UserError(
                f"there is no version '{version}'. {suggestion(version, [*STAGES, 'custom'])}",
                where="version",
            )
        if version != "custom" and attacks_to_run:
            raise UserError(
                f"version '{version}' has its own attacks; give others with version='custom'.",
                where="attacks_to_run",
            )
        if exact_float(eps, "eps") < 0:
            raise UserError(f"must not be negative: {eps}.", where="eps")
        if not callable(model):
            raise MisuseError(f"must be a model, not {type(model).__name__}.", where="model")
        self.model = model
        self.norm = norm
        self.epsilon = exact_float(eps, "eps")
        self.seed = seed
        self.verbose = verbose
        self.attacks_to_run = list(attacks_to_run)
        self.version = version
        self.device = device
        self.apgd, self.apgd_targeted, self.fab, self.square = APGD(), TargetedAPGD(), FAB(), Square()
        self._log_path = None if log_path is None else Path(log_path)
        if version != "custom":
            self.set_version(version)

    @property
    def _classifier(self) -> Classifier:
        """Scripts set `model` and `device` anew, so it is made when it is asked."""
        return Classifier(self.model, self.device)

    def set_version(self, version: str = "standard") -> None:
        """Set attacks and settings as a version has them."""
        self.attacks_to_run = list(STAGES[version])
        if version == "standard":
            l1 = self.norm == "L1"
            self.apgd.n_restarts = 5 if l1 else 1
            self.apgd.use_largereps = self.apgd_targeted.use_largereps = l1
            self.apgd_targeted.n_target_classes = 5 if l1 else 9
            self.fab.n_restarts = 1
        elif version == "rand":
            self.apgd.n_restarts = 1
            self.apgd.eot_iter = 20

    def get_seed(self) -> int:
        """The seed of the next evaluation."""
        return int(time.time()) if self.seed is None else self.seed

    def clean_accuracy(self, x_orig: Tensor, y_orig: Tensor, bs: int = 250) -> float:
        """The share of images that are classified right."""
        self._classifier.check(x_orig, y_orig, bs)
        right = self._classifier.classes(x_orig, bs) == y_orig.to(x_orig.device)
        accuracy = right.double().mean().item()
        self._tell(f"clean accuracy: {accuracy:.2%}")
        return accuracy

    def run_standard_evaluation(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int = 250,
        return_labels: bool = False,
        state_path: str | os.PathLike[str] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Run the attacks, each on what those before it left standing.

        Args:
            x_orig: Images [sample, channel, height, width] in [0, 1].
            y_orig: Class indices [sample].
            bs: Samples attacked together.
            return_labels: Also return what the model says of the examples.
            state_path: A file that keeps which samples stand; an interrupted evaluation goes on there, and
                returns the examples of the present run only. ``unmask import`` reads it.

        Returns:
            The final examples, the image itself where none was found; with their classes if asked for.

        Raises:
            UserError: The model or the images are not what they should be, or the state belongs to other
                attacks or samples, or to a randomised model.
        """
        self._classifier.check(x_orig, y_orig, bs)
        for stage in self.attacks_to_run:
            stage_attack(stage, self.apgd, self.apgd_targeted, self.fab, self.square)
        seed = self.get_seed()
        path = None if state_path is None else Path(state_path)
        state = self._state(path, len(x_orig))
        waiting = [attack for attack in self.attacks_to_run if attack not in state.run_attacks]
        if not self.attacks_to_run:
            raise UserError("names no attack.", where="attacks_to_run")
        self._tell(f"using {self.version} version including {', '.join(waiting)}, seed {seed}.")
        classes = self._classifier.classes(x_orig, bs)
        labels = y_orig.to(x_orig.device)
        correct = (classes == labels).double()
        if state.robust_flags is None:
            state = attrs.evolve(
                state,
                robust_flags=tuple((correct > 0).tolist()),
                clean_accuracy=correct.mean().item(),
            )
        else:
            correct = torch.tensor(state.robust_flags, device=x_orig.device).double()
            self._tell(f"robust accuracy at the time of restoring the state: {correct.mean().item():.2%}")
        self._tell(f"initial accuracy: {state.clean_accuracy:.2%}")
        outcome = _Outcome(correct, x_orig.detach().clone(), classes)
        started = time.monotonic()
        for stage in waiting:
            if not bool((outcome.correct > 0).any()):
                break
            self._run_stage(stage, outcome, x_orig, labels, bs, seed, deterministic=path is not None)
            accuracy = outcome.correct.mean().item()
            state = attrs.evolve(
                state,
                run_attacks=(*state.run_attacks, stage),
                robust_flags=tuple((outcome.correct > 0).tolist()),
            )
            if path is not None:
                state.write(path)
            self._tell(
                f"robust accuracy after {stage.upper()}: {accuracy:.2%} "
                f"(total time {time.monotonic() - started:.1f} s)"
            )
        self._tell_sizes(outcome.images, x_orig)
        self._tell(f"robust accuracy: {outcome.correct.mean().item():.2%}")
        return (outcome.images, outcome.classes) if return_labels else outcome.images

    def run_standard_evaluation_individual(
        self, x_orig: Tensor, y_orig: Tensor, bs: int = 250, return_labels: bool = False
    ) -> dict[str, Tensor | tuple[Tensor, Tensor]]:
        """Run every attack on all images.

        Returns:
            What `run_standard_evaluation` returns, by attack.
        """
        attacks, verbose = self.attacks_to_run, self.verbose
        self._tell(f"using {self.version} version including {', '.join(attacks)}")
        found: dict[str, Tensor | tuple[Tensor, Tensor]] = {}
        for stage in attacks:
            started = time.monotonic()
            try:
                self.attacks_to_run, self.verbose = [stage], False
                images, classes = self.run_standard_evaluation(x_orig, y_orig, bs, return_labels=True)
            finally:
                self.attacks_to_run, self.verbose = attacks, verbose
            found[stage] = (images, classes) if return_labels else images
            accuracy = (classes == y_orig.to(classes.device)).double().mean().item()
            self._tell(
                f"robust accuracy by {stage.upper()}\t{accuracy:.2%}\t"
                f"(time attack: {time.monotonic() - started:.1f} s)"
            )
        return found

    def _state(self, path: Path | None, samples: int) -> EvaluationState:
        if path is None or not path.exists():
            return EvaluationState(frozenset(self.attacks_to_run))
        state = EvaluationState.read(path)
        if state.attacks_to_run != frozenset(self.attacks_to_run):
            raise UserError(
                f"belongs to the attacks {', '.join(sorted(state.attacks_to_run))}, not to "
                f"{', '.join(self.attacks_to_run)}. Name another file, or remove it.",
                where="state_path",
                file=str(path),
            )
        if state.robust_flags is not None and len(state.robust_flags) != samples:
            raise UserError(
                f"belongs to {len(state.robust_flags)} samples, not {samples}.",
                where="state_path",
                file=str(path),
            )
        self._tell(
            f"Restored state from {path}: {', '.join(state.run_attacks) or 'nothing'} already run. Only the "
            "adversarial examples from the current run are going to be returned."
        )
        return state

    def _run_stage(
        self,
        stage: str,
        outcome: _Outcome,
        images: Tensor,
        labels: Tensor,
        batch_size: int,
        seed: int,
        *,
        deterministic: bool,
    ) -> None:
        """Attack what stands, and enter what was found."""
        from unmask.evaluation.evaluate import evaluate

        configured = stage_attack(stage, self.apgd, self.apgd_targeted, self.fab, self.square)
        rows = (outcome.correct > 0).nonzero().squeeze(1)
        results = evaluate(
            {"model": self._classifier.module(images.device)},
            images[rows],
            labels[rows],
            {stage: configured},
            [self.epsilon],
            norm=_NORMS[self.norm],
            seed=seed,
            batch_size=batch_size,
            device=self.device,
            sample_ids=rows.cpu(),
            keep_examples=True,
        )
        message = str(results["message"].item())
        if message:
            raise RuntimeError(f"{stage} failed: {message}")
        if deterministic and str(results["randomness"].item()) != "deterministic":
            raise UserError(
                "a state file says of every sample whether it stands, and a randomised model has no such "
                "answer. Leave state_path out.",
                where="state_path",
            )

        def told(name: str) -> Tensor:
            values = np.ascontiguousarray(results[name].values[0, 0, 0])
            return torch.as_tensor(values, device=images.device)

        correct = torch.minimum(told("correct").double(), outcome.correct[rows])
        fell = correct < outcome.correct[rows]
        outcome.correct[rows] = correct
        outcome.images[rows[fell]] = told("adversarial")[fell].to(images.dtype)
        outcome.classes[rows[fell]] = told("prediction")[fell].to(outcome.classes.dtype)
        self._tell(f"{stage} - {int(fell.sum())} out of {len(rows)} successfully perturbed")

    def _tell_sizes(self, found: Tensor, images: Tensor) -> None:
        difference = (found.double() - images.double()).flatten(1)
        p = {"Linf": math.inf, "L2": 2, "L1": 1}[self.norm]
        size = torch.linalg.vector_norm(difference, ord=p, dim=1).max().item() if len(images) else 0.0
        self._tell(
            f"max {self.norm} perturbation: {size:.5f}, nan in tensor: {int(torch.isnan(found).sum())}, "
            f"max: {found.max().item():.5f}, min: {found.min().item():.5f}"
        )

    def _tell(self, line: str) -> None:
        if not self.verbose:
            return
        print(line, file=sys.stdout, flush=True)
        if self._log_path is not None:
            with self._log_path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
