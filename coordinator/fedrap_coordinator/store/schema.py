"""The tables, once for every database. docs/data-model.md says the same in prose."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = 1

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
    sa.Column("participations", sa.Integer, nullable=False, default=0),
    sa.Column("last_step", sa.Integer),
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
)

assignment = sa.Table(
    "assignment",
    metadata,
    sa.Column("round_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("device_id", sa.LargeBinary(16), primary_key=True),
    sa.Column("step_before", sa.Integer),  # the device's last_step before it got this place
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
    sa.Column("step", sa.Integer, nullable=False, unique=True),  # a step is released once
    sa.Column("devices", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("gram", sa.LargeBinary),
)

item = sa.Table(
    "item",
    metadata,
    sa.Column("row", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item_id", sa.String(200), nullable=False, unique=True),
    sa.Column("retired", sa.Boolean, nullable=False, default=False),
)
