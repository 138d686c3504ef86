"""One page a kind of component, made from the entries: summary, source, facts and options."""

from __future__ import annotations

from markdown import introduction, linked, table

from unmask import hookspecs
from unmask.plugins.catalog import KINDS, Provided, catalog, singular
from unmask.plugins.describing import facts_of, options_of

__all__ = ["component_page", "component_pages"]

OWN = "unmask"
"""The distribution whose components are described; others have documentation of their own."""


def component_pages() -> dict[str, str]:
    """The page of every kind."""
    return {kind: component_page(kind) for kind in KINDS}


def component_page(kind: str) -> str:
    """The page of one kind, such as ``attacks``."""
    own = [provided for provided in catalog().entries(kind) if provided.distribution == OWN]
    hook = f"unmask_{kind.replace('-', '_')}"
    what = (getattr(hookspecs, hook).__doc__ or "").strip()
    title = kind.replace("-", " ").capitalize()
    one = singular(kind)
    parts = [
        f"# {title}\n",
        f"{what} `unmask list {kind}` lists them, those of other plugins too; `unmask show {one} NAME` "
        f"shows one. Plugins add to them by the hook `{hook}`.\n",
        table(
            ("name", "what it is"),
            [(f"[`{p.name}`](#{p.name})", p.entry.summary) for p in own],
        ),
        *(_component(kind, provided) for provided in own),
        _of_libraries(kind),
    ]
    return "\n".join(part for part in parts if part)


def _component(kind: str, provided: Provided) -> str:
    entry = provided.entry
    facts = facts_of(provided, leave_out=("provider", "reference"))
    options = options_of(kind, provided)
    parts = [
        f"## {provided.name}\n",
        f"{entry.summary}\n",
        introduction(provided.builder()) + "\n",
        f"Source: {linked(entry.reference)}\n" if entry.reference else "",
        table(("", ""), [(label, f"`{value}`") for label, value in facts]),
        table(
            ("option", "takes", "default", "meaning"),
            [
                (
                    f"`{option.name}`",
                    option.type,
                    option.default if option.default in ("required", "none") else f"`{option.default}`",
                    option.meaning,
                )
                for option in options
            ],
        )
        or "It takes no options.\n",
    ]
    return "\n".join(part for part in parts if part.strip())


def _of_libraries(kind: str) -> str:
    """What other libraries have: by name alone, since they need not be installed to be listed."""
    parts = []
    for library, offered in catalog().of_libraries(kind).items():
        own = [provided for provided in offered if provided.distribution == OWN]
        if own:
            names = ", ".join(f"`{provided.qualified_name}`" for provided in own)
            parts.append(f"## From {library.name}\n\nOnce `{library.install}` has been run: {names}.\n")
    return "\n".join(parts)
