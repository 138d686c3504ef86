"""``python -m bench.adapters``: what each library's own number says, and what the door says.

The models of the quickstart are attacked twice by the same attack with the same settings: once by the
library as its documentation shows, which counts what the library counts; once through the door. Prints a
Markdown table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

import unmask

EPSILON = 0.2
"""The quickstart's radius in linf."""

RADII = {"linf": EPSILON, "l2": 1.0}
SEED = 0


@attrs.frozen
class Contest:
    """One attack of one library.

    Attributes:
        use: Its name here.
        norm: The norm of the contest.
        options: Settings that both get.
        by_hand: Model, images, labels and radius to the share that stands, as the library counts.
        counts: How the library counts.
    """

    use: str
    norm: str
    options: dict[str, Any]
    by_hand: Callable[[nn.Module, Tensor, Tensor, float], float]
    counts: str = "predictions at what it returned"


def standing(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """What scripts print after an attack: the share of predictions that are right."""
    with torch.no_grad():
        return float((model(images.float()).argmax(1) == labels).double().mean())


def foolbox_pgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    import foolbox

    attack = foolbox.attacks.LinfPGD(steps=40)
    _, _, success = attack(foolbox.PyTorchModel(model, bounds=(0, 1)), images, labels, epsilons=epsilon)
    return float(1 - success.double().mean().item())


def foolbox_ddn(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    import foolbox

    attack = foolbox.attacks.DDNAttack(steps=30)
    _, _, success = attack(foolbox.PyTorchModel(model, bounds=(0, 1)), images, labels, epsilons=epsilon)
    return float(1 - success.double().mean().item())


def torchattacks_pgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    import torchattacks

    attack = torchattacks.PGD(model, eps=epsilon, alpha=epsilon / 4, steps=10)
    return standing(model, attack(images, labels), labels)


def torchattacks_cw(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    import torchattacks

    return standing(model, torchattacks.CW(model, c=1, steps=50)(images, labels), labels)


def art_pgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    estimator = PyTorchClassifier(
        model, nn.CrossEntropyLoss(), tuple(images.shape[1:]), 10, clip_values=(0.0, 1.0), device_type="cpu"
    )
    attack = ProjectedGradientDescentPyTorch(
        estimator, eps=epsilon, eps_step=epsilon / 3, max_iter=20, verbose=False
    )
    found = attack.generate(images.numpy(), labels.numpy())
    return float((estimator.predict(found).argmax(1) == labels.numpy()).mean())


def adv_lib_fmn(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    from unmask_plugins.adapters.stand_ins import standing_in

    with standing_in("visdom"):
        from adv_lib.attacks import fmn
    found = fmn(model, images, labels, norm=float("inf"), steps=30)
    with torch.no_grad():
        fooled = model(found).argmax(1) != labels
    near = (found - images).abs().flatten(1).amax(1) <= epsilon
    return float(1 - (fooled & near).double().mean().item())


def cleverhans_pgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> float:
    from cleverhans.torch.attacks.projected_gradient_descent import projected_gradient_descent

    found = projected_gradient_descent(model, images, epsilon, epsilon / 10, 20, np.inf, 0.0, 1.0, y=labels)
    return standing(model, found, labels)


CONTESTS = (
    Contest("foolbox:LinfPGD", "linf", {"steps": 40}, foolbox_pgd, "its flags of success"),
    Contest("foolbox:DDNAttack", "l2", {"steps": 30}, foolbox_ddn, "its flags of success"),
    Contest("torchattacks:PGD", "linf", {"steps": 10}, torchattacks_pgd),
    Contest("torchattacks:CW", "l2", {"steps": 50}, torchattacks_cw, "predictions, whatever the distance"),
    Contest("art:ProjectedGradientDescentPyTorch", "linf", {"max_iter": 20}, art_pgd),
    Contest("adv-lib:fmn", "linf", {"steps": 30}, adv_lib_fmn, "predictions within the radius"),
    Contest("cleverhans:projected_gradient_descent", "linf", {"nb_iter": 20}, cleverhans_pgd),
)


def models_and_images(samples: int) -> tuple[dict[str, nn.Module], Tensor, Tensor]:
    """The quickstart's models, trained where they are not kept, and its first samples."""
    from unmask.manifest.data_section import build_data
    from unmask.manifest.reading import read_manifest
    from unmask.models.building import build_models

    manifest = read_manifest(Path(__file__).parents[1] / "manifests" / "quickstart.toml")
    data = build_data(manifest)
    built = build_models(manifest, device=torch.device("cpu"))
    chosen = ("backbone", "backbone+front", "backbone+front 3x")
    return {name: built.models[name].eval() for name in chosen}, data.images[:samples], data.labels[:samples]


def row(contest: Contest, name: str, model: nn.Module, images: Tensor, labels: Tensor) -> str:
    """One line of the table."""
    epsilon = RADII[contest.norm]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        np.random.seed(SEED)
        theirs = contest.by_hand(model, images.clone(), labels.clone(), epsilon)
    started = time.perf_counter()
    results = unmask.evaluate(
        {name: model},
        images,
        labels,
        {"a": unmask.attack(contest.use, **contest.options)},
        [epsilon],
        norm=contest.norm,
        seed=SEED,
    )
    ours = results.unmask.robust_accuracy().item()
    spread = results.unmask.interval()
    forwards = float(results.forwards.mean())
    message = str(results.message.item())
    said = message or f"{100 * ours:.1f} ({100 * spread.lower.item():.1f}-{100 * spread.upper.item():.1f})"
    return (
        f"| `{contest.use}` | {contest.norm}, {epsilon:g} | {name} | {100 * theirs:.1f} | {said} | "
        f"{contest.counts} | {forwards:.0f} | {time.perf_counter() - started:.0f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.adapters", description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    models, images, labels = models_and_images(asked.samples)
    print(f"{asked.samples} digits. Robust accuracy in %; in brackets 99 % intervals.\n")
    print(
        "| attack | norm, epsilon | model | the library says | the door says | the library counts | "
        "forwards a sample | time |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for contest in CONTESTS:
        for name, model in models.items():
            print(row(contest, name, model, images, labels), flush=True)


if __name__ == "__main__":
    main()
