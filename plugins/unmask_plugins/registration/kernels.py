"""The built-in tensor kernels, offered through the same hook as anybody's."""

from __future__ import annotations

from typing import Any

from unmask.markers import hookimpl

__all__ = ["unmask_kernels"]


@hookimpl
def unmask_kernels() -> Any:
    """The tensor kernels, imported when first asked for.

    Raises:
        ValueError: ``UNMASK_KERNELS`` is set to something unknown.
    """
    import unmask_kernels.provider as provider
    from unmask_kernels.compiling import chosen_backend

    chosen_backend()
    return provider
