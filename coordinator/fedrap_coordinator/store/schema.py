"""The tables, once for every database. docs/data-model.md says the same in prose."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = 13  # migrations.py brings older databases here

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

token = sa.Table(
    "token",
    metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("made_at", sa.Float, nullable=False),
    sa.Column("used_at", sa.Float),
)

device = sa.Table(
    "device",
    metadata,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("public_key", sa.LargeBinary(65), nullable=False),
    sa.Column("enrolled_at", sa.Float, nullable=False),
    sa.Column("last_nonce", sa.BigInteger, nullable=False, default=0),
    sa.Column("participations", sa.Integer, nullable=False, default=0),  # charged, against K
    sa.Column("last_step", sa.Integer),  # of the last slot that still counts for the gap
    sa.Column("counted_step", sa.Integer),  # of the last release with an update of this device
    sa.Column("first_step", sa.Integer, nullable=False, server_default="0"),  # of a new key
    sa.Column("not_before", sa.Float, nullable=False, server_default="0"),
    sa.Column("free_at", sa.Float, nullable=False, server_default="0"),  # first_step binds no more
    sa.Column("valid_until", sa.Float, nullable=False, server_default="9e18"),  # certificate
    sa.Column("level", sa.String(40), nullable=False, server_default="none"),  # attestation
    sa.Column("revoked_at", sa.Float),
    sa.Column("spent", sa.Float, nullable=False, server_default="0"),  # mu^2, by the rules of then
    sa.Column("last_cost", sa.Float, nullable=False, server_default="0"),  # of last_step
    # When it was charged and what for, the newest first: domain/charges.py.
    sa.Column("charges", sa.Text, nullable=False, server_default=""),
    sa.Column("dearest", sa.Float, nullable=False, server_default="0"),  # mu^2, in the window
)

round_ = sa.Table(
    "round",
    metadata,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("release", sa.Integer, nullable=False),
    sa.Column("phase", sa.String(12), nullable=False),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("seal_id", sa.LargeBinary(8)),  # names the sealing key; the key is in a file
    sa.Column("helper", sa.LargeBinary),  # what its offers say of a second server
    sa.Column("assigned", sa.Integer, nullable=False, server_default="0"),  # slots given
    sa.Column("accepted", sa.Integer, nullable=False, server_default="0"),  # updates kept
    sa.Column("closed_at", sa.Float),  # released or abandoned
    sa.Column("summed_at", sa.Float),  # collecting ended, and summing began
    sa.Column("body_bytes", sa.BigInteger, nullable=False, server_default="0"),  # of its updates
)

assignment = sa.Table(
    "assignment",
    metadata,
    sa.Column("round_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("device_id", sa.LargeBinary(16), primary_key=True),
)

update = sa.Table(
    "update_",
    metadata,
    sa.Column("round_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("device_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("received_at", sa.Float, nullable=False),
    sa.Column("body", sa.LargeBinary),  # sealed; NULL once the round is over
)

release = sa.Table(
    "release",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("devices", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("gram", sa.LargeBinary),
    sa.Column("support", sa.LargeBinary),
)

rollout = sa.Table(  # releases that went, or go, to some devices first
    "rollout",
    metadata,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("source", sa.String(4000), nullable=False),
    sa.Column("shares", sa.String(400), nullable=False),  # numbers with spaces between them
    sa.Column("tolerance", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float, nullable=False),
    sa.Column("state", sa.String(12), nullable=False),
    sa.Column("base", sa.Integer),
    sa.Column("version", sa.Integer),
    sa.Column("stage", sa.Integer, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("ended_at", sa.Float),
    sa.Column("going", sa.Integer, unique=True),  # 1, then NULL: one at a time
)

learner = sa.Table(  # state of the sequence part with a release, in pieces
    "learner",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

# By step, for clocks jump; of the rounds of one step all but the last were abandoned.
NEWEST_ROUND_FIRST = (
    round_.c.step.desc(),
    (round_.c.phase == "abandoned").asc(),
    round_.c.opened_at.desc(),
    round_.c.id.desc(),
)

release_fact = sa.Table(  # what stays known of a release after its body was dropped
    "release_fact",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("devices", sa.Integer, nullable=False),
    sa.Column("restores", sa.Integer),  # the version whose C was published again
    sa.Column("made_at", sa.Float, nullable=False),
    sa.Column("items", sa.Integer, nullable=False),
    sa.Column("zeros", sa.Float, nullable=False),
    sa.Column("whole_bytes", sa.BigInteger, nullable=False),
    sa.Column("delta_bytes", sa.BigInteger),
    sa.Column("updates", sa.LargeBinary(32)),  # digest of those it was made from
    sa.Column("staged", sa.LargeBinary(16)),  # the roll-out that it is staged by; NULL: for all
)
_made = release_fact.c.restores.is_(None)
sa.Index(  # a step is released once
    "release_fact_step",
    release_fact.c.step,
    unique=True,
    sqlite_where=_made,
    postgresql_where=_made,
)

release_log = sa.Table(  # what the authority signed; a link is used once, so that it is one chain
    "release_log",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("before", sa.LargeBinary(32), nullable=False, unique=True),  # digest of an entry
    sa.Column("entry", sa.LargeBinary, nullable=False),
)

item = sa.Table(
    "item",
    metadata,
    sa.Column("row", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item_id", sa.String(200), nullable=False, unique=True),
    sa.Column("retired", sa.Boolean, nullable=False, default=False),
)

item_attribute = sa.Table(
    "item_attribute",
    metadata,
    sa.Column("row", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.String(500), nullable=False),
    sa.Index("item_attribute_pair", "name", "value"),
)

refusal = sa.Table(  # how often a problem was the answer while a round was open; no device
    "refusal",
    metadata,
    sa.Column("round_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("problem", sa.String(40), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
)

quality = sa.Table(  # what somebody measured of a release, elsewhere
    "quality",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("metric", sa.String(40), primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("note", sa.String(100), nullable=False),
)

question = sa.Table(  # what devices were asked of quality, and the noised sum of their answers
    "question",
    metadata,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("signed", sa.LargeBinary, nullable=False),  # as devices get it
    sa.Column("seal_id", sa.LargeBinary(8), nullable=False),
    sa.Column("asked_at", sa.Float, nullable=False),
    sa.Column("ends_at", sa.Float, nullable=False),
    sa.Column("most", sa.Integer, nullable=False),
    sa.Column("budget", sa.Integer, nullable=False),
    sa.Column("purpose", sa.String(2000), nullable=False),
    sa.Column("state", sa.String(12), nullable=False, index=True),
    sa.Column("answers", sa.Integer, nullable=False),
    sa.Column("total", sa.LargeBinary, nullable=False),
    sa.Column("closed_at", sa.Float),
)

answer = sa.Table(  # who has answered, once and for all
    "answer",
    metadata,
    sa.Column("question_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("device_id", sa.LargeBinary(16), primary_key=True, index=True),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("body", sa.LargeBinary),  # sealed; NULL once the question is over
)

issuer = sa.Table(  # an app's backend that signs enrolment tokens
    "issuer",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("public_key", sa.LargeBinary(65), nullable=False),
    sa.Column("added_at", sa.Float, nullable=False),
)

signed_token = sa.Table(  # one-time ids that were used; no time of use, no device
    "signed_token",
    metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("expires_at", sa.Float, nullable=False, index=True),
)

account = sa.Table(  # how many devices a pseudonymous account has enrolled, and not which
    "account",
    metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("devices", sa.Integer, nullable=False),
)

admin = sa.Table(
    "admin",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("role", sa.String(12), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False, unique=True),  # of the bearer token
    sa.Column("added_at", sa.Float, nullable=False),
)

ended_session = sa.Table(  # browsers that signed out before their cookie ended
    "ended_session",
    metadata,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("until", sa.Float, nullable=False, index=True),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("who", sa.String(60), nullable=False),
    sa.Column("action", sa.String(40), nullable=False),
    sa.Column("target", sa.String(100), nullable=False),
    sa.Column("outcome", sa.String(40), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),  # over this row and the one before
)


def _after_audit(dialect: str, statement: str) -> None:
    made = sa.DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
    sa.event.listen(audit, "after_create", made)


# What was written into the audit cannot be changed or deleted, not even by this program.
for _verb in ("UPDATE", "DELETE"):
    _after_audit(
        "sqlite",
        f"CREATE TRIGGER %(table)s_no_{_verb.lower()} BEFORE {_verb} ON %(table)s "
        "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
    )
_after_audit(
    "postgresql",
    "CREATE OR REPLACE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN RAISE EXCEPTION ''the audit is append-only''; END'",
)
_after_audit(
    "postgresql",
    "CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON %(table)s "
    "EXECUTE FUNCTION audit_keep()",
)
