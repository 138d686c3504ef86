"""A law that was broken: what was seen, and what to do."""

from __future__ import annotations

__all__ = ["LawBroken", "require"]


class LawBroken(AssertionError):
    """A component does not keep a law.

    Attributes:
        found: What was seen.
        remedy: What to do.
        law: The law, in a sentence; "" until the suite adds it.
        entry: The component, as listings name it; "" until the suite adds it.
    """

    def __init__(self, found: str, remedy: str, *, law: str = "", entry: str = "") -> None:
        self.found, self.remedy, self.law, self.entry = found, remedy, law, entry
        lines = [f"law: {law}"] if law else []
        lines += [f"found: {found}", f"what to do: {remedy}"]
        super().__init__("\n".join([f"{entry} breaks a law." if entry else "a law is broken.", *lines]))

    def of(self, law: str, entry: str) -> LawBroken:
        """The same with the law and the component named."""
        return LawBroken(self.found, self.remedy, law=law, entry=entry)


def require(kept: object, found: str, remedy: str) -> None:
    """Nothing, if the law was kept.

    Raises:
        LawBroken: It was not.
    """
    __tracebackhide__ = True
    if not kept:
        raise LawBroken(found, remedy)
