"""The commented config that `fedrap-coordinator init` writes: values with the reason beside each.

What an operator has to know is in it; the rest has defaults and is written only if asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fedrap_coordinator.settings import Settings

HEAD = """\
# FedRAP coordinator. Every key can also be set in the environment:
# FEDRAP__ROUND__MIN_UPDATES=50 wins over min_updates below. A key that is not known is an error.
"""
MORE = """\
# `fedrap-coordinator init --all` writes every other key with its default;
# `fedrap-coordinator check-config` prints the settings in force.
"""
# What each key means, in the order in which they are written.
MEANING = {
    "data": "folder that relative paths of database and keys start from; the file's own",
    "database": "or postgresql://user:password@host/name",
    "keys": "folder of the secret keys; back it up, and not beside the database",
    "task": "the name of one of several tasks; its tables in the database have it before theirs",
    "seed": "of the first C",
    "serve.host": "use TLS, here or in front, before you open this to a network",
    "serve.port": "",
    "serve.max_body_bytes": "of an update, at the most",
    "serve.body_seconds": "for the body of a request to begin",
    "serve.least_body_rate": "bytes a second that it must keep up after that",
    "serve.retry_seconds": "how soon a refused device may ask again, at the least",
    "serve.max_wait_seconds": "a device may wait so long for a slot; your proxy must wait longer",
    "serve.max_waiting": "devices that wait at once",
    "serve.shutdown_seconds": "SIGTERM waits so long for answers that were begun",
    "serve.certificate": "PEM of the chain: with these two it speaks TLS by itself, on both ports",
    "serve.private_key": "PEM, of that certificate",
    "ingest.batch": "requests of one commit, at the most",
    "ingest.delay_seconds": "a first one waits so long for company",
    "ingest.max_requests": "in hand at once; more are told to come back",
    "ingest.max_bytes": "of their bodies",
    "limits.device": "so many requests at once, then so many a minute: one that proved who it is",
    "limits.address": "of those who enrol or prove nothing",
    "limits.proxies": "in front of this, each of which adds to X-Forwarded-For",
    "round.min_updates": "a round with fewer is abandoned; devices see this number",
    "round.max_updates": "a round ends at once when it has these",
    "round.min_seconds": "a round collects at least so long, unless max_updates come first",
    "round.max_seconds": "then a round with fewer than min_updates is abandoned",
    "round.over_selection": "slots per wanted update, at the most: some devices do not answer",
    "round.answer_seconds": "a slot without an answer for so long is given to another device",
    "round.total": "rounds of the whole task",
    "privacy.clip": "S: the largest norm of one device's update",
    "privacy.row_clip": "the largest norm of one row of it: no item gets more of one device",
    "privacy.noise": "z: noise of a release in units of S; 0 guarantees nothing",
    "privacy.coefficients": "banded noise; no more of them than separation",
    "privacy.separation": "b: 2 means never in two consecutive rounds",
    "privacy.cap": "K: rounds that a device joins in any window",
    "privacy.window_days": "days after which a round no longer counts against K; 0: it always does",
    "privacy.spread_days": "days that K lasts: a device rests so long / K; 0: b alone counts",
    "privacy.delta": "",
    "privacy.adapt": "{ quantile = 0.5, rate = 0.2, noise = 5.0 }: S follows a quantile of norms",
    "method.name": "solve, or paper: the method as published",
    "method.dim": "k: numbers per item in C",
    "method.alpha": "weight of an interaction against the unseen items",
    "method.w0": "weight of every item as not chosen",
    "method.ridge": "keeps u small",
    "method.order": "weight of what came next; 0 where order means nothing",
    "method.prefixes": "most of them in one round",
    "method.beta": "extra weight of the newest interaction of a prefix",
    "method.gamma": "weight that never fades",
    "method.tau": "how many interactions the extra weight lasts",
    "method.sequence": "{ targets = 100, decoys = 4 }: learn what comes next, too; without it off",
    "method.trend": "{ half_days = 7.0, scale = 1.0 }: what was touched lately; without it off",
    "learning.eta": "step: 0.1 and the share of the devices in a round, 0.5 at the most",
    "learning.decay": "eta falls by this each step",
    "learning.lowest": "share of it that stays, however many rounds there are",
    "learning.memory": "of the running Gram matrix",
    "learning.ridge": "lambda_C",
    "learning.population": "N: devices expected in all",
    "learning.density": "p: share of the catalogue in a mean history",
    "learning.zeros": "share of C that is exactly zero in the end, the smallest entries",
    "learning.settled": "the step that has them; round.total is a good choice",
    "learning.spread": "standard deviation that new rows of C start with",
    "learning.min_support": "rows that fewer devices touched, over all rounds, are not recommended",
    "learning.row_step": "the furthest a row moves in one step, in root mean square norms of C",
    "learning.score_cap": "most that an item scores in the mean, in what is usual for as many fans",
    "learning.contrast": "of a trend: 0 what is popular lately, up to 1 what is more so than usual",
    "sequence.rate": "of the sequence part only, as is this section: Adam's step",
    "sequence.kernel_rate": "the same for the time kernels",
    "sequence.decay": "of its rows, in units of the step",
    "sequence.first": "memory of the gradients' mean",
    "sequence.second": "memory of their squares",
    "sequence.caution": "rows with less than the usual evidence move less",
    "sequence.warm_up": "share of the rounds over which the step rises",
    "sequence.lowest": "share of the step that is left at the end",
    "sequence.rounds": "when that is; round.total is a good choice",
    "sequence.spread": "standard deviation that its rows start with",
    "sequence.kernel": "what each time kernel starts with",
    "scoring.alpha": "how devices recommend: weight of an interaction",
    "scoring.w0": "weight of every item as not chosen",
    "scoring.beta": "extra weight of the newest; 0, and gamma 1, where order means nothing",
    "scoring.gamma": "weight that never fades",
    "scoring.tau": "how many interactions the extra weight lasts",
    "scoring.ridge": "keeps u small",
    "scoring.rho": "how much an item without a personal row borrows from its neighbours",
    "scoring.power": "how similar two items must be to borrow",
    "scoring.sigma": "how far a personal row is trusted with a single interaction",
    "scoring.recent": "newest items that own a personal row",
    "scoring.sequence": "{ solve = 8.0, kappa = 1.0 }: how both parts add up",
    "scoring.trend": "how much counts what was touched lately, where method has a trend",
    "averaging.rate": "of the paper's method only, as is this section: of the mean delta",
    "averaging.threshold": "of the proximal step over all of C",
    "averaging.spread": "standard deviation that new rows of C start with",
    "enrolment.certificate_days": "devices renew theirs by themselves",
    "enrolment.wait_steps": "a new key waits so many releases; the first is not waited for",
    "enrolment.wait_seconds": "and so many seconds",
    "enrolment.wait_most_days": "steps are not waited for longer, so that no task stands still",
    "enrolment.audience": "of signed enrolment tokens; another word for each task",
    "enrolment.account_devices": "devices that one account may ever enrol, by signed tokens",
    "enrolment.attestation": "package.module:verify, see docs/operations.md",
    "enrolment.allow_unattested": "",
    "sealing.rotate_hours": "a sealing key is named by new rounds for so long; 0 never rotates",
    "releases.keep": "versions of C; devices with an older one fetch the whole",
    "releases.keep_states": "states beside them, for rollbacks; 12 bytes a number of sequences",
    "catalogue.public": "attributes that every device may have, such as title, category and url",
    "questions.epsilon": "of all answers of a device to questions about quality, beside rounds",
    "questions.answers": "that a device gives at most",
    "questions.days": "that a question is open; devices answer spread over that time",
    "questions.least": "nothing is said from fewer answers",
    "questions.most": "answers that are taken; the question ends with the last of them",
    "questions.tune_every": "releases after which devices choose scalars anew; 0: when asked for",
    "rollouts.shares": "of the devices, stage by stage, before a release is everybody's",
    "rollouts.tolerance": "lead below zero that is no harm; only words depend on it",
    "admin.host": "the admin API, /metrics and the dashboard",
    "admin.port": "without this line there is none of them",
    "admin.open_metrics": "true: /metrics needs no token",
    "admin.session_hours": "how long a browser stays signed in",
}
# Written in any case, beside what has a reason of its own or differs from the default.
ESSENTIAL = frozenset({
    "database", "keys", "serve.host", "serve.port", "round.min_updates", "round.max_updates",
    "round.min_seconds", "round.max_seconds", "round.total", "method.name", "admin.host",
    "admin.port",
})  # fmt: skip


def render(settings: Settings, why: Mapping[str, str], every_key: bool = False) -> str:
    """TOML that loads to `settings`; `why` has reasons that win over what a key means."""
    lines, section = [HEAD], ""
    usual = dict(_leaves(msgspec.to_builtins(Settings())))
    for key, value in _leaves(msgspec.to_builtins(settings)):
        needed = key in ESSENTIAL or key in why or value != usual.get(key, value)
        if not (needed or every_key):
            continue
        before, _, name = key.rpartition(".")
        if before != section:
            lines.append(f"\n[{before}]\n")
            section = before
        reason = why.get(key, MEANING[key])
        said = f"# {name} =" if value is None else f"{name} = {_toml(value)}"
        lines.append(f"{said:<24} # {reason}\n" if reason else f"{said}\n")
    return "".join([*lines, "" if every_key else f"\n{MORE}"])


def _leaves(tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys in the order of MEANING, so that what an operator looks at first stands first."""
    for key in MEANING:
        section, _, name = key.rpartition(".")
        part = tree.get(section, {}) if section else tree
        if name in part:
            yield key, part[name]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, tuple):
        return _toml(list(value))
    return json.dumps(value)  # strings, numbers, booleans and lists are the same in both
