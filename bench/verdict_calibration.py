"""Does the verdict call sound models sound and masked ones masked?

Trains small models on scikit-learn's 8 x 8 digits, evaluates each as a user would, with PGD alone and
`diagnose=True`, and tells what the verdict said. ``python bench/verdict_calibration.py`` writes the table to
`docs/calibration.md`; a test makes the same table with fewer samples.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional

import unmask

EPSILONS = ["0.1", "0.2"]
STEPS = 20

TRAINED_ON = 1000
"""The first digits are trained on, the others attacked."""


@attrs.frozen
class Digits:
    """Images [sample, 1, 8, 8] in [0, 1] with labels, to train on and to attack."""

    train: Tensor
    train_labels: Tensor
    images: Tensor
    labels: Tensor


def digits(samples: int) -> Digits:
    """The data."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    x = torch.tensor(raw.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(raw.target)
    last = TRAINED_ON + samples
    return Digits(x[:TRAINED_ON], y[:TRAINED_ON], x[TRAINED_ON:last], y[TRAINED_ON:last])


def cnn() -> nn.Module:
    """Two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def mlp(activation: Callable[[], nn.Module] = nn.Softplus, inputs: int = 64) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 64), activation(), nn.Linear(64, 10))


def linear() -> nn.Module:
    """Multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def trained(
    make: Callable[[], nn.Module],
    data: Digits,
    *,
    seed: int = 0,
    epochs: int = 25,
    epsilon: float = 0.0,
    inner: int = 0,
    after_epoch: Callable[[nn.Module, int], None] = lambda model, epoch: None,
) -> nn.Module:
    """A model trained with Adam; or on what `inner` steps of PGD make of them within `epsilon` (1: FGSM)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make()
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        for epoch in range(epochs):
            for rows in torch.randperm(len(data.train)).split(50):
                x, y = data.train[rows], data.train_labels[rows]
                optimiser.zero_grad()
                functional.cross_entropy(model(_hardened(model, x, y, epsilon, inner)), y).backward()
                optimiser.step()
            after_epoch(model, epoch)
    return model.eval()


def _hardened(model: nn.Module, x: Tensor, y: Tensor, epsilon: float, inner: int) -> Tensor:
    if not inner:
        return x
    step = 1.25 * epsilon / inner if inner == 1 else 2.5 * epsilon / inner
    moved = x + epsilon * (2 * torch.rand_like(x) - 1)
    for _ in range(inner):
        moved = moved.detach().requires_grad_()
        (g,) = torch.autograd.grad(functional.cross_entropy(model(moved), y), moved)
        moved = (moved + step * g.sign()).clamp(x - epsilon, x + epsilon).clamp(0, 1)
    return moved.detach()


class _ZeroBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return torch.zeros_like(gradients[0])


class ZeroBackward(nn.Module):
    """The identity, with a gradient of zero."""

    def forward(self, images: Tensor) -> Tensor:
        return _ZeroBackward.apply(images)


class Sine(nn.Module):
    """A ripple too small to see, whose slope is 25 times that of the image."""

    def forward(self, images: Tensor) -> Tensor:
        return images + 0.05 * torch.sin(500 * images)


class Scaled(nn.Module):
    """Logits times a number."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, images: Tensor) -> Tensor:
        return self.factor * self.model(images)


class SoftmaxTwice(nn.Module):
    """Probabilities, scaled to look like logits; the loss takes their softmax once more."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return 10 * self.model(images).softmax(1)


class SteepSigmoid(nn.Module):
    """A sigmoid whose slope is a setting; a large one saturates it on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = 1.0

    def forward(self, values: Tensor) -> Tensor:
        return torch.sigmoid(self.slope * values)


class Thermometer(nn.Module):
    """Every pixel as the row of its comparisons with fixed levels (Buckman et al. 2018)."""

    def forward(self, images: Tensor) -> Tensor:
        levels = torch.arange(1, 8, device=images.device) / 8
        return (images.unsqueeze(-1) > levels).to(images.dtype).flatten(1)


