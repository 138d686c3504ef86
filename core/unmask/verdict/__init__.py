"""The verdict: is a model's robustness real, or are its gradients masked?"""

from __future__ import annotations

from unmask.verdict.judgement import judge
from unmask.verdict.record import Indicator, Label, Verdict, Verdicts

__all__ = ["Indicator", "Label", "Verdict", "Verdicts", "judge"]
