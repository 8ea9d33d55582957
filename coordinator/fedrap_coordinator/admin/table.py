"""One table of admin actions: name, permission, address, arguments, answer, and what is done.

The admin API takes its routes from it, the OpenAPI document its operations and schemas, and the
command line its answers: `rounds --json` and GET /admin/v1/rounds give the same document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from fedrap_coordinator.admin import documents as d
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.admin.policy_actions import PolicyActions
from fedrap_coordinator.admin.question_actions import QuestionActions
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_core.questions.gains import Metric as MetricOfGains
from fedrap_core.wire.messages import MOST_RELEASES, MOST_VARIANTS

PAGE = 1000  # rows of one answer, at the most

Limit = Annotated[int, Meta(ge=1, le=PAGE, description="rows of the answer")]
Start = Annotated[int, Meta(ge=0, le=999_999_999, description="the first row that is wanted")]
Search = Annotated[str, Meta(max_length=200, description="in ids and attributes")]
DeviceId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", description="its id")]
AfterId = Annotated[str, Meta(pattern="^([0-9a-f]{2})*$", description="an id")]
# PostgreSQL keeps no NUL in text, so none comes in.
Name = Annotated[
    str, Meta(min_length=1, max_length=40, pattern=r"^[^\x00]*$", description="of the issuer")
]
Point = Annotated[str, Meta(pattern="^04[0-9a-f]{128}$", description="an uncompressed P-256 point")]
TokenCount = Annotated[int, Meta(ge=1, le=1_000_000)]
ReleaseVersion = Annotated[int, Meta(ge=0, le=2**31, description="of C")]
PolicyValue = float | int | list[float] | dict[str, float] | None
Metric = Annotated[str, Meta(min_length=1, max_length=40, description="such as ndcg@10")]
QuestionId = Annotated[str, Meta(pattern="^[0-9a-f]{1,32}$", description="or its beginning")]
Note = Annotated[str, Meta(max_length=100, description="how it was measured")]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """What an action is called with: from the path, the query and the JSON body, by name."""


class Nothing(Arguments):
    """No arguments."""


class Rows(Arguments):
    """How many rows."""

    limit: Limit = 100


class DeviceRows(Arguments):
    """Devices beyond an id."""

    after: AfterId = ""
    limit: Limit = 100


class OneDevice(Arguments):
    """Which device."""

    device: DeviceId


class Tokens(Arguments):
    """How many tokens."""

    count: TokenCount


class NewIssuer(Arguments):
    """A backend's name and public key."""

    name: Name
    public_key: Point


class OneIssuer(Arguments):
    """Which backend."""

    name: Name


class NewRole(Arguments):
    """Who gets which role."""

    name: str
    role: Role


class OneAdmin(Arguments):
    """Which admin."""

    name: str


class OneRelease(Arguments):
    """Which version."""

    version: ReleaseVersion


class LastSeen(Arguments):
    """The latest release that devices have seen."""

    version: int | None = None  # as the keys have it
    step: int | None = None


class ItemRows(Arguments):
    """Which items."""

    start: Start = 0
    limit: Limit = 100
    search: Search = ""


class ItemNames(Arguments):
    """Which items."""

    items: list[str]


class CatalogueFile(Arguments):
    """A catalogue file: what it is called, which says of what kind it is, and what is in it."""

    name: str
    text: str


class NewQuality(Arguments):
    """A number of a release."""

    version: ReleaseVersion
    metric: Metric
    value: float
    note: Note = ""


class NewQuestion(Arguments):
    """A question about quality: of releases, or of candidates for the scalars in force."""

    metric: MetricOfGains = "ndcg10"
    releases: Annotated[list[ReleaseVersion], Meta(max_length=MOST_RELEASES)] = []
    candidates: Annotated[
        list[dict[str, float]],
        Meta(max_length=MOST_VARIANTS - 1, description="scalars that each one has otherwise"),
    ] = []
    days: Annotated[float, Meta(gt=0, le=365)] | None = None
    least: Annotated[int, Meta(ge=2, le=1_000_000_000)] | None = None
    light: Annotated[int, Meta(ge=0, le=1_000_000, description="interactions; 0: one group")] = 0
    lists: Annotated[bool, Meta(description="what lists consist of, and nothing else")] = False


