"""The rows of the table. Each function measures one and says what it found."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import attrs
import torch
from torch import Tensor, nn

import unmask
from bench import memory, ours, peers
from bench.setting import ADVERSARIAL, STANDARD, NotHereError, Setting
from bench.timing import in_turn, seconds
from unmask_kernels.losses import cross_entropy
from unmask_plugins.attacks.pgd import PGD
from unmask_plugins.gradients.autograd import Autograd
from unmask_plugins.gradients.expectation import ExpectationOverTransformation
from unmask_plugins.gradients.finite_difference import FiniteDifference


@attrs.frozen
class Found:
    """One line of the table.

    Attributes:
        measure: What was compared.
        value: The number.
        target: What it must be.
        met: Whether it is.
        detail: The figures behind it.
    """

    measure: str
    value: str
    target: str
    met: bool
    detail: str = ""


Row = Callable[[Setting], Iterator[Found]]


def overhead(setting: Setting) -> Iterator[Found]:
    """PGD-50, float32, eager, without early exit, against a bare loop of forward and backward passes."""
    model = setting.model()
    images, labels = setting.samples_of(model, 64)
    search = ours.Search(model, images, labels)
    whole = ours.Search(model, images, labels, rows=64)
    for name, one in (("", search), (", model calls of the loop's own size", whole)):
        pair = in_turn(
            lambda one=one: one.run(PGD(steps=50)),  # type: ignore[misc]
            lambda: peers.bare_pgd(model, images, labels, 50),
            setting.device,
            setting.repeats,
        )
        a, b = pair.medians
        yield Found(
            f"PGD-50 / bare loop{name}", f"{pair.overhead:.3f}", "<= 1.05", pair.overhead <= 1.05,
            f"{a:.2f} s / {b:.2f} s, 64 images",
        )  # fmt: skip


def _against_autoattack(
    setting: Setting,
    which: str,
    attack: object,
    name: str,
    wanted: dict[str, float],
    theirs: Callable[[nn.Module, Tensor, Tensor], float],
) -> Iterator[Found]:
    setting.needs_data()
    model = setting.model(which)
    images, labels = setting.samples_of(model)
    accuracy = [0.0]

    def run_theirs() -> None:
        accuracy[0] = theirs(model, images, labels)

    slow = seconds(run_theirs, setting.device)
    for precision, factor in wanted.items():
        found = [0.0]

        def run_ours(precision: str = precision, found: list[float] = found) -> None:
            found[0], _ = ours.robust_accuracy(model, images, labels, attack, precision=precision)

        quick = statistics.median(seconds(run_ours, setting.device) for _ in range(min(setting.repeats, 3)))
        as_strong = found[0] <= accuracy[0] + 1 / len(images) + 1e-9
        yield Found(
            f"{name}, {precision}",
            f"{slow / quick:.2f} x",
            f">= {factor:g} x, accuracy not more than one sample higher",
            slow / quick >= factor and as_strong,
            f"{quick:.1f} s, accuracy {found[0]:.3f} / {slow:.1f} s, {accuracy[0]:.3f}; {len(images)} images",
        )


def autoattack_standard(setting: Setting) -> Iterator[Found]:
    """The standard suite on the standard ResNet-20, against pyautoattack (once)."""
    attack = unmask.attack("autoattack", version="standard")
    yield from _against_autoattack(
        setting, STANDARD, attack, "autoattack, standard ResNet-20", {"float32": 20}, peers.pyautoattack
    )


def autoattack_adversarial(setting: Setting) -> Iterator[Found]:
    """The standard suite on the adversarial ResNet-20, float32 and fast, against pyautoattack (once)."""
    attack = unmask.attack("autoattack", version="standard")
    yield from _against_autoattack(
        setting, ADVERSARIAL, attack, "autoattack, adversarial ResNet-20", {"float32": 1.8, "fast": 4},
        peers.pyautoattack,
    )  # fmt: skip


def square(setting: Setting) -> Iterator[Found]:
    """Square with 1,000 queries on the adversarial ResNet-20, against pyautoattack (once)."""
    yield from _against_autoattack(
        setting, ADVERSARIAL, unmask.attack("square", queries=1000), "Square, 1,000 queries",
        {"float32": 1.8, "fast": 5},
        lambda model, x, y: peers.pyautoattack(model, x, y, ["square"], 1000),
    )  # fmt: skip


def square_to_accuracy(setting: Setting) -> Iterator[Found]:
    """Square with as few queries as leave no more than pyautoattack's 1,000 do, against those (once)."""
    setting.needs_data()
    model = setting.model()
    images, labels = setting.samples_of(model)
    left = [1.0]

    def run_theirs() -> None:
        left[0] = peers.pyautoattack(model, images, labels, ["square"], 1000)

    slow = seconds(run_theirs, setting.device)
    for precision, factor in {"float32": 1.8, "fast": 5}.items():
        for queries in range(300, 1001, 100):
            attack, found = unmask.attack("square", queries=queries), [1.0]

            def run_ours(
                attack: object = attack, precision: str = precision, found: list[float] = found
            ) -> None:
                found[0], _ = ours.robust_accuracy(model, images, labels, attack, precision=precision)

            quick = seconds(run_ours, setting.device)
            if found[0] <= left[0] + 1 / len(images) + 1e-9:
                break
        yield Found(
            f"Square, to the accuracy of pyautoattack's 1,000 queries, {precision}",
            f"{slow / quick:.2f} x",
            f">= {factor:g} x, accuracy not more than one sample higher",
            slow / quick >= factor and found[0] <= left[0] + 1 / len(images) + 1e-9,
            f"{quick:.1f} s, {queries} queries, accuracy {found[0]:.3f} / {slow:.1f} s, {left[0]:.3f}",
        )


