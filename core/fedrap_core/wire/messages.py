"""Every message of the protocol as a frozen value; spec/PROTOCOL.md has a table for each.

A message is a msgpack map with `v` (major version), `type` and the fields below. Unknown fields
are ignored, so that old devices survive new coordinators.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fedrap_core.plan import OFF, AnyScoring, Count, Dim, Off
from fedrap_core.questions.gains import Metric

Id16 = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
KeyId = Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Point = Annotated[bytes, msgspec.Meta(min_length=65, max_length=65)]  # uncompressed P-256 point
Step = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Version = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Seconds70 = Annotated[float, msgspec.Meta(ge=0, le=1e12)]  # since 1970
Kind = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]  # a word, such as "none"
SignedBytes = Annotated[bytes, msgspec.Meta(max_length=1024)]  # a signature and what it signs
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]  # r and s
MOST_ENTRIES = 200  # of the log of releases in one message
MOST_PUBLIC = 16  # attributes of items that devices get
PAGE_ROWS = 1024  # items at most in one page of attributes
MOST_ATTRIBUTE_BYTES = 64 * 1024 * 1024  # of all pages together
MOST_RELEASES = 8  # that one question asks about
MOST_VARIANTS = 16  # candidates of one question
MOST_QUESTIONS = 16  # open at once
AttributeName = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all messages; the tag is the `type` on the wire."""


class Enrol(Message, frozen=True, kw_only=True, tag="enrol"):
    """Device -> coordinator: a token of the app's backend and the device's public key."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    public_key: Point
    attestation_kind: Kind = "none"
    attestation: Annotated[bytes, msgspec.Meta(max_length=16384)] = b""


class Enrolled(Message, frozen=True, kw_only=True, tag="enrolled"):
    """Coordinator -> device: who it is from now on, in which task, and the proof of it."""

    device: Id16
    task: Id16
    certificate: SignedBytes = b""
    authority: Annotated[bytes, msgspec.Meta(max_length=65)] = b""  # who signs for the task


class Certificate(Message, frozen=True, kw_only=True, tag="certificate"):
    """Inside a signed certificate: this key is that device's, until then."""

    task: Id16
    device: Id16
    public_key: Point
    level: Kind  # of the attestation
    issued_at: Seconds70
    expires_at: Seconds70


class Renew(Message, frozen=True, kw_only=True, tag="renew"):
    """Device -> coordinator: a new certificate, please. The attestation is made for `nonce`."""

    nonce: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    attestation_kind: Kind = "none"
    attestation: Annotated[bytes, msgspec.Meta(max_length=16384)] = b""


class Renewed(Message, frozen=True, kw_only=True, tag="renewed"):
    """Coordinator -> device: here it is."""

    certificate: SignedBytes


class OfferRequest(Message, frozen=True, kw_only=True, tag="offer-request"):
    """Device -> coordinator: may I take part? `release` is the version it holds.

    `wait`: seconds that the device is willing to wait for the answer, where there is no place now.
    """

    release: Version
    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0


class Signed(Message, frozen=True, kw_only=True, tag="signed"):
    """Coordinator -> device: an offer or a receipt, as the task's authority signed it."""

    body: Annotated[bytes, msgspec.Meta(max_length=8192)]  # the bytes of that message
    signature: Signature


