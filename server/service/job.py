"""What launchd is told of the server: a property list, and where it and the logs lie. Nothing is done here."""

import plistlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LABEL = "laguna-server"
EXIT_SECONDS = 30
"""How long launchd waits after SIGTERM before it kills; the server itself ends within five seconds."""
THROTTLE_SECONDS = 30
"""Least time between two starts: what fails at once, such as a wrong setting, must not spin."""
PASSED_ON = ("HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT")
"""Variables that a job would not see otherwise, of where checkpoints are; keys and tokens stay out of files."""


@dataclass(frozen=True)
class Job:
    """One server that launchd keeps running for a user.

    Attributes:
        home: the user's folder.
        arguments: what follows `laguna serve`.
        environment: variables of the shell that installs it.
    """

    home: Path
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] | None = None

    @property
    def file(self) -> Path:
        """The property list."""
        return self.home / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    @property
    def logs(self) -> Path:
        """The folder of what the server writes."""
        return self.home / "Library" / "Logs" / LABEL

    def plist(self) -> bytes:
        """The property list, as XML."""
        environment = {name: value for name, value in (self.environment or {}).items() if name in PASSED_ON}
        told = {
            "Label": LABEL,
            # -P: a folder `server` in the working directory is not ours.
            "ProgramArguments": [sys.executable, "-P", "-m", "server", "serve", *self.arguments],
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": EXIT_SECONDS,
            "ThrottleInterval": THROTTLE_SECONDS,
            # Background jobs are slowed down when somebody works at the machine.
            "ProcessType": "Interactive",
            "WorkingDirectory": str(self.home),
            "StandardOutPath": str(self.logs / "stdout.log"),
            "StandardErrorPath": str(self.logs / "stderr.log"),
        }
        return plistlib.dumps(told | ({"EnvironmentVariables": environment} if environment else {}))
