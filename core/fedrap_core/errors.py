"""What the core raises. Every error of this project descends from FedRapError.

    FedRapError
    ├─ MalformedMessage     the peer's bytes are wrong, or were sealed for somebody else
    ├─ UnsupportedVersion   the peer speaks another major version or an unknown message
    ├─ TooLarge             more bytes than this message may have
    ├─ SignatureInvalid     not signed by that device, or not by the task's authority
    ├─ ForkedLog            a release that does not follow from the one that is held
    ├─ TokenInvalid         a signed enrolment token that enrols nobody
    ├─ WrongShape           well-formed numbers that do not fit the round's model
    ├─ NotFinite            a number is NaN, infinite or absurdly large
    ├─ BrokenModel          a release whose matrix nobody should compute with
    └─ Diverged             local training ran away; keep the old state, drop the round

A plain ValueError means that the caller made a mistake in code.
"""


class FedRapError(Exception):
    """Base of everything this project raises on purpose."""


class MalformedMessage(FedRapError):
    """The bytes are not what they claim to be. Sealing failures look the same, on purpose."""


class UnsupportedVersion(FedRapError):
    """The message is of a major version or type that this code does not know."""


class TooLarge(FedRapError):
    """The message has more bytes than its kind may have."""


class SignatureInvalid(FedRapError):
    """A request is not that device's, or a message not what the task's authority signed."""


class ForkedLog(FedRapError):
    """The log of releases does not lead from the release that is held to the one that came."""


class TokenInvalid(FedRapError):
    """A signed enrolment token that enrols nobody; the message says why."""


class WrongShape(FedRapError):
    """Rows, dimensions or counts do not fit the model of the round."""


class NotFinite(FedRapError):
    """A number is NaN, infinite or beyond what any honest computation gives."""


class BrokenModel(FedRapError):
    """A matrix C that must not be used: non-finite, huge or of the wrong shape."""


class Diverged(FedRapError):
    """Local training gave numbers that are not finite or grew too fast; nothing was changed."""