def zero_order_throughput(setting: Setting) -> Iterator[Found]:
    """Zero-order PGD: images a second through the model, against a bare forward pass in equal batches."""
    model = setting.model()
    images, labels = setting.samples_of(model, 8)
    gradient = FiniteDifference(square=2, group=2)
    search = ours.Search(model, images, labels)
    size = ours.rows_at_once(images[0])
    shown = 0

    def zero_order() -> None:
        nonlocal shown
        task = search.task()
        for _ in range(2):
            gradient(task, images, cross_entropy)
        shown = int(task.target._ledger.forwards.sum())

    def bare() -> None:
        many = images.repeat(-(-shown // len(images)), 1, 1, 1)[:shown]
        with torch.no_grad():
            for part in many.split(size):
                model(part)

    zero_order()
    pair = in_turn(zero_order, bare, setting.device, setting.repeats)
    share = 1 / pair.overhead
    yield Found(
        "zero-order PGD, images/s / bare forward", f"{share:.3f}", ">= 0.95", share >= 0.95,
        f"{shown / pair.medians[0]:.0f} / {shown / pair.medians[1]:.0f} images/s in batches of {size}",
    )  # fmt: skip


def zero_order_kernel(setting: Setting) -> Iterator[Found]:
    """The zero-order gradient in batches, against a loop over blocks: on a linear model and on ResNet-20."""
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).eval().requires_grad_(False).to(setting.device)
    resnet = setting.model()
    for name, model, options in (
        ("linear model", linear, {}),
        ("ResNet-20 as given", resnet, {}),
        ("ResNet-20 as large runs ask it", resnet, {"prepared": True}),
        ("the same, fast", resnet, {"prepared": True, "half": True}),
    ):
        images, labels = setting.samples_of(model, 4)
        gradient = FiniteDifference(square=4, group=1)
        search = ours.Search(model, images, labels, **options)

        def batched(search: ours.Search = search, images: Tensor = images) -> None:
            gradient(search.task(), images, cross_entropy)  # noqa: B023

        def loop(model: nn.Module = model, images: Tensor = images, labels: Tensor = labels) -> None:
            peers.bare_zero_order(model, images, labels, side=4, h=0.01)

        pair = in_turn(batched, loop, setting.device, setting.repeats)
        yield Found(
            f"zero-order gradient, batched / by loop, {name}", f"{pair.speedup:.2f} x", ">= 5 x",
            pair.speedup >= 5, f"{pair.medians[0]:.3f} s / {pair.medians[1]:.3f} s, 4 images, 192 blocks",
        )  # fmt: skip


def expectation(setting: Setting) -> Iterator[Found]:
    """EOT on an ensemble of three: evaluations for a gradient at least as accurate as 20 draws."""
    members = [setting.model(which) for which in (ADVERSARIAL, STANDARD, ADVERSARIAL)]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in members[2].parameters():
            p.mul_(1 + 0.05 * torch.randn(p.shape, generator=generator).to(p))
    ensemble = unmask.RandomizedEnsemble(members).eval()
    images, labels = setting.samples_of(members[0], 16)

    def gradient_of(source: object) -> tuple[Tensor, int]:
        task = ours.Search(ensemble, images, labels).task()
        slope = source(task, images, cross_entropy)  # type: ignore[operator]
        return slope.gradient, int(task.target._ledger.forwards.max())

    def true_gradient() -> Tensor:
        x = images.clone().requires_grad_()
        loss = sum(nn.functional.cross_entropy(m(x), labels, reduction="sum") for m in members) / 3
        return torch.autograd.grad(loss, x)[0]

    truth = true_gradient()
    exact, evaluations = gradient_of(ExpectationOverTransformation(Autograd(), samples=20))
    draws = torch.stack([gradient_of(Autograd())[0] for _ in range(20)]).mean(0)
    errors = [float((g - truth).norm() / truth.norm()) for g in (exact, draws)]
    yield Found(
        "EOT, 3 members: evaluations as accurate as 20 draws", str(evaluations), "<= 3",
        evaluations <= 3 and errors[0] <= errors[1],
        f"relative error {errors[0]:.1e}, of 20 draws {errors[1]:.1e}",
    )  # fmt: skip


def pgd_peers(setting: Setting) -> Iterator[Found]:
    """PGD-20 with the same settings, against Foolbox and torchattacks where they are installed."""
    model = setting.model()
    images, labels = setting.samples_of(model)
    attack = unmask.attack("pgd", steps=20)
    for name, theirs in (("Foolbox", peers.foolbox_pgd), ("torchattacks", peers.torchattacks_pgd)):
        try:
            pair = in_turn(
                lambda: ours.robust_accuracy(model, images, labels, attack),
                lambda theirs=theirs: theirs(model, images, labels, 20),  # type: ignore[misc]
                setting.device,
                setting.repeats,
            )
        except NotHereError as missing:
            yield Found(f"PGD-20 / {name}", "-", "> 1 x", True, f"not measured: {missing}")
            continue
        yield Found(f"PGD-20 / {name}", f"{pair.speedup:.2f} x", "> 1 x", pair.speedup > 1)


def peak_memory(setting: Setting) -> Iterator[Found]:
    """Peak memory of PGD-5 with 256 images over what was held before, against the bare loop."""
    mine, bare = memory.compared(setting)
    yield Found(
        "peak memory, PGD / bare loop", f"{mine / bare:.2f}", "<= 1.3", mine <= 1.3 * bare,
        f"{mine / 2**20:.0f} MiB / {bare / 2**20:.0f} MiB above the start",
    )  # fmt: skip


def paper(setting: Setting) -> Iterator[Found]:
    """A composite (DnCNN before ResNet-20) under the paper's attacks, fast, against doing it by hand (once).

    By hand: pyautoattack's APGD-CE and Square (500 queries), a plain PGD loop, and a plain BPDA loop.
    """
    setting.needs_data()
    backbone = setting.model()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        front_end = unmask.front_end("dncnn").eval().requires_grad_(False).to(setting.device)
    composite = unmask.Defended(front_end, backbone).eval()
    images, labels = setting.samples_of(composite, 24)
    attacks = {
        "pgd": unmask.attack("pgd", steps=50),
        "bpda": unmask.attack("pgd", steps=50, gradient={"use": "bypass"}),
        "apgd": unmask.attack("apgd", steps=100),
        "square": unmask.attack("square", queries=500),
    }

    def run_ours() -> None:
        with torch.random.fork_rng():
            unmask.evaluate(composite, images, labels, attacks, ["8/255"], precision="fast")

    def by_hand() -> None:
        peers.bare_pgd(composite, images, labels, 50)
        x = images.clone()
        for _ in range(50):
            z = x.clone().requires_grad_()
            through = backbone(z)
            with torch.no_grad():
                whole = composite(x)
            loss = nn.functional.cross_entropy(through + (whole - through).detach(), labels, reduction="sum")
            x = x + 2 / 255 * torch.autograd.grad(loss, z)[0].sign()
            x = torch.min(torch.max(x, images - 8 / 255), images + 8 / 255).clamp(0, 1)
        for name in ("apgd-ce", "square"):
            peers.pyautoattack(composite, images, labels, [name], 500)

    quick, slow = seconds(run_ours, setting.device), seconds(by_hand, setting.device)
    yield Found(
        "composite, paper's attacks, fast / by hand", f"{slow / quick:.2f} x", ">= 4 x", slow / quick >= 4,
        f"{quick:.1f} s / {slow:.1f} s, {len(images)} images",
    )  # fmt: skip


ROWS: dict[str, Row] = {
    "overhead": overhead,
    "zero-order-throughput": zero_order_throughput,
    "zero-order-kernel": zero_order_kernel,
    "expectation": expectation,
    "memory": peak_memory,
    "pgd-peers": pgd_peers,
    "square": square,
    "square-to-accuracy": square_to_accuracy,
    "autoattack-standard": autoattack_standard,
    "autoattack-adversarial": autoattack_adversarial,
    "paper": paper,
}
