"""Both attacks keep every law of the conformance kit."""

from unmask.testing import conformance

globals().update(conformance("example-noise"))
globals().update(conformance("example-ascent"))
