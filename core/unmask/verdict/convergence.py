"""About the attacks rather than the model: had they finished, and did they return what they found?

Neither speaks for masking. A search that still gains makes the accuracy provisional, and silence then means
nothing; an example that an attack walked past counts all the same, because the door kept it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import attrs
import numpy as np

from unmask import statistics
from unmask.verdict.comparison import Finding
from unmask.verdict.evidence import SMALLEST_EFFECT, WEAKEST_SEARCH, Radius
from unmask.verdict.families import AttackRow

__all__ = ["LATE", "Overlooked", "SearchNotConverged"]

LATE = 0.8
"""Share of a search's passes after which a success is late."""

COMPARABLE = 4
"""How many times as long a search may be for its gain to speak about the end of the shorter one."""


@attrs.frozen
class SearchNotConverged:
    """Gradient attacks still gain when they stop.

    Looked at in two ways. Late successes: samples of a deterministic model that fell only in the last fifth
    of the passes of every white-box search that broke them; their share is the effect, the test binomial
    against `SMALLEST_EFFECT`. Longer searches: the same attack with at most four times as many steps or
    restarts, where the run has both; the effect is what it breaks in addition, the test paired.
    """

    name: ClassVar[str] = "search-not-converged"
    evidence: ClassVar[bool] = False
    advice: ClassVar[str] = (
        "Gradient attacks still break new samples when they stop, so the accuracy is provisional: give them "
        "more steps or restarts."
    )

    def look(self, places: Sequence[Radius]) -> Iterator[Finding]:
        """At every radius."""
        for place in places:
            searches = [
                row
                for row in place.of("white-box")
                if row.within and row.steps is not None and row.steps >= WEAKEST_SEARCH
            ]
            if searches and place.deterministic:
                yield from self._late(place, searches)
            yield from self._longer(place, searches)

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be seen."""
        return f"Add a gradient attack of at least {WEAKEST_SEARCH} steps."

    def _late(self, place: Radius, searches: Sequence[AttackRow]) -> Iterator[Finding]:
        from scipy.stats import binom

        broken = place.variable("correct", searches) == 0
        passes = place.variable("forwards", searches)
        if not place.samples:
            return
        # What fell at a smaller radius or in an earlier stage took no passes here, and is not late.
        length = np.maximum(passes.max(axis=1), [row.steps or 0 for row in searches])
        late = broken & (passes > LATE * length[:, None])
        only_late = late.any(axis=0) & ~(broken & ~late).any(axis=0)
        known = np.any([place.known(row) for row in searches], axis=0)
        count, n = int(only_late.sum()), int(known.sum())
        if n:
            most = searches[int(late.sum(axis=1).argmax())]
            p_value = float(binom.sf(count - 1, n, SMALLEST_EFFECT))
            yield Finding(self.name, place.epsilon, count / n, p_value, n, most.name)

    def _longer(self, place: Radius, searches: Sequence[AttackRow]) -> Iterator[Finding]:
        for longer in searches:
            alike = [row for row in searches if _kind(row) == _kind(longer)]
            steps = longer.steps or 0
            if any((row.steps or 0) > steps for row in alike):
                continue
            shorter = [row for row in alike if steps > (row.steps or 0) >= steps / COMPARABLE]
            if not shorter:
                continue
            gain = place.correct(shorter) - place.correct([longer])
            gain = gain[~np.isnan(gain)]
            if len(gain):
                p_value = statistics.sign_flip_test(gain)
                yield Finding(self.name, place.epsilon, float(gain.mean()), p_value, len(gain), longer.name)


def _kind(row: AttackRow) -> tuple[str, str, bool]:
    return row.use, row.loss, row.averaged


@attrs.frozen
class Overlooked:
    """An attack returned an example that fails although it had passed one that succeeds (Croce et al. 2020).

    It says something about the attack, and nothing is lost: the door kept the example, and it counts. So this
    is no evidence against a model. Searches in steps end where they succeed and cannot overlook anything.
    """

    name: ClassVar[str] = "success-on-the-path-only"
    evidence: ClassVar[bool] = False
    advice: ClassVar[str] = (
        "The attack passed examples that break the model and returned others that do not; those it passed "
        "are counted, but elsewhere its numbers are too high."
    )

    def look(self, places: Sequence[Radius]) -> Iterator[Finding]:
        """For every attack made of a single call."""
        from scipy.stats import binom

        for place in places:
            if "overlooked" not in place.results:
                continue
            for row in place.attacks:
                values = place.variable("overlooked", [row])[0]
                values = values[~np.isnan(values)]
                if len(values):
                    count, n = int(values.sum()), len(values)
                    p_value = float(binom.sf(count - 1, n, SMALLEST_EFFECT))
                    yield Finding(self.name, place.epsilon, count / n, p_value, n, row.name)

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """Why there is nothing to see."""
        return "All attacks that were run search in steps, and end where they succeed."
