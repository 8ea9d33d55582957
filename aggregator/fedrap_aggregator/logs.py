"""JSON lines on stderr: events and counts, never reports, keys or shares."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonLines(logging.Formatter):
    """One event a line, in the form that the coordinator's lines have."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {
            name: value
            for name, value in vars(record).items()
            if name not in _PLAIN and not name.startswith("_")
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logs() -> None:
    """For this package and its server; by the command line only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("fedrap_aggregator", "aiohttp.server"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel("INFO")
        logger.propagate = False