class DropoutLeftOn(nn.Module):
    """Drops values at every call, though the model is in eval mode."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.rate, training=True)


Zoo = dict[str, Callable[[], nn.Module]]
"""Models by name, trained when they are asked for."""


def sound_models(data: Digits) -> Zoo:
    """Models whose robustness, such as it is, is real."""

    @cache
    def plain(seed: int) -> nn.Module:
        return trained(cnn, data, seed=seed)

    @cache
    def hardened(seed: int) -> nn.Module:
        return trained(cnn, data, seed=seed, epsilon=0.15, inner=7)

    return {
        "linear": lambda: trained(linear, data),
        "linear, trained on PGD examples": lambda: trained(linear, data, epsilon=0.1, inner=5),
        "CNN, seed 0": lambda: plain(0),
        "CNN, seed 1": lambda: plain(1),
        "smooth MLP": lambda: trained(mlp, data),
        "MLP, trained on PGD examples": lambda: trained(mlp, data, epsilon=0.15, inner=7),
        "CNN, trained on FGSM examples": lambda: trained(cnn, data, epsilon=0.1, inner=1),
        "CNN, trained on PGD examples, seed 0": lambda: hardened(0),
        "CNN, trained on PGD examples, seed 1": lambda: hardened(1),
        "three CNNs at random": lambda: unmask.RandomizedEnsemble([plain(k) for k in range(3)]).eval(),
        "CNN behind faint noise": lambda: _behind("gaussian-noise", plain(2), sigma=0.02),
        "two CNNs trained on PGD examples, at random": lambda: unmask.RandomizedEnsemble(
            [hardened(k) for k in range(2)]
        ).eval(),
    }


def masked_models(data: Digits) -> Zoo:
    """Models that look more robust under gradient attacks than they are."""

    @cache
    def plain(seed: int) -> nn.Module:
        return trained(cnn, data, seed=seed)

    def defended(front_end: nn.Module) -> nn.Module:
        return unmask.Defended(front_end, plain(0)).eval()

    return {
        "zero-backward layer": lambda: nn.Sequential(ZeroBackward(), plain(0)).eval(),
        "quantiser, 3 bits": lambda: defended(unmask.front_end("bit-depth", bits=3)),
        "quantiser, 3 bits, not declared": lambda: _behind("bit-depth", plain(0), bits=3),
        "JPEG": lambda: defended(unmask.front_end("jpeg", quality=75)),
        "DnCNN of depth 35": lambda: _denoised(plain(0), data, 0),
        "softmax twice": lambda: SoftmaxTwice(Scaled(plain(0), 20.0)).eval(),
        "logits times 1000": lambda: Scaled(plain(0), 1000.0).eval(),
        "saturated sigmoid": lambda: _saturated(data),
        "thermometer code": lambda: trained(lambda: nn.Sequential(Thermometer(), mlp(nn.ReLU, 448)), data),
        "dropout of pixels left on": lambda: _dropping(data),
        "three zero-backward CNNs at random": lambda: unmask.RandomizedEnsemble(
            [nn.Sequential(ZeroBackward(), plain(k)) for k in range(3)]
        ).eval(),
        "three CNNs behind DnCNNs, at random": lambda: unmask.RandomizedEnsemble(
            [_denoised(plain(k), data, k) for k in range(3)]
        ).eval(),
        "sine of high frequency": lambda: nn.Sequential(Sine(), plain(0)).eval(),
    }


def _behind(front_end: str, backbone: nn.Module, **options: Any) -> nn.Module:
    """A model with a front end that attacks are not told of."""
    return nn.Sequential(unmask.front_end(front_end, **options), backbone).eval()


def _denoised(backbone: nn.Module, data: Digits, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        front = unmask.front_end("dncnn", depth=35, channels=8, image_channels=1, residual=0.05)
    front.calibrate(data.train[:500])
    return unmask.Defended(front.eval(), backbone).eval()


def _saturated(data: Digits) -> nn.Module:
    def steeper(model: nn.Module, epoch: int) -> None:
        model[2].slope = 1.15**epoch

    model = trained(lambda: mlp(SteepSigmoid), data, after_epoch=steeper)
    model[2].slope = 1000.0
    return model


def _dropping(data: Digits) -> nn.Module:
    return trained(lambda: nn.Sequential(DropoutLeftOn(0.7), *cnn()), data, epochs=50)


@attrs.frozen
class Row:
    """One line of the table.

    Attributes:
        model: Its name.
        sound: What it is.
        label: What the verdict said.
        fired: The indicators that spoke for masking.
        clean: Clean accuracy.
        pgd: Accuracy under the user's PGD at the largest radius.
        worst: Under the worst of all attacks there.
        gap: The largest difference of the two, at any radius.
        seconds: Of the evaluation.
    """

    model: str
    sound: bool
    label: str
    fired: tuple[str, ...]
    clean: float
    pgd: float
    worst: float
    gap: float
    seconds: float


def judged(name: str, model: nn.Module, sound: bool, data: Digits, *, draws: int = 32) -> Row:
    """What the verdict says of one model, attacked by PGD alone with `diagnose=True`."""
    started = time.perf_counter()
    results = unmask.evaluate(
        {name: model},
        data.images,
        data.labels,
        {"pgd": unmask.attack("pgd", steps=STEPS)},
        EPSILONS,
        diagnose=True,
        draws=draws,
    )
    verdict = results.unmask.verdict()[name]
    largest = results.epsilon.values.max()
    pgd = results.unmask.robust_accuracy().sel(model=name, attack="pgd")
    worst = results.unmask.worst_case().sel(model=name)
    return Row(
        model=name,
        sound=sound,
        label=verdict.label,
        fired=tuple(i.name for i in verdict.fired if i.evidence),
        clean=float(results.unmask.clean_accuracy().item()),
        pgd=float(pgd.sel(epsilon=largest)),
        worst=float(worst.sel(epsilon=largest)),
        gap=float((pgd - worst).max()),
        seconds=time.perf_counter() - started,
    )


def rows(samples: int) -> list[Row]:
    """The table."""
    data = digits(samples)
    found = []
    for models, sound in ((sound_models(data), True), (masked_models(data), False)):
        for name, make in models.items():
            found.append(judged(name, make(), sound, data))
            print(found[-1], file=sys.stderr, flush=True)
    return found


def page(found: list[Row], samples: int) -> str:
    """The table as a page of the documentation."""

    def counted(sound: bool, label: str) -> int:
        return sum(row.sound == sound and row.label == label for row in found)

    labels = ("masked", "no-sign", "inconclusive")
    lines = [
        "# Calibration of the verdict",
        "",
        "Is the verdict to be believed? Here it is shown models whose truth is known. All are small,",
        f"trained on the first {TRAINED_ON} of scikit-learn's 8 x 8 digits and evaluated on the next",
        f"{samples} as a user would: linf radii {' and '.join(EPSILONS)}, `pgd` with {STEPS} steps",
        "alone, and `diagnose=True`. This page is written by `python bench/verdict_calibration.py`; a test",
        "checks that no sound model is called masked and that every masked one is.",
        "",
        "| truth | " + " | ".join(labels) + " |",
        "|---|" + "---|" * len(labels),
        *(
            f"| {truth} | " + " | ".join(str(counted(sound, label)) for label in labels) + " |"
            for truth, sound in (("sound", True), ("masked", False))
        ),
        "",
        "Accuracies in % at the larger radius: under the user's PGD, and under the worst of all attacks.",
        "",
        "| model | truth | verdict | clean | PGD | worst case | what spoke for masking |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.model} | {'sound' if row.sound else 'masked'} | {row.label} | {100 * row.clean:.1f} | "
            f"{100 * row.pgd:.1f} | {100 * row.worst:.1f} | {', '.join(row.fired) or '-'} |"
            for row in found
        ),
        "",
        "Two dozen models of one small data set do not measure an error rate: they show that indicators",
        "find what they were made for, and that training, seeds, smoothness and randomness alone set none",
        "off. The weakest case is dropout, where PGD with single draws is within a few points of the truth.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    samples = 100
    found = rows(samples)
    place = Path(__file__).resolve().parent.parent / "docs" / "calibration.md"
    place.write_text(page(found, samples), encoding="utf-8")
    print(page(found, samples))


if __name__ == "__main__":
    main()
