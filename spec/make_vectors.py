"""Write the golden vectors under spec/vectors, or with --check compare them with the code.

Sealing and signing are random, so their ciphertexts and signatures are taken from the files as
they are and only verified; --new-seals makes them anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also as a plain script

from spec import (
    cases_arrays,
    cases_authority,
    cases_calls,
    cases_codec,
    cases_crypto,
    cases_identity,
    cases_questions,
    cases_releases,
    cases_rounds,
    cases_sequence,
    cases_solve,
    cases_split,
    cases_trend,
)
from spec.vector_format import File, differences, to_text

FOLDER = Path(__file__).resolve().parent / "vectors"
PLAIN: dict[str, Callable[[], File]] = {
    "accounting": cases_solve.accounting,
    "answers": cases_questions.answers,
    "bad_calls": cases_calls.bad_calls,
    "codec": cases_codec.codec,
    "delta": cases_releases.deltas,
    "diversity": cases_solve.diversities,
    "explain": cases_solve.explanations,
    "learn_step": cases_solve.learn_steps,
    "ledger": cases_rounds.ledgers,
    "lists": cases_questions.lists,
    "quantize": cases_arrays.quantize,
    "ranking": cases_solve.rankings,
    "release": cases_releases.releases,
    "sequence_of_round": cases_sequence.shares_of_rounds,
    "sequence_ranking": cases_sequence.rankings,
    "sequence_release": cases_sequence.releases,
    "share": cases_arrays.shares,
    "share_of_round": cases_solve.shares_of_rounds,
    "share_parts": cases_sequence.shares,
    "solve": cases_solve.solves,
    "split": cases_split.reports,
    "split_answers": cases_split.answers,
    "trend": cases_trend.trends,
    "trials": cases_questions.trials,
    "update_of_round": cases_rounds.updates_of_rounds,
}
RANDOM: dict[str, Callable[[File | None], File]] = {
    "certificate": cases_identity.certificates,
    "seal": cases_crypto.seals,
    "signed": cases_authority.signed,
    "signing": cases_crypto.signatures,
    "token": cases_identity.tokens,
}


def make_all(folder: Path, new_seals: bool) -> dict[str, File]:
    """Every file by name; what is random comes from the files in `folder` where they exist."""
    made = {name: build() for name, build in PLAIN.items()}
    for name, continue_from in RANDOM.items():
        made[name] = continue_from(None if new_seals else _stored(folder / f"{name}.json"))
    return made


def check(folder: Path, made: dict[str, File]) -> list[str]:
    """What is missing, differs or does not belong in `folder`."""
    wrong = [f"{p.name}: no such vectors" for p in folder.glob("*.json") if p.stem not in made]
    for name, file in sorted(made.items()):
        stored = _stored(folder / f"{name}.json")
        if stored is None:
            wrong.append(f"{name}.json: missing")
            continue
        found = differences(stored, json.loads(to_text(file)), exact="tolerance" not in file)
        wrong.extend(f"{name}.json: {line}" for line in found)
    return wrong


def main(argv: list[str] | None = None) -> int:
    """0 when written or equal, 1 when --check found a difference."""
    parser = argparse.ArgumentParser(prog="make_vectors", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--new-seals", action="store_true", help="seal and sign anew")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the vectors are")
    arguments = parser.parse_args(argv)
    made = make_all(arguments.folder, arguments.new_seals)
    if arguments.check:
        wrong = check(arguments.folder, made)
        sys.stderr.writelines(f"{line}\n" for line in wrong)
        return 1 if wrong else 0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, file in made.items():
        (arguments.folder / f"{name}.json").write_text(to_text(file), encoding="utf-8")
    return 0


def _stored(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