class HelperKey(msgspec.Struct, frozen=True, kw_only=True):
    """Inside an offer: the second server of a plan with `split`, and what it signed; see shares."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]  # who runs it, in words
    seal_key: Point
    seal_id: KeyId
    signature: Signature  # by the helper's identity, which the app pins


class Offer(Message, frozen=True, kw_only=True, tag="offer"):
    """Inside `signed`: a place in a round, the same for all who have one."""

    task: Id16
    round: Id16
    step: Step
    plan: Annotated[bytes, msgspec.Meta(max_length=4096)]  # a plan.Plan, as encoded bytes
    release: Version
    model: Digest  # hash of that release's C
    seal_key: Point
    seal_id: KeyId
    helper: HelperKey | Off = OFF  # there where the plan has `split`
    # The full release that a device must hold, where `release` is its successor: fetched to be
    # trained against, and not used for lists.
    beside: Version | Off = OFF


class Update(Message, frozen=True, kw_only=True, tag="update"):
    """Device -> coordinator: a sealed share. Everything outside `sealed` is bound into it."""

    task: Id16
    round: Id16
    step: Step
    model: Digest
    plan: Digest  # SHA-256 of the plan's bytes
    device: Id16
    seal_id: KeyId
    sealed: bytes


class SharePart(msgspec.Struct, frozen=True, kw_only=True):
    """One more part of a share, int8 with scales; the plan says how many numbers a row has."""

    name: Kind  # as in parts.py
    rows: bytes = b""  # u32 little-endian, ascending; none where all rows come
    scales: bytes  # f32 little-endian, one per row
    values: bytes  # i8


class Share(Message, frozen=True, kw_only=True, tag="share"):
    """Inside `sealed`: rows of the delta of C and the folded triangle, int8 with scales."""

    rows: bytes  # u32 little-endian, ascending
    scales: bytes  # f32 little-endian, one per row
    values: bytes  # i8, k per row
    triangle_scales: bytes  # f32 little-endian, one per folded row
    triangle: bytes  # i8, k per folded row
    fits: Annotated[int, msgspec.Meta(ge=-1, le=1)] = 0  # see RowUpdate
    # what else the plan asks for, in its order
    parts: Annotated[list[SharePart], msgspec.Meta(max_length=8)] | Off = OFF


class Accepted(Message, frozen=True, kw_only=True, tag="accepted"):
    """Inside `signed`: the update is stored; `digest` is the SHA-256 of its bytes."""

    round: Id16
    digest: Digest


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Inside a question: a release that is staged to a share of the devices.

    Which devices those are each of them draws from its own key and `rollout`.
    """

    rollout: Id16
    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    base: Version  # the full release that it stands beside


class Question(Message, frozen=True, kw_only=True, tag="question"):
    """Inside `signed`: what devices are asked of the quality of releases, and what it costs them.

    Without variants it is about the gains that devices had under these releases; with them about
    what each of these scorings would have given under the one release; with a trial about the lead
    of the one release, which is staged; with lists about what lists consist of under the one
    release. questions/ has the formulas.
    """

    task: Id16
    question: Id16
    metric: Metric
    releases: Annotated[list[Version], msgspec.Meta(min_length=1, max_length=MOST_RELEASES)]
    variants: Annotated[list[AnyScoring], msgspec.Meta(max_length=MOST_VARIANTS)] | Off = OFF
    trial: Trial | Off = OFF
    lists: Annotated[int, msgspec.Meta(ge=8, le=1024)] | Off = OFF  # buckets; see lists.py
    lately: bool | Off = OFF  # beside the popular list also that of the trend
    light: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0  # interactions; 0: one group
    noise: Annotated[float, msgspec.Meta(ge=0, le=1e4)]  # z, stddev of the sum's noise / S
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    least: Count  # no result from fewer answers
    most: Count  # answers that are taken
    budget: Count  # questions that a device answers at most in a window
    asked_at: Seconds70
    ends_at: Seconds70
    seal_key: Point
    seal_id: KeyId
    helper: HelperKey | Off = OFF  # answers are shares for two servers, of which it is the second


class Questions(Message, frozen=True, kw_only=True, tag="questions"):
    """Coordinator -> anybody: the questions that are open, each as signed."""

    questions: Annotated[list[Signed], msgspec.Meta(max_length=MOST_QUESTIONS)]


class Answer(Message, frozen=True, kw_only=True, tag="answer"):
    """Device -> coordinator: a sealed vector. Everything outside `sealed` is bound into it."""

    task: Id16
    question: Id16
    device: Id16
    seal_id: KeyId
    sealed: Annotated[bytes, msgspec.Meta(max_length=8192)]


class ReleaseEntry(Message, frozen=True, kw_only=True, tag="release-entry"):
    """A release in the log that the authority signs: all that a device uses of it.

    What is large is there by its digest. A later kind of part adds a digest of its own, which
    devices that do not know it ignore.
    """

    task: Id16
    version: Version
    step: Step
    size: Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # m
    dim: Dim  # k
    catalogue: Version
    scoring: AnyScoring
    clip: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    model: Digest  # of all its numbers, see releases.model_hash
    withheld: Digest  # SHA-256 of the bytes that say which rows are withheld
    before: Digest  # of the entry before it; zeros for the first
    staged: Id16 | Off = OFF  # the roll-out that it is staged by; OFF: it is for every device


class Log(Message, frozen=True, kw_only=True, tag="log"):
    """Coordinator -> anybody: signed entries in a row, and the one of the latest release."""

    entries: Annotated[list[SignedBytes], msgspec.Meta(max_length=MOST_ENTRIES)]
    head: SignedBytes = b""  # empty before the first release


