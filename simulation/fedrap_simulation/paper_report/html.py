"""The report as one page of HTML that needs nothing else: no scripts, no links out, no files."""

from __future__ import annotations

from html import escape

import msgspec

from fedrap_simulation.paper_report.document import LEAKY, Cell, Part, Picture, Report, Table

_CSS = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--page:#fff;
--card:#f5f7f9;--leaky:#b3243d;--leaky-page:#fdecef}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa6b5;--line:#333c49;
--page:#14181e;--card:#1c222b;--leaky:#ff8095;--leaky-page:#3a1a22}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:56rem;background:var(--page);color:var(--ink);
font:1rem/1.55 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.25}h2{margin-top:3rem;font-size:1.3rem}h3{font-size:1rem;margin:0}
p{max-width:42rem}.soft{color:var(--soft);font-size:.9rem}
nav a{display:inline-block;margin:.1rem .8rem .1rem 0;color:inherit}
.card{margin:1.2rem 0;padding:.9rem;border:1px solid var(--line);border-radius:.5rem;
background:var(--card)}
.leaky{border-color:var(--leaky);border-left-width:.4rem}
.badge{padding:.05rem .45rem;border-radius:.3rem;background:var(--leaky-page);color:var(--leaky);
font-weight:700;font-size:.85em;white-space:nowrap}
.scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{white-space:normal;vertical-align:bottom;min-width:5rem;color:var(--soft);font-weight:600}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
pre{overflow-x:auto;margin:.5rem 0;font-size:.8rem;white-space:pre-wrap;overflow-wrap:anywhere}
svg{display:block;width:100%;max-width:44rem;height:auto;margin:.6rem auto}
summary{cursor:pointer;color:var(--soft);font-size:.9rem}
"""


def to_html(report: Report) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in report.parts)
    body = "\n".join(_part(one) for one in report.parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n<style>{_CSS}</style></head>\n<body>\n"
        f"<h1>{escape(report.title)}</h1>\n<p>{escape(report.about)}</p>\n"
        f"<p>What is marked {_badge()} was measured with the leak of the published code and says "
        f"nothing about quality.</p>\n<nav>{links}</nav>\n"
        f"<details><summary>Command</summary><pre>{escape(report.command)}</pre></details>\n"
        f"{body}\n</body></html>\n"
    )


def _part(part: Part) -> str:
    head = f'<section id="{part.name}"><h2>{escape(part.title)}</h2>\n'
    if part.drawn is None:
        return f"{head}<p>Could not be done: {escape(part.failed)}</p></section>"
    words = "".join(f"<p>{_marked(one)}</p>\n" for one in part.drawn.words)
    pictures = "".join(_picture(one) for one in part.drawn.pictures)
    tables = "".join(_table(one) for one in part.drawn.tables)
    return f"{head}{words}{pictures}{tables}</section>"


def _picture(picture: Picture) -> str:
    leaky = f" {_badge('partly ' + LEAKY)}" if picture.leaky else ""
    return f'<figure class="card"><h3>{escape(picture.title)}{leaky}</h3>\n{picture.svg}</figure>\n'


def _table(table: Table) -> str:
    head = "".join(f"<th>{_marked(one)}</th>" for one in table.columns)
    rows = "".join(f"<tr>{_cells(table, row)}</tr>\n" for row in table.rows)
    leaky = f" {_badge()}" if table.leaky else ""
    note = f'<p class="soft">{_marked(table.note)}</p>' if table.note else ""
    seeds = ", ".join(map(str, table.seeds))
    about = f"protocol {table.protocol}{' ' + LEAKY if table.leaky else ''}, seeds {seeds}"
    settings = ""
    if table.settings:
        raw = msgspec.json.format(msgspec.json.encode(table.settings), indent=1).decode()
        settings = f"<pre>{escape(raw)}</pre>"
    return (
        f'<div class="card{" leaky" if table.leaky else ""}"><h3>{escape(table.title)}{leaky}</h3>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
        f"</div>{note}<pre>{escape(table.command)}</pre>"
        f"<details><summary>Settings</summary><p class=soft>{about}</p>{settings}</details></div>\n"
    )


def _cells(table: Table, row: list[Cell]) -> str:
    return "".join(f"<td>{escape(table.text(at, cell))}</td>" for at, cell in enumerate(row))


def _marked(words: str) -> str:
    return escape(words).replace(LEAKY, _badge())


def _badge(words: str = LEAKY) -> str:
    return f'<strong class="badge">{escape(words)}</strong>'
