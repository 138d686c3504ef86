"""What a verdict consists of."""

from __future__ import annotations

import math
from typing import Literal

import attrs

__all__ = ["Indicator", "Label", "Verdict", "Verdicts"]

Label = Literal["masked", "no-sign", "inconclusive"]


@attrs.frozen
class Indicator:
    """One thing that was looked at.

    Attributes:
        name: Which.
        fired: It was seen, by more than `SMALLEST_EFFECT` of the samples and beyond chance.
        effect: How large, as a share of the samples (see each indicator); NaN when it could not be looked at.
        p_value: Of its test, adjusted (Holm) for all tests made on this model; NaN where there is no test.
        samples: How many samples it rests on; 0 when it could not be looked at.
        advice: One sentence: what it means, or what to add so that it can be looked at.
        epsilon: The radius at which it was strongest; NaN where it has none.
        attack: The attack that showed it, "" where there is none.
        evidence: Whether it speaks for masking when it fires; False for mere information.
    """

    name: str
    fired: bool
    effect: float = math.nan
    p_value: float = math.nan
    samples: int = 0
    advice: str = ""
    epsilon: float = math.nan
    attack: str = ""
    evidence: bool = True


@attrs.frozen
class Verdict:
    """Is the robustness of one model real?

    Attributes:
        label: ``masked``: its gradients mislead attacks, and the accuracy under gradient attacks is not real.
            ``no-sign``: nothing speaks for that, although it was looked for on enough samples.
            ``inconclusive``: what was run does not suffice to say.
        indicators: Everything that was looked at, fired or not.
        advice: One sentence about what to do next.
    """

    label: Label
    indicators: tuple[Indicator, ...]
    advice: str = ""

    @property
    def fired(self) -> tuple[Indicator, ...]:
        """The indicators that fired."""
        return tuple(i for i in self.indicators if i.fired)

    def _repr_html_(self) -> str:
        from unmask.reports.notebook import verdicts_html

        return verdicts_html({"": self})


class Verdicts(dict[str, Verdict]):
    """The verdict about every model by its name; a table in notebooks."""

    def _repr_html_(self) -> str:
        from unmask.reports.notebook import verdicts_html

        return verdicts_html(self)
