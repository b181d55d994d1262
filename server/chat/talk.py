"""A chat: lines from somebody, answers from a server, and the commands between them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from server.chat.answer import Answer, AnswerFailed, Event
from server.chat.conversation import Conversation, NoConversation, load
from server.chat.keyboard import Keyboard
from server.chat.screen import Screen, summary
from server.chat.slash import Command, Name, Unknown, parse, switch
from server.client.reach import Served


@dataclass(frozen=True)
class Wishes:
    """How answers are asked for."""

    model: str
    think: bool | None = None
    """None: as the template has it."""
    tokens: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    tools: tuple[dict[str, Any], ...] = ()

    def body(self, conversation: Conversation) -> dict[str, Any]:
        """The request."""
        wished: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        wished["tools"] = list(self.tools) or None
        wished["chat_template_kwargs"] = None if self.think is None else {"enable_thinking": self.think}
        wished["laguna"] = {"tokens": True} if self.tokens else None
        said = {"model": self.model, "messages": conversation.wire}
        asked = {name: value for name, value in wished.items() if value is not None}
        return said | asked | {"stream": True, "stream_options": {"include_usage": True}}


class Line(Protocol):
    """The way to a server."""

    def answer(self, body: Mapping[str, Any]) -> AbstractContextManager[Iterator[Event]]:
        """The events of an answer, in a context that hangs up at its end.

        Raises:
            AnswerFailed: it was refused or broke off.
        """
        ...

    def knows(self, model: str) -> bool:
        """Whether the server answers to that name."""
        ...


class Talk:
    """One chat."""

    def __init__(self, line: Line, served: Served, screen: Screen, keyboard: Keyboard, wishes: Wishes) -> None:
        self._line = line
        self._served = served
        self._screen = screen
        self._keyboard = keyboard
        self.wishes = wishes
        self.conversation = Conversation()
        self._commands: Mapping[Name, Callable[[str], None]] = {
            "help": lambda _: screen.help(),
            "clear": self._clear,
            "system": self._system,
            "think": self._think,
            "tokens": self._tokens,
            "save": self._save,
            "load": self._load,
            "model": self._model,
        }

    def run(self) -> None:
        """Until there is no more to say."""
        while True:
            try:
                line = self._keyboard.ask("> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            meant = parse(line)
            if isinstance(meant, Command) and meant.name == "quit":
                return
            self._do(line, meant)

    def _do(self, line: str, meant: Command | Unknown | None) -> None:
        match meant:
            case Command(name, argument):
                self._commands[name](argument)
            case Unknown(name):
                self._screen.error(f"there is no command {name}; /help lists them")
            case None if line.strip():
                self.turn(line)

    def turn(self, text: str) -> bool:
        """Ask, show the answer, and go on while tools are called. False where nothing came; then it is taken back."""
        before = self.conversation
        self.conversation = before.asked(text)
        while True:
            answer = self._answer()
            message = None if answer is None else answer.message
            if message is None:
                self.conversation = before
                self._screen.note("nothing was said, so the question is taken back")
                return False
            self.conversation = self.conversation.answered(message)
            if answer is None or not answer.calls:
                return True
            if not self._return(answer):
                self.conversation = before
                self._screen.note("the call was not answered, so this turn is taken back")
                return True

    def _answer(self) -> Answer | None:
        """What came, even if it was stopped; None where it failed."""
        answer = Answer()
        try:
            with self._line.answer(self.wishes.body(self.conversation)) as events:
                for event in events:
                    self._take(answer, event)
        except KeyboardInterrupt:
            self._screen.note("stopped")
        except AnswerFailed as error:
            self._screen.error(str(error))
            return None
        return answer

    def _take(self, answer: Answer, event: Event) -> None:
        answer.add(event)
        self._screen.event(event)
        if answer.over is not None:
            self._screen.note(summary(answer.over))

    def _return(self, answer: Answer) -> bool:
        """What the tools say, from whoever sits there."""
        for call in answer.calls:
            try:
                result = self._keyboard.ask(f"result of {call.name}> ")
            except (EOFError, KeyboardInterrupt):
                return False
            self.conversation = self.conversation.returned(call.id, result)
        return True

    def _clear(self, _: str) -> None:
        self.conversation = self.conversation.cleared()
        self._screen.note("a new conversation")

    def _system(self, argument: str) -> None:
        if argument:
            self.conversation = replace(self.conversation, system="" if argument == "-" else argument)
        self._screen.note(f"system prompt: {self.conversation.system or 'none'}")

    def _think(self, argument: str) -> None:
        ways = {"on": True, "off": False, "auto": None}
        if argument and argument not in ways:
            self._screen.error("/think takes on, off or auto")
            return
        if argument:
            self.wishes = replace(self.wishes, think=ways[argument])
        now = {think: way for way, think in ways.items()}[self.wishes.think]
        self._screen.note(f"thinking: {now}")

    def _tokens(self, argument: str) -> None:
        now = switch(argument, self.wishes.tokens)
        if now is None:
            self._screen.error("/tokens takes on or off")
            return
        self.wishes = replace(self.wishes, tokens=now)
        if now:
            self._screen.legend()
        else:
            self._screen.note("tokens are not tinted")

    def _save(self, argument: str) -> None:
        if not argument:
            self._screen.error("/save needs the name of a file")
            return
        file = Path(argument).expanduser()
        try:
            self.conversation.save(file)
        except OSError as error:
            self._screen.error(str(error))
        else:
            self._screen.note(f"{len(self.conversation.wire)} messages in {file}")

    def _load(self, argument: str) -> None:
        if not argument:
            self._screen.error("/load needs the name of a file")
            return
        try:
            self.conversation = load(Path(argument).expanduser())
        except (OSError, NoConversation) as error:
            self._screen.error(str(error))
        else:
            self._screen.note(f"{len(self.conversation.wire)} messages loaded")

    def _model(self, argument: str) -> None:
        if argument and not self._line.knows(argument):
            self._screen.error(f"the server does not answer to {argument}: it serves {self._served.model}")
            return
        self.wishes = replace(self.wishes, model=argument or self.wishes.model)
        about = self._served.about
        drafts = about.get("speculator") or f"none ({about.get('speculation_off')})"
        self._screen.note(
            f"{self.wishes.model} at {self._served.url}; context {self._served.context_length} tokens; "
            f"speculator: {drafts}"
        )
