"""The operator's settings: one frozen tree, from TOML and the environment. A typo is an error.

`FEDRAP__ROUND__MIN_UPDATES=50` overrides `min_updates` of `[round]`; lists, tables and `none` are
written as in TOML: `FEDRAP__PRIVACY__COEFFICIENTS=[1.0, 0.5]`. Each field has a meaning, a range
and a default; `fedrap-coordinator check-config` prints the tree in force. Relative paths are
relative to the file that the settings come from, so that a command means the same database from
whatever folder it is called. With `certificate` the coordinator speaks TLS itself, for those who
have no proxy in front.

The defaults are one set: what `init` derives for 10,000 devices, 5,000 items and epsilon 8. A file
that sets one key of a section changes that key alone; a test compares them with the recipe.
"""

from __future__ import annotations

import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fedrap_coordinator.domain.policy import Policy
from fedrap_coordinator.domain.rate_limits import Pace
from fedrap_coordinator.domain.records import Terms
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.errors import ConfigError
from fedrap_core.paper.averaging import Averaging
from fedrap_core.plan import (
    OFF,
    AnyScoring,
    Method,
    PaperMethod,
    PaperScoring,
    Plan,
    Privacy,
    Scoring,
    SequenceScoring,
    SolveMethod,
    Split,
    sequence_of,
    sequence_scoring,
    trend_of,
)
from fedrap_core.privacy.accounting import noise_for
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_core.solve.server_step import Learning, noise_length
from fedrap_core.split.compiled import Way
from fedrap_core.wire.messages import MOST_PUBLIC, AttributeName

DAY = 86400.0
TaskName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9]{0,19}$")]
Days = Annotated[float, msgspec.Meta(gt=0, le=36500)]


class Enrolment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what terms a device becomes one of the task's."""

    certificate_days: Days = 30.0
    wait_steps: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 2  # released steps for a new key
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    wait_most_days: Days = 30.0  # then steps are not waited for any longer
    audience: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "fedrap"
    account_devices: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 5  # in an account's life
    attestation: str = ""  # package.module:function that verifies attestations
    allow_unattested: bool = True

    def terms(self, now: float, level: str) -> Terms:
        """The terms of a device that enrols now."""
        return Terms(
            wait_steps=self.wait_steps,
            wait_seconds=self.wait_seconds,
            wait_most_seconds=self.wait_most_days * DAY,
            valid_until=now + self.certificate_days * DAY,
            level=level,
        )


class Sealing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a sealing key is named by new rounds."""

    rotate_hours: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 24.0  # 0 never


class AdminApi(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where admins reach the coordinator; without a port, nowhere."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    open_metrics: bool = False  # /metrics without a token
    session_hours: Annotated[float, msgspec.Meta(gt=0, le=720)] = 12.0  # of the dashboard


PREFIX = "FEDRAP__"


class Serve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where devices reach the coordinator, and how much they may send at once."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8470
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 4 * 1024 * 1024
    body_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0  # for a body to begin
    least_body_rate: Annotated[float, msgspec.Meta(gt=0)] = 4096.0  # bytes a second it must keep
    retry_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 30.0  # ask again, at the least
    max_wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 30.0  # for a slot
    max_waiting: Annotated[int, msgspec.Meta(ge=0)] = 5000  # devices that wait for a slot
    shutdown_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 20.0  # for answers begun
    certificate: str = ""  # PEM of the chain; with it devices are served over TLS
    private_key: str = ""  # PEM, of that certificate

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.private_key):
            raise ValueError("certificate and private_key belong together")


class IngestLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How requests are batched, and how many are in hand at once; more are told to come back."""

    batch: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 64  # requests of one commit, at the most
    delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.002  # a first one waits so long
    max_requests: Annotated[int, msgspec.Meta(ge=1)] = 5000
    max_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 64 * 1024 * 1024  # of their bodies


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often devices may ask."""

    device: Pace = Pace(burst=60, per_minute=60)  # one that has proven who it is
    address: Pace = Pace(burst=5000, per_minute=600)  # those who enrol or prove nothing
    proxies: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0  # in front, each adds X-Forwarded-For


class Releases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many versions of C are kept; devices with an older one fetch the whole."""

    keep: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 50
    # States of the sequence part, 12 bytes a number: the last ones, for rollbacks.
    keep_states: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3


class PublicCatalogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of the catalogue everybody may have, beside the ids."""

    # Attributes that devices fetch with the catalogue, such as title, category and url.
    public: Annotated[tuple[AttributeName, ...], msgspec.Meta(max_length=MOST_PUBLIC)] = ()

    def __post_init__(self) -> None:
        if len(set(self.public)) < len(self.public):
            raise ValueError("public: an attribute is named twice")


class Questions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What questions about quality may cost a device, and how they are asked.

    Their epsilon is beside that of rounds; the statement has both together.
    """

    epsilon: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0  # of all answers of a device
    answers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10  # that a device gives at most
    days: Days = 7.0  # that a question is open
    least: Annotated[int, msgspec.Meta(ge=2, le=1_000_000_000)] = 100  # no result from fewer
    most: Annotated[int, msgspec.Meta(ge=2, le=1_000_000_000)] = 100_000  # answers that are taken
    # Releases after which scalars are chosen by votes anew; 0: only when somebody asks for it.
    tune_every: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0

    def noise(self, delta: float) -> float:
        """z of each question, so that all answers together cost `epsilon`."""
        return noise_for(self.epsilon, delta, self.answers)


class Rollouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a release that is rolled out is staged; `[questions]` says how long a stage is open."""

    shares: Annotated[
        tuple[Annotated[float, msgspec.Meta(gt=0, le=1)], ...],
        msgspec.Meta(min_length=1, max_length=8),
    ] = (0.01, 0.1)  # of the devices, stage by stage; everybody comes after them
    tolerance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05  # lead below zero: no harm


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """Scalars that were chosen by votes, and the settings' own that they stand for."""

    instead_of: Scoring
    scoring: Scoring


class HelperServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the helper of private aggregation is, and how both know each other."""

    url: Annotated[str, msgspec.Meta(pattern="^https://")]
    identity: Annotated[str, msgspec.Meta(min_length=130, max_length=130)]  # its point as hex
    certificate: str = "helper.pem"  # of its TLS server, from its operator
    own_certificate: str = "leader.pem"  # `helper certificate` makes it
    own_key: str = "leader.key"  # in the folder of keys
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 300.0  # of one batch


LEAST_PEAK, MOST_PEAK = 0.01, 0.2


class SplitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Private aggregation by two servers: experimental, docs/aggregation.md."""

    helper: HelperServer
    rows: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 100  # as in a plan
    peak: Annotated[float, msgspec.Meta(ge=0.01, le=1)] | None = None  # None: by the row bound
    gram_scale: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0
    expansion: Way = "c"  # how reports are expanded; where that is not to be had, the next best

    def plan(self, least: int, rule: Privacy) -> Split:
        """As devices are told.

        No number of a row is larger than the row bound, so a peak above it would only make steps
        coarser, and what one device can do to a row larger.
        """
        peak = self.peak
        if peak is None:
            needed = 1.0 if rule.row_clip is None else rule.row_clip / rule.clip
            peak = min(MOST_PEAK, max(LEAST_PEAK, needed))
        return Split(rows=self.rows, peak=peak, gram_scale=self.gram_scale, least=max(2, least))


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator can set."""

    data: str = ""  # folder that relative paths of database and keys start from: the file's own
    database: str = "sqlite:///fedrap.sqlite"
    keys: str = "keys"  # folder of the secret keys; never beside the database's backups
    # The name of one of several tasks: its tables in the database have it before theirs.
    task: Annotated[str, msgspec.Meta(pattern="^([a-z][a-z0-9]{0,19})?$")] = ""
    tasks: dict[TaskName, str] = {}  # several beside this one: name and settings file of each
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0  # of the first C
    serve: Serve = Serve()
    ingest: IngestLimits = IngestLimits()
    limits: Limits = Limits()
    round: RoundLimits = RoundLimits(
        min_updates=1250, max_updates=5000, min_seconds=5 * DAY, max_seconds=10 * DAY, total=6
    )
    method: Method = SolveMethod(dim=48)
    privacy: Privacy = Privacy(
        clip=6.0,
        row_clip=2.0,
        noise=1.1566,
        coefficients=(1.0, 0.4874),
        cap=3,
        window_days=365.0,
        spread_days=30.0,
    )
    learning: Learning = Learning(  # of `solve`
        decay=0.8,
        lowest=0.2,
        ridge=30.0,
        population=10_000,
        density=0.01,
        settled=6,
        score_cap=1.35,
    )
    sequence: SequenceLearning = SequenceLearning()  # where `method.sequence` is on
    averaging: Averaging = Averaging()  # of `paper`
    scoring: Scoring = Scoring(ridge=5.0)  # of `solve`
    enrolment: Enrolment = Enrolment()
    sealing: Sealing = Sealing()
    releases: Releases = Releases()
    catalogue: PublicCatalogue = PublicCatalogue()
    questions: Questions = Questions()
    rollouts: Rollouts = Rollouts()
    admin: AdminApi = AdminApi()
    split: SplitSettings | None = None  # None: devices seal to this coordinator alone

    def __post_init__(self) -> None:
        """Settings that contradict each other.

        K spread over more than its window would never be reached; noise that drowns a whole round
        would leave every row without support for ever.
        """
        if self.privacy.rest * self.privacy.cap > self.privacy.window * (1 + 1e-9):
            raise ValueError(
                "privacy.spread_days: it is longer than window_days, after which K renews;"
                " set it to that at the most"
            )
        rule, least = self.privacy, self.learning.min_support
        bound = min(rule.clip, rule.row_clip or rule.clip)
        drowned = noise_length(rule.noise * rule.clip, self.method.dim) / bound
        if least > 0 and drowned >= self.round.max_updates:
            raise ValueError(
                f"learning.min_support: this noise hides what {drowned:.0f} devices do to a row,"
                f" and a round has {self.round.max_updates}: nothing would ever be recommended;"
                " set it to 0, raise row_clip or max_updates, or lower the noise"
            )

    def policy(self) -> Policy:
        """What the task guarantees, as these settings have it."""
        return Policy(privacy=self.privacy, total=self.round.total)

    def under(self, policy: Policy) -> Settings:
        """The same settings under the policy in force."""
        change = msgspec.structs.replace
        limits = change(self.round, total=policy.total)
        return change(self, privacy=policy.privacy, round=limits)

    def plan(self) -> Plan:
        """The plan that every offer of this task carries."""
        least = self.round.min_updates
        split = OFF if self.split is None else self.split.plan(least, self.privacy)
        return Plan(method=self.method, privacy=self.privacy, min_updates=least, split=split)

    def released_scoring(self) -> AnyScoring:
        """What devices need to recommend, as it travels with a release."""
        if isinstance(self.method, PaperMethod):
            return PaperScoring(seed=self.method.seed)
        part, scoring = sequence_of(self.method), self.scoring
        if trend_of(self.method) is None:
            scoring = msgspec.structs.replace(scoring, trend=OFF)
        if part is None:
            return msgspec.structs.replace(scoring, sequence=OFF)
        mix = sequence_scoring(self.scoring) or SequenceScoring()
        mix = msgspec.structs.replace(
            mix, longest=part.longest, ordered=part.ordered, taus=part.taus
        )
        return msgspec.structs.replace(scoring, sequence=mix)


def adopted_settings(settings: Settings, raw: bytes | None) -> Settings:
    """With the scalars that votes chose, for as long as those they stand for are what is set."""
    if raw is None:
        return settings
    adopted = msgspec.json.decode(raw, type=Adopted)
    if adopted.instead_of != settings.released_scoring():
        return settings
    return msgspec.structs.replace(settings, scoring=adopted.scoring)


def load(path: Path | None, environment: Mapping[str, str]) -> Settings:
    """The settings of a TOML file (or none) with the environment on top.

    Raises:
        ConfigError: the file is missing or not TOML, or a key is unknown or out of range.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
            if not tree:
                raise ConfigError(f"{path} says nothing; `fedrap-coordinator init` writes one")
        except FileNotFoundError as error:
            raise ConfigError(
                f"{path} does not exist; `fedrap-coordinator init` writes one"
            ) from error
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
    for name, value in environment.items():
        if name.startswith(PREFIX):
            _overlay(tree, name[len(PREFIX) :].lower().split("__"), value)
    try:
        found = msgspec.convert(over_defaults(tree), Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings: {error}") from error
    return found if path is None else _placed(found, path.parent)


def _placed(settings: Settings, folder: Path) -> Settings:
    """The settings of a file in `folder`, with their relative paths starting there."""
    change, serve = msgspec.structs.replace, settings.serve
    data = folder / settings.data
    scheme, _, database = settings.database.partition(":///")
    if scheme in ("sqlite", "sqlite+pysqlite") and database not in ("", ":memory:"):
        database = f"{scheme}:///{data / database}"
    else:
        database = settings.database
    if serve.certificate:
        certificate, key = folder / serve.certificate, folder / serve.private_key
        serve = change(serve, certificate=str(certificate), private_key=str(key))
    if settings.split is not None:
        helper = settings.split.helper
        helper = change(
            helper,
            certificate=str(folder / helper.certificate),
            own_certificate=str(folder / helper.own_certificate),
            own_key=str(data / settings.keys / helper.own_key),
        )
        settings = change(settings, split=change(settings.split, helper=helper))
    tasks = {name: str(folder / path) for name, path in settings.tasks.items()}
    keys = str(data / settings.keys)
    return change(settings, database=database, keys=keys, serve=serve, tasks=tasks)


def over_defaults(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree of a file over the tree of `Settings()`, so that part of a section is part of it.

    A section of another method than the default one takes nothing over.
    """
    return _merged(msgspec.to_builtins(Settings()), tree)


def _merged(usual: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    if said.get("name", usual.get("name")) != usual.get("name"):
        return said
    whole = usual | said
    for name, value in said.items():
        if isinstance(value, dict) and isinstance(usual.get(name), dict):
            whole[name] = _merged(usual[name], value)
    return whole


def _overlay(tree: dict[str, Any], path: list[str], value: str) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{PREFIX}{'__'.join(path).upper()}: {part} is not a section")
    tree[path[-1]] = _value(value, f"{PREFIX}{'__'.join(path).upper()}")


def _value(text: str, name: str) -> Any:
    """What a variable says: a list or a table as in TOML, `none`, or text that its key reads."""
    if text.strip().lower() == "none":
        return None
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not written as in TOML: {error}") from error


def server_context(serve: Serve) -> ssl.SSLContext | None:
    """What both ports speak; None without a certificate.

    Raises:
        ConfigError: a file is missing, unreadable, or not what it should be.
    """
    if not serve.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(serve.certificate, serve.private_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"serve.certificate {serve.certificate} with private_key {serve.private_key}: {error}"
        ) from error
    return context
