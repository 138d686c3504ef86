"""Papers that several entries cite."""

from __future__ import annotations

__all__ = ["CURIOUS_CASE", "MINIMALLY_DISTORTED", "RELIABLE"]

CURIOUS_CASE = (
    "Boytsov, Joshi and Condessa 2025, A Curious Case of Remarkable Resilience to Gradient Attacks via Fully "
    "Convolutional and Differentiable Front End with a Skip Connection, arXiv:2402.17018"
)

RELIABLE = (
    "Croce and Hein 2020, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse "
    "Parameter-free Attacks, arXiv:2003.01690"
)

MINIMALLY_DISTORTED = (
    "Croce and Hein 2020, Minimally Distorted Adversarial Examples with a Fast Adaptive Boundary Attack, "
    "arXiv:1907.02044"
)
