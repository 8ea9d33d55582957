"""The stable problem codes: complete, unique, and each with something to do."""

from __future__ import annotations

import re

import pytest

from fedrap_core import errors
from fedrap_core.wire import problems
from fedrap_core.wire.problems import ALL, PREFIX, Family, Problem

DEFINED = [value for value in vars(problems).values() if isinstance(value, Problem)]


def test_every_problem_is_listed_once_and_codes_are_unique() -> None:
    assert len(ALL) == len(DEFINED) == len({problem.code for problem in DEFINED})
    assert all(ALL[problem.code] is problem for problem in DEFINED)


def test_the_name_of_a_problem_is_its_code() -> None:
    named = {name for name, value in vars(problems).items() if isinstance(value, Problem)}
    assert named == {code.upper().replace("-", "_") for code in ALL}


@pytest.mark.parametrize("problem", DEFINED, ids=lambda problem: problem.code)
def test_a_problem_has_a_uri_an_error_status_and_a_sentence(problem: Problem) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", problem.code)
    assert problem.uri == PREFIX + problem.code
    assert 400 <= problem.status <= 599
    assert problem.title.endswith(".")
    assert problem.family in Family


@pytest.mark.parametrize("problem", DEFINED, ids=lambda problem: problem.code)
def test_a_fault_of_the_coordinator_is_worth_a_retry(problem: Problem) -> None:
    if problem.status >= 500:
        assert problem.family is Family.RETRY


def test_malformed_and_badly_sealed_bytes_share_one_code() -> None:
    assert not any("seal" in code for code in ALL)


def test_every_error_of_the_core_has_one_ancestor() -> None:
    raised = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(raised) > 5
    assert all(issubclass(error, errors.FedRapError) for error in raised)
    assert all(error.__name__ in (errors.__doc__ or "") for error in raised)