class SequenceBody(msgspec.Struct, frozen=True, kw_only=True):
    """Inside a release or a delta: the sequence part. A release has all rows and names none.

    Bitmaps and values as in a release of C, k bits per row.
    """

    dim: Dim  # k of this part
    kernels: Annotated[bytes, msgspec.Meta(max_length=4 * 512 * 16)]  # f32 little-endian, S x k
    output_rows: bytes = b""  # u32 little-endian, ascending
    output_scales: bytes  # f32 little-endian, one per row
    output_bitmap: bytes
    output_values: bytes  # i8
    bias: bytes  # f32 little-endian, one per row of the outputs
    offset_rows: bytes = b""
    offset_scales: bytes
    offset_bitmap: bytes
    offset_values: bytes


class Release(Message, frozen=True, kw_only=True, tag="release"):
    """Coordinator -> device: one version of C, and how to recommend with it."""

    task: Id16
    version: Version
    step: Step
    size: Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # m
    dim: Dim  # k
    catalogue: Version  # of the catalogue that `size` was taken from
    scoring: AnyScoring
    clip: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0  # of the next round, where it adapts
    model: Digest
    scales: bytes  # f32 little-endian, m
    bitmap: bytes  # m·k bits: which entries are not 0, see bitmaps.py
    values: bytes  # i8, those entries
    withheld: bytes = b""  # a bit per row, lowest first: not to be recommended; empty: none
    entry: SignedBytes = b""  # of the log: a signature and a ReleaseEntry
    sequence: SequenceBody | Off = OFF
    trend: bytes | Off = OFF  # f32 little-endian scale, then m i8: what was touched lately


class Delta(Message, frozen=True, kw_only=True, tag="delta"):
    """Coordinator -> device: what makes version `version` of C out of version `since`.

    Rows are absolute, not differences, so that errors never add up.
    """

    task: Id16
    since: Version
    version: Version
    step: Step
    size: Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # m of the result
    dim: Dim
    catalogue: Version
    scoring: AnyScoring
    model: Digest  # hash of the result
    rows: bytes  # u32 little-endian, ascending
    scales: bytes  # f32 little-endian, one per row
    bitmap: bytes  # k bits per row: which entries are not 0
    values: bytes  # i8, those entries
    withheld: bytes = b""  # of the result, as in a release
    entry: SignedBytes = b""  # of the result
    sequence: SequenceBody | Off = OFF  # there where the result has one
    trend: bytes | Off = OFF  # of the result, whole, as in a release


class Catalogue(Message, frozen=True, kw_only=True, tag="catalogue"):
    """Coordinator -> device: the items from row `start` on. A row is never given twice."""

    version: Version
    start: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    count: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    items: bytes  # UTF-8 ids of row start, start + 1, …, each followed by a newline
    retired: bytes  # u32 little-endian, ascending: all rows not to be shown


class AttributesEntry(Message, frozen=True, kw_only=True, tag="attributes-entry"):
    """What the authority signs of the items' public attributes; pages are there by their digests.

    Of two the later one has the larger release, and with the same release the larger version.
    """

    task: Id16
    release: Version  # the latest one when this was signed
    version: Version  # grows with each change of an attribute
    count: Annotated[int, msgspec.Meta(ge=0, le=2**24)]  # rows, from row 0 on
    rows: Annotated[int, msgspec.Meta(ge=1, le=PAGE_ROWS)]  # in each page but the last
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_ATTRIBUTE_BYTES)]  # of all pages
    names: Annotated[list[AttributeName], msgspec.Meta(max_length=MOST_PUBLIC)]
    pages: Digest  # SHA-256 of the digests of all pages


class Attributes(Message, frozen=True, kw_only=True, tag="attributes"):
    """Coordinator -> anybody: which pages the public attributes of the items are in."""

    entry: SignedBytes  # a signature and an AttributesEntry
    pages: Annotated[bytes, msgspec.Meta(max_length=4 * 1024 * 1024)]  # 32 bytes each, in order


class AttributePage(Message, frozen=True, kw_only=True, tag="attribute-page"):
    """Coordinator -> anybody: some rows of each public attribute, column by column."""

    columns: Annotated[list[bytes], msgspec.Meta(max_length=MOST_PUBLIC)]
    # UTF-8 values, each followed by a newline; an empty one says that an item has none


class Forget(Message, frozen=True, kw_only=True, tag="forget"):
    """Device -> coordinator: this device is no more; forget its key."""


class Forgotten(Message, frozen=True, kw_only=True, tag="forgotten"):
    """Coordinator -> device: done. What was summed into releases stays there."""
