"""`laguna launch` from settings to the agent's exit status."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from server.address import base_url
from server.client.reach import Door, Served, Unreachable
from server.client.starting import Wanted, attached
from server.launch.agents import AGENTS, NO_KEY, Agent, Endpoint, Setup

EMBEDDED = "laguna-tiny"
"""What is served where the settings name no model."""


class CannotLaunch(ValueError):
    """The agent is not installed, or the server does not speak its dialect."""


@dataclass(frozen=True)
class Launch:
    """What the command line says."""

    agent: str
    wanted: Wanted
    arguments: Sequence[str] = ()


def run(launch: Launch) -> int:
    """Start the agent against the server, one that is started for it where none runs.

    Returns:
        The agent's exit status; 1 where it cannot be launched.
    """
    agent = AGENTS[launch.agent]
    try:
        program = _program(agent)
        with attached(launch.wanted, _say) as served, closing(Door(served.url, served.key)) as door:
            check_dialect(agent, served.url, door.speaks)
            setup = agent.setup(_endpoint(served))
            _say(told(agent, setup, hidden=served.key))
            return _started([program, *setup.arguments, *launch.arguments], environment(os.environ, setup))
    except (Unreachable, CannotLaunch) as error:
        _say(f"error: {error}")
        return 1


def show(launch: Launch) -> int:
    """Print what would be set, as a shell takes it, and start nothing.

    Returns:
        1 where what runs there is no server for this agent, else 0.
    """
    agent, wanted = AGENTS[launch.agent], launch.wanted
    url = wanted.url or base_url(wanted.settings.host, wanted.settings.port)
    try:
        with closing(Door(url, wanted.key)) as door:
            found = door.look()
            if found is not None:
                check_dialect(agent, url, door.speaks)
    except (Unreachable, CannotLaunch) as error:
        _say(f"error: {error}")
        return 1
    if isinstance(found, Served):
        to = _endpoint(found)
    else:
        _say(f"no model is ready at {url}: this is for when {wanted.settings.model or EMBEDDED} is")
        to = Endpoint(url, wanted.key or NO_KEY, wanted.settings.model or EMBEDDED, None)
    setup = agent.setup(to)
    command = shlex.join([agent.program, *setup.arguments, *launch.arguments])
    print("\n".join([*_lines(setup), command]))
    return 0


def check_dialect(agent: Agent, url: str, speaks: Callable[[str], bool]) -> None:
    """Refuse an agent that cannot work with this server.

    Raises:
        CannotLaunch: the server has no such route.
    """
    if not speaks(agent.dialect):
        raise CannotLaunch(f"{agent.program} speaks {agent.dialect}, which the server at {url} does not have")


def environment(inherited: Mapping[str, str], setup: Setup) -> dict[str, str]:
    """The agent's environment."""
    return {name: value for name, value in inherited.items() if name not in setup.unset} | dict(setup.environment)


def told(agent: Agent, setup: Setup, hidden: str | None) -> str:
    """What is set, for people: keys are not shown."""
    lines = [f"starting {agent.program} with", *_lines(setup)]
    if setup.arguments:
        lines.append(f"arguments {shlex.join(setup.arguments)}")
    text = "\n  ".join(lines)
    return text if hidden is None else text.replace(hidden, "***")


def _lines(setup: Setup) -> list[str]:
    sets = [f"export {name}={shlex.quote(value)}" for name, value in setup.environment.items()]
    return [f"unset {name}" for name in setup.unset] + sets


def _endpoint(served: Served) -> Endpoint:
    return Endpoint(served.url, served.key or NO_KEY, served.model, served.context_length)


def _program(agent: Agent) -> str:
    found = shutil.which(agent.program)
    if found is None:
        raise CannotLaunch(f"{agent.program} is not installed, or not on the PATH: {agent.install}")
    return found


def _started(command: Sequence[str], environment: Mapping[str, str]) -> int:
    with _interrupts_are_the_agents():
        return subprocess.run(command, env=dict(environment), check=False).returncode


@contextmanager
def _interrupts_are_the_agents() -> Generator[None]:
    """Ctrl-C reaches both of us; the agent decides what it means. A handler, since a child inherits what is ignored."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
