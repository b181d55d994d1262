"""What the process writes to its log: lines for people, or one JSON object a line."""

import json
import logging
import sys
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from typing import Any

from server.settings import LogFormat

FIELDS = "fields"
"""Under this name in `extra`, a message brings what it is made of."""

TALKATIVE = ("httpx2", "httpcore2", "sse_starlette")
"""They would log each request to the hub, and every word of a stream."""


NAMES = {"uvicorn.error": "uvicorn"}
"""uvicorn says everything under that name, and most of it is no error."""


class TextLines(logging.Formatter):
    """Lines for people: local time, level, logger and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback where there is one."""
        shown = copy(record)
        shown.name = NAMES.get(record.name, record.name)
        return super().format(shown)


class JsonLines(logging.Formatter):
    """One object for each message: time in UTC, level, logger and message; fields and traceback where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, in ASCII on one line."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = vars(record).get(FIELDS)
        if isinstance(fields, Mapping):
            told |= {name: value for name, value in fields.items() if name not in told}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def configure(level: str, form: LogFormat) -> None:
    """Send everything to standard error, uvicorn's messages too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
