"""All sections, in the order of the report."""

from __future__ import annotations

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.paper_report.document import Section
from fedrap_simulation.paper_report.sections import (
    ablation,
    comparison,
    convergence,
    curricula,
    density,
    participation,
    privacy,
    sparsity,
    tsne,
)

SECTIONS: dict[str, Section] = {
    module.SECTION.name: module.SECTION
    for module in (
        comparison,
        convergence,
        participation,
        ablation,
        curricula,
        sparsity,
        privacy,
        density,
        tsne,
    )
}


def choose_sections(names: tuple[str, ...]) -> list[Section]:
    """Those sections in the order of the report; all of them without names.

    Raises:
        BadData: there is no such section; says which ones there are.
    """
    for name in names:
        if name not in SECTIONS:
            raise BadData(f"there is no section {name!r}; the sections are {', '.join(SECTIONS)}")
    return [one for name, one in SECTIONS.items() if not names or name in names]