class NewRollout(Arguments):
    """What is staged, and to which shares; without anything what the next round learns."""

    version: ReleaseVersion | None = None
    change: Annotated[
        dict[str, float], Meta(max_length=64, description="scalars that the staged one has")
    ] = {}
    shares: Annotated[
        list[Annotated[float, Meta(gt=0, le=1)]],
        Meta(max_length=8, description="of the devices, stage by stage; default: the settings'"),
    ] = []
    tolerance: Annotated[float, Meta(ge=0, le=1)] | None = None


class OneQuestion(Arguments):
    """Which question."""

    question: QuestionId


class NewPolicy(Arguments):
    """Other values for fields of the policy; without `take` only the effect is told."""

    changes: Annotated[
        dict[str, PolicyValue], Meta(max_length=64, description="by field: noise, cap, total …")
    ]
    take: bool = False


A = TypeVar("A", bound=Arguments)
D = TypeVar("D", bound=d.Answer)


@dataclass(frozen=True)
class Action(Generic[A, D]):
    """One thing that an admin can do."""

    name: str
    permission: str  # of permissions.PERMISSIONS; "" for the command line alone
    method: str  # of HTTP, lower case; "" where only the command line has it
    path: str
    about: str
    arguments: type[A]
    answer: type[D]
    run: Callable[[AdminActions, A], Awaitable[D]]


