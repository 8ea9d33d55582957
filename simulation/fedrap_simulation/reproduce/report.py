"""What a run found, as a whole: what is written to results.json and shown in the page."""

from __future__ import annotations

from typing import Any

import msgspec

from fedrap_simulation.reproduce.document import Drawn, Table


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One section of the report."""

    name: str
    title: str
    seconds: float  # of this run; next to nothing when all was known
    found: Any = None  # the section's own struct
    drawn: Drawn | None = None
    failed: str = ""  # why there is nothing


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All sections with what they were made from."""

    data: str
    users: int
    items: int
    split: str
    seeds: tuple[int, ...]
    quick: bool
    command: str
    parts: list[Part]

    @property
    def title(self) -> str:
        """What it is about."""
        return f"FedRAP reproduced on {self.data}"

    @property
    def about(self) -> str:
        """The setting in one sentence."""
        return (
            f"{self.users} users with at least 10 interactions, {self.items} items, split "
            f"{self.split}, seeds {', '.join(map(str, self.seeds))}; ties in time are broken at "
            "random, ties in score count against a method."
            + (" A quick run: far too small to judge quality by." if self.quick else "")
        )


def to_json(report: Report) -> bytes:
    """Everything but the pictures; NaN and infinity become null."""
    parts = {
        part.name: {
            "title": part.title,
            "failed": part.failed,
            "found": part.found,
            "tables": [_plain(table) for table in part.drawn.tables] if part.drawn else [],
        }
        for part in report.parts
    }
    whole = {
        "data": report.data,
        "users": report.users,
        "items": report.items,
        "split": report.split,
        "seeds": report.seeds,
        "quick": report.quick,
        "command": report.command,
        "sections": parts,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def _plain(table: Table) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(table)
    return fields | {"leaky": table.leaky}
