"""The helper's settings: one frozen tree from TOML. A typo is an error.

Relative paths are relative to the file. `fedrap-aggregator init` writes one with keys and a
certificate beside it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from fedrap_aggregator.errors import ConfigError
from fedrap_core.split.compiled import Way


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that whoever runs a helper can set."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]  # shown to users
    host: str = "0.0.0.0"  # where the leader reaches it
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8471
    monitor_host: str = "127.0.0.1"  # health and metrics, without TLS
    monitor_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 9471
    database: str = "helper.sqlite"
    keys: str = "helper-keys"  # a folder that backups of the database leave out
    certificate: str = "helper.pem"  # of this server; the leader gets a copy
    private_key: str = "helper-keys/tls.key"
    leader: str = "leader.pem"  # the leader's certificate: nobody else is answered
    # What this helper insists on, whatever a plan says.
    least: Annotated[int, msgspec.Meta(ge=2, le=1_000_000_000)] = 20  # devices in a sum
    noise: Annotated[float, msgspec.Meta(ge=0, le=1e4)] = 0.0  # z of a plan, at the least
    longest_days: Annotated[float, msgspec.Meta(gt=0, le=365)] = 30.0  # that a round may stay open
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 8 * 1024 * 1024
    expansion: Way = "c"  # how reports are expanded; where that is not to be had, the next best

    def placed(self, folder: Path) -> Settings:
        """The same, with its paths starting from `folder`."""
        paths = ("database", "keys", "certificate", "private_key", "leader")
        return msgspec.structs.replace(
            self, **{name: str(folder / getattr(self, name)) for name in paths}
        )


def load(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        ConfigError: it is missing, not TOML, or a key is unknown or out of range.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(tree, Settings).placed(path.parent)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; `fedrap-aggregator init` writes one") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def template(name: str, host: str, port: int) -> str:
    """What `init` writes."""
    usual = Settings(name=name)
    return f"""\
# fedrap-aggregator, the helper of a FedRAP coordinator. Paths are relative to this file.
name = {_text(name)}         # shown to users: say who you are
host = {_text(host)}
port = {port}
monitor_host = "{usual.monitor_host}"  # /healthz and /metrics, without TLS: keep it local
monitor_port = {usual.monitor_port}
database = "{usual.database}"
keys = "{usual.keys}"       # never in a backup of the database
certificate = "{usual.certificate}"
private_key = "{usual.private_key}"
leader = "{usual.leader}"        # the coordinator's certificate, from its operator
least = {usual.least}                     # no sum of fewer devices, whatever a plan says
noise = {usual.noise}                    # least z of a plan; 0 covers nobody among fakes
longest_days = {usual.longest_days}
expansion = "{usual.expansion}"             # of reports: "c" (needs cc), else "numba", else "numpy"
"""


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