STATUS = Action(
    "status", "status", "get", "/admin/v1/status", "Counts, the latest release, the open round.",
    Nothing, d.Status, lambda admin, _: admin.status(),
)  # fmt: skip
DASHBOARD = Action(
    "overview", "overview", "get", "/admin/v1/overview", "What the dashboard shows.",
    Nothing, d.Dashboard, lambda admin, _: admin.dashboard(),
)  # fmt: skip
ROUNDS = Action(
    "rounds", "rounds", "get", "/admin/v1/rounds", "The last rounds.",
    Rows, d.RoundList, lambda admin, a: admin.rounds(a.limit),
)  # fmt: skip
DEVICES = Action(
    "devices", "devices", "get", "/admin/v1/devices", "Devices by id.",
    DeviceRows, d.DeviceList, lambda admin, a: admin.devices(bytes.fromhex(a.after), a.limit),
)  # fmt: skip
REVOKE = Action(
    "revoke", "revoke", "post", "/admin/v1/devices/{device}/revoke", "Shut a device out.",
    OneDevice, d.Revoked, lambda admin, a: admin.revoke(bytes.fromhex(a.device)),
)  # fmt: skip
TOKENS = Action(
    "tokens", "tokens", "post", "/admin/v1/tokens", "Enrolment tokens.",
    Tokens, d.TokenList, lambda admin, a: admin.tokens(a.count),
)  # fmt: skip
LEDGER = Action(
    "ledger", "ledger", "get", "/admin/v1/privacy/ledger", "What was charged, checked.",
    Nothing, d.Ledger, lambda admin, _: admin.ledger(),
)  # fmt: skip
CHARGES = Action(
    "charges", "charges", "get", "/admin/v1/privacy/charges", "Every slot; devices as numbers.",
    Nothing, d.LedgerWithCharges, lambda admin, _: admin.ledger_with_charges(),
)  # fmt: skip
POLICY = Action(
    "policy", "policy", "get", "/admin/v1/policy", "The policy in force.",
    Nothing, d.PolicyChange, lambda admin, _: PolicyActions(admin).change({}, take=False),
)  # fmt: skip
CHANGE_POLICY = Action(
    "change-policy", "change-policy", "post", "/admin/v1/policy",
    "Change noise, clip, b, K or the number of rounds; or say what that would do.",
    NewPolicy, d.PolicyChange,
    lambda admin, a: PolicyActions(admin).change(a.changes, take=a.take),
)  # fmt: skip
ISSUERS = Action(
    "issuers", "issuers", "get", "/admin/v1/issuers", "Backends that sign tokens.",
    Nothing, d.IssuerList, lambda admin, _: admin.issuers(),
)  # fmt: skip
ADD_ISSUER = Action(
    "issuer-add", "issuers", "post", "/admin/v1/issuers", "Register a backend.",
    NewIssuer, d.Added, lambda admin, a: admin.add_issuer(a.name, bytes.fromhex(a.public_key)),
)  # fmt: skip
REMOVE_ISSUER = Action(
    "issuer-remove", "issuers", "delete", "/admin/v1/issuers/{name}", "Refuse its tokens.",
    OneIssuer, d.Removed, lambda admin, a: admin.remove_issuer(a.name),
)  # fmt: skip
KEYS = Action(
    "keys", "keys", "get", "/admin/v1/keys", "Sealing keys without secrets.",
    Nothing, d.KeyList, lambda admin, _: admin.keys(),
)  # fmt: skip
ROTATE_KEYS = Action(
    "rotate-keys", "rotate-keys", "post", "/admin/v1/keys/rotate", "The next key becomes active.",
    Nothing, d.Rotated, lambda admin, _: admin.rotate_keys(),
)  # fmt: skip
AUDIT = Action(
    "audit", "audit", "get", "/admin/v1/audit", "What admins did.",
    Nothing, d.AuditLog, lambda admin, _: admin.audit(),
)  # fmt: skip
RELEASES = Action(
    "releases", "releases", "get", "/admin/v1/releases", "Versions of C.",
    Rows, d.ReleaseList, lambda admin, a: CatalogueActions(admin).releases(a.limit),
)  # fmt: skip
ROLL_BACK = Action(
    "roll-back", "roll-back", "post", "/admin/v1/releases/rollback",
    "An earlier C as a new version.",
    OneRelease, d.RolledBack, lambda admin, a: CatalogueActions(admin).roll_back(a.version),
)  # fmt: skip
ITEMS = Action(
    "items", "items", "get", "/admin/v1/items", "Items by row.",
    ItemRows, d.ItemList,
    lambda admin, a: CatalogueActions(admin).items(a.start, a.limit, a.search),
)  # fmt: skip
IMPORT_ITEMS = Action(
    "import-items", "import-items", "post", "/admin/v1/items", "Import a catalogue file.",
    CatalogueFile, d.ImportedItems,
    lambda admin, a: CatalogueActions(admin).import_items(read_items(a.name, a.text)),
)  # fmt: skip
RETIRE_ITEMS = Action(
    "retire-items", "retire-items", "post", "/admin/v1/items/retire", "Show them no more.",
    ItemNames, d.RetiredItems, lambda admin, a: CatalogueActions(admin).retire_items(a.items),
)  # fmt: skip
QUALITY = Action(
    "quality", "quality", "get", "/admin/v1/quality", "What was measured elsewhere.",
    Nothing, d.QualityList, lambda admin, _: CatalogueActions(admin).quality(),
)  # fmt: skip
NOTE_QUALITY = Action(
    "note-quality", "note-quality", "post", "/admin/v1/quality", "Note a number of a release.",
    NewQuality, d.Noted,
    lambda admin, a: CatalogueActions(admin).note_quality(a.version, a.metric, a.value, a.note),
)  # fmt: skip
ASK = Action(
    "ask", "ask", "post", "/admin/v1/questions", "Ask devices about quality.",
    NewQuestion, d.QuestionLine,
    lambda admin, a: QuestionActions(admin).ask(
        a.metric, a.releases, a.candidates, days=a.days, least=a.least, light=a.light,
        lists=a.lists,
    ),
)  # fmt: skip
TUNE = Action(
    "tune", "ask", "post", "/admin/v1/questions/tune",
    "Choose scalars by votes, one question after the other.",
    Nothing, d.QuestionLine, lambda admin, _: QuestionActions(admin).tune(),
)  # fmt: skip
QUESTIONS = Action(
    "questions", "quality", "get", "/admin/v1/questions", "What devices were asked, and said.",
    Rows, d.QuestionList, lambda admin, a: QuestionActions(admin).questions(a.limit),
)  # fmt: skip
QUESTION = Action(
    "question", "quality", "get", "/admin/v1/questions/{question}", "One question.",
    OneQuestion, d.QuestionLine, lambda admin, a: QuestionActions(admin).question(a.question),
)  # fmt: skip
START_ROLLOUT = Action(
    "rollout-start", "roll-out", "post", "/admin/v1/rollouts",
    "Stage a release to some devices first.",
    NewRollout, d.RolloutLine,
    lambda admin, a: RolloutActions(admin).start(a.version, a.change, a.shares, a.tolerance),
)  # fmt: skip
ROLLOUTS = Action(
    "rollouts", "quality", "get", "/admin/v1/rollouts", "Releases that are or were staged.",
    Rows, d.RolloutList, lambda admin, a: RolloutActions(admin).rollouts(a.limit),
)  # fmt: skip
HALT_ROLLOUT = Action(
    "rollout-halt", "roll-out", "post", "/admin/v1/rollouts/halt", "Take the staged release back.",
    Nothing, d.RolloutLine, lambda admin, _: RolloutActions(admin).halt(),
)  # fmt: skip
PROMOTE_ROLLOUT = Action(
    "rollout-promote", "roll-out", "post", "/admin/v1/rollouts/promote",
    "Give the staged release to everybody now.",
    Nothing, d.RolloutLine, lambda admin, _: RolloutActions(admin).promote(),
)  # fmt: skip
NEXT_TASK = Action(
    "task-next", "roll-out", "post", "/admin/v1/task/next",
    "Learn a successor with the settings of now, beside the latest release.",
    Nothing, d.RolloutLine, lambda admin, _: RolloutActions(admin).begin_successor(),
)  # fmt: skip
JUDGE_TASK = Action(
    "task-judge", "roll-out", "post", "/admin/v1/task/judge",
    "Stage the successor to some devices, and let their answers decide.",
    Nothing, d.RolloutLine, lambda admin, _: RolloutActions(admin).judge_successor(),
)  # fmt: skip
ADMINS = Action(
    "admins", "", "", "", "Who may use the admin API.",
    Nothing, d.AdminList, lambda admin, _: admin.admins(),
)  # fmt: skip
ADD_ADMIN = Action(
    "admin-add", "", "", "", "A role for somebody.",
    NewRole, d.NewAdmin, lambda admin, a: admin.add_admin(a.name, a.role),
)  # fmt: skip
REMOVE_ADMIN = Action(
    "admin-remove", "", "", "", "Take a role back.",
    OneAdmin, d.Removed, lambda admin, a: admin.remove_admin(a.name),
)  # fmt: skip
RECOVER = Action(
    "recover", "", "", "", "After a backup came back: go on later.",
    LastSeen, d.RolledBack, lambda admin, a: CatalogueActions(admin).recover(a.version, a.step),
)  # fmt: skip

ACTIONS: tuple[Action[Any, Any], ...] = (
    STATUS, DASHBOARD, ROUNDS, DEVICES, REVOKE, TOKENS, LEDGER, CHARGES, POLICY,
    CHANGE_POLICY, ISSUERS, ADD_ISSUER,
    REMOVE_ISSUER, KEYS, ROTATE_KEYS, AUDIT, RELEASES, ROLL_BACK, ITEMS, IMPORT_ITEMS,
    RETIRE_ITEMS, QUALITY, NOTE_QUALITY, ASK, TUNE, QUESTIONS, QUESTION,
    START_ROLLOUT, ROLLOUTS, HALT_ROLLOUT, PROMOTE_ROLLOUT, NEXT_TASK, JUDGE_TASK,
    ADMINS, ADD_ADMIN, REMOVE_ADMIN, RECOVER,
)  # fmt: skip
SERVED = tuple(action for action in ACTIONS if action.path)  # over HTTP
