"""The tables as markdown, and their place in a page of the documentation."""

from __future__ import annotations

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.paper_report.document import Report, Table


def to_markdown(report: Report) -> str:
    """All tables with the command under each."""
    out = [f"## {report.title}", report.about]
    for part in report.parts:
        out.append(f"### {part.title}")
        if part.drawn is None:
            out.append(f"Could not be done: {part.failed}")
            continue
        out += [*part.drawn.words, *(table_markdown(one) for one in part.drawn.tables)]
    return "\n\n".join(out) + "\n"


def table_markdown(table: Table) -> str:
    """One table: heading, rows, note, command."""
    head = "| " + " | ".join(map(_cell, table.columns)) + " |"
    rule = "|---|" + "---:|" * (len(table.columns) - 1)
    rows = [
        "| " + " | ".join(_cell(table.text(at, cell)) for at, cell in enumerate(row)) + " |"
        for row in table.rows
    ]
    seeds = ", ".join(map(str, table.seeds))
    section_cache = [f"**{table.heading}** (seeds {seeds})", "\n".join([head, rule, *rows])]
    if table.note:
        section_cache.append(table.note)
    section_cache.append(f"```sh\n{table.command}\n```")
    return "\n\n".join(section_cache)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def put_between_marks(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of `name`; they are added at the end if absent.

    Raises:
        BadData: only one of the two marks is there, or they are in the wrong order.
    """
    first, last = f"<!-- reproduce:{name} -->", f"<!-- /reproduce:{name} -->"
    inside = f"{first}\n{text.strip()}\n{last}"
    start, end = page.find(first), page.find(last)
    if start < 0 and end < 0:
        return f"{page.rstrip()}\n\n{inside}\n".lstrip("\n")
    if start < 0 or end < start:
        raise BadData(f"the marks {first} and {last} are not a pair in the page")
    return page[:start] + inside + page[end + len(last) :]
