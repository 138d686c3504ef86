"""What this plugin offers."""

from __future__ import annotations

from collections.abc import Iterable

from unmask import AttackEntry, hookimpl


@hookimpl
def unmask_attacks() -> Iterable[AttackEntry]:
    """Two small attacks."""
    return [
        AttackEntry(
            name="example-noise",
            summary="The best of a number of random corners of the ball.",
            reference="Brooks 1958, A Discussion of Random Methods for Seeking Maxima (pure random search)",
            build="unmask_example.noise:RandomCorners",
            norms=("linf",),
            access="scores",
        ),
        AttackEntry(
            name="example-ascent",
            summary="Gradient steps of shrinking size from the clean image.",
            reference="Kurakin, Goodfellow and Bengio 2017, Adversarial examples in the physical world, "
            "arXiv:1607.02533",
            build="unmask_example.ascent:ShrinkingSteps",
        ),
    ]
