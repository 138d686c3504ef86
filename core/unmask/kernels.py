"""The tensor kernels the framework asks for, and how it finds them.

The framework does not import the package that implements them: they come through the hook
`unmask_kernels`, so that another implementation can take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Kernels"]


class Kernels(Protocol):
    """Tensor functions without models or input and output. `n` is the number of samples, the leading axis."""

    def uniform(self, keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
        """Numbers in [0, 1), [n, count], by each sample's key (int64 [n, 2]) and call number (int64 [n])."""
        ...

    def normal(self, keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
        """Standard normal numbers [n, count]."""
        ...

    def integers(self, keys: Tensor, counters: Tensor, count: int, low: int, high: int) -> Tensor:
        """Whole numbers in [low, high), int64 [n, count]; the bias is below 2**-32 * (high - low)."""
        ...

    def signs(self, keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
        """-1 or +1 with equal probability, [n, count]."""
        ...

    def project(
        self, points: Tensor, centres: Tensor, norm: str, epsilon: float, low: float, high: float
    ) -> Tensor:
        """Points of the same shape inside ball and box in exact arithmetic on the stored numbers.

        The nearest point of the intersection for linf and l0; for l2 and l1 a point of it (ball, then box).
        """
        ...

    def steepest(self, gradients: Tensor, norm: str) -> Tensor:
        """Per sample the direction of unit norm that climbs fastest; zero where the gradient is zero."""
        ...

    def norms(self, differences: Tensor, norm: str) -> Tensor:
        """Size of every sample's difference, float64 [n]."""
        ...
