"""A chat: what lines mean, what is shown and sent, and what becomes of the history."""

import io
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from server.chat.answer import Answer, AnswerFailed, Argued, Called, Event, Over, Said, Thought, events, lines
from server.chat.conversation import Conversation, NoConversation, load, load_tools
from server.chat.line import HttpLine
from server.chat.screen import Screen, plain, summary
from server.chat.slash import COMMANDS, Command, Unknown, parse, switch
from server.chat.talk import Talk, Wishes
from server.client.reach import Served
from tests.server.script import ScriptPair, forever, says
from tests.server.stand import stand

SERVED = Served("http://127.0.0.1:1", None, "Laguna-Script", 4096, {"speculator": "S"})
OVER = Over("stop", {"completion_tokens": 2, "prompt_tokens": 3}, {"decode_seconds": 1.0})
CALLED = [Called(0, "call_1", "add"), Argued(0, '{"a": '), Argued(0, "1}"), Over("tool_calls")]


class Typist:
    """Enters what it was told, then nothing more; an exception is raised instead."""

    def __init__(self, *entered: str | type[BaseException]) -> None:
        self._left = iter(entered)
        self.prompts: list[str] = []

    def ask(self, prompt: str) -> str:
        self.prompts.append(prompt)
        entered = next(self._left, EOFError)
        if isinstance(entered, str):
            return entered
        raise entered


class Scripted:
    """Answers with one list of events after the other, and remembers what it was sent."""

    def __init__(self, *answers: list[Event | BaseException]) -> None:
        self._left = iter(answers)
        self.bodies: list[Mapping[str, Any]] = []

    @contextmanager
    def answer(self, body: Mapping[str, Any]) -> Generator[Iterator[Event]]:
        self.bodies.append(body)
        yield self._told(next(self._left))

    def _told(self, answer: list[Event | BaseException]) -> Iterator[Event]:
        for event in answer:
            if isinstance(event, BaseException):
                raise event
            yield event

    def knows(self, model: str) -> bool:
        return model == "Laguna-Script"


def chatted(line: Scripted, typist: Typist, **wishes: Any) -> tuple[Talk, str]:  # noqa: ANN401
    """A chat to its end, and what was shown."""
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    talk = Talk(line, SERVED, Screen(console, console), typist, Wishes(SERVED.model, **wishes))
    talk.run()
    return talk, shown.getvalue()


def roles(conversation: Conversation) -> list[str]:
    return [message["role"] for message in conversation.wire]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("/help", Command("help", "")),
        ("  /system be brief ", Command("system", "be brief")),
        ("/nothing", Unknown("/nothing")),
        ("/usr/bin is a folder", None),
        ("what is /help?", None),
        ("", None),
    ],
)
def test_a_line_is_a_command_or_for_the_model(line: str, meant: object) -> None:
    assert parse(line) == meant


def test_a_switch_is_turned_or_set() -> None:
    assert [switch(said, True) for said in ("", "on", "off", "maybe")] == [False, True, False, None]


def test_the_answer_goes_into_the_history_with_its_thinking() -> None:
    line = Scripted([Thought("hm"), Said("2"), OVER], [Said("4"), OVER])
    talk, shown = chatted(line, Typist("1+1?", "2+2?"))
    assert roles(talk.conversation) == ["user", "assistant", "user", "assistant"]
    assert line.bodies[1]["messages"][1] == {"role": "assistant", "content": "2", "reasoning_content": "hm"}
    assert "hm\n2\n2 tokens · 2 a second\n" in shown


def test_a_call_is_shown_and_answered_by_whoever_sits_there() -> None:
    line, typist = Scripted(list(CALLED), [Said("it is 2"), OVER]), Typist("add", "2")
    talk, shown = chatted(line, typist, tools=({"type": "function", "function": {"name": "add"}},))
    assert '→ add {"a": 1}' in shown
    assert typist.prompts[:2] == ["> ", "result of add> "]
    assert talk.conversation.wire[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert talk.conversation.wire[2] == {"role": "tool", "tool_call_id": "call_1", "content": "2"}
    assert talk.conversation.wire[3]["content"] == "it is 2"
    assert line.bodies[0]["tools"]


def test_a_call_that_is_not_answered_takes_its_turn_back() -> None:
    talk, shown = chatted(Scripted(list(CALLED)), Typist("add", KeyboardInterrupt))
    assert talk.conversation.wire == []
    assert "taken back" in shown


def test_a_stopped_answer_stays_as_far_as_it_came_and_without_calls() -> None:
    line = Scripted([Said("one, "), *CALLED[:2], KeyboardInterrupt()], [Said("two"), OVER])
    talk, shown = chatted(line, Typist("count", "go on"))
    assert talk.conversation.wire[1] == {"role": "assistant", "content": "one, "}
    assert "stopped" in shown
    assert roles(talk.conversation) == ["user", "assistant"] * 2


@pytest.mark.parametrize("answer", [[KeyboardInterrupt()], [Thought("hm"), AnswerFailed("too long")]])
def test_a_question_without_an_answer_is_taken_back(answer: list[Event | BaseException]) -> None:
    talk, _ = chatted(Scripted(answer), Typist("?"))
    assert talk.conversation.wire == []


def test_every_command_does_what_the_help_says(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    line = Scripted([Said("a"), OVER], [Said("b"), OVER])
    talk, shown = chatted(
        line,
        Typist(
            "/help", "/system be brief", "/think off", "/tokens", "one", f"/save {file}", "/clear", f"/load {file}",
            "/model", "/model Other", "/model Laguna-Script", "/tokens off", "/think", "/think maybe", "/tokens 1",
            "/save", "/load", f"/load {tmp_path}", "/nothing", "two", "/quit", "never",
        ),
    )  # fmt: skip
    first, second = line.bodies
    assert first["messages"][0] == {"role": "system", "content": "be brief"}
    assert first["chat_template_kwargs"] == {"enable_thinking": False}
    assert first["laguna"] == {"tokens": True}
    assert "laguna" not in second
    assert [message["content"] for message in second["messages"]] == ["be brief", "one", "a", "two"]
    assert load(file) == Conversation(talk.conversation.messages[:2], "be brief")
    for said in (
        *(f"/{name}" for name in COMMANDS), "system prompt: be brief", "thinking: off", "3 messages in", "new conv",
        "3 messages loaded", "context 4096 tokens; speculator: S", "does not answer to Other", "takes on, off or auto",
        "takes on or off", "/save needs", "/load needs", "Is a directory", "no command /nothing", "speculator pred",
    ):  # fmt: skip
        assert said in shown
    assert roles(talk.conversation)[-1] == "assistant"


def test_the_system_prompt_can_be_removed() -> None:
    talk, _ = chatted(Scripted(), Typist("/system x", "/system -"))
    assert talk.conversation.system == ""


@pytest.mark.parametrize("text", ["no json", "[]", '{"messages": [{"role": "nobody"}]}', '{"messages": [1]}'])
def test_a_file_that_holds_no_conversation_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(text)
    with pytest.raises(NoConversation, match=r"chat\.json"):
        load(file)


def test_tools_may_be_bare_functions(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([{"name": "a"}, {"type": "function", "function": {"name": "b"}}]))
    assert [tool["function"]["name"] for tool in load_tools(file)] == ["a", "b"]
    for wrong in ("{", "{}", "[1]"):
        file.write_text(wrong)
        with pytest.raises(NoConversation):
            load_tools(file)


def test_what_a_model_writes_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[2Jb\x07\x9b1mc\r\n\td\x7f") == "a[2Jb1mc\n\td"
    _, shown = chatted(Scripted([Said("\x1b]0;title\x07"), OVER]), Typist("?"))
    assert "\x1b" not in shown


def test_tokens_are_tinted_by_who_wrote_them_and_thinking_is_dim() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system="standard", no_color=False)
    screen = Screen(console, console)
    screen.event(Thought("hm"))
    screen.event(Said("ab", (("a", "target"), ("b", "speculator"))))
    screen.event(Over("stop"))
    assert shown.getvalue() == "\x1b[2;3mhm\x1b[0m\na\x1b[32mb\x1b[0m\n"


def test_a_bare_answer_leaves_the_thinking_out() -> None:
    shown, notes = io.StringIO(), io.StringIO()
    screen = Screen(Console(file=shown), Console(file=notes), bare=True)
    for event in (Thought("hm"), Said("2"), OVER):
        screen.event(event)
    screen.note("done")
    assert (shown.getvalue(), notes.getvalue()) == ("2\n", "done\n")


def test_remarks_break_between_words_on_a_narrow_terminal_and_not_at_all_in_a_file() -> None:
    said = "20 tokens · 34 a second · 32 read in 0.63 s (0 were kept) · 15 of 21 drafts accepted in 5 rounds"
    narrow, file = io.StringIO(), io.StringIO()
    terminal = Console(file=narrow, width=80, force_terminal=True, color_system=None)
    Screen(terminal, terminal).note(said)
    Screen(terminal, terminal).error(said)
    Screen(Console(file=file, width=80), Console(file=file, width=80)).note(said)
    first, rest, *again = narrow.getvalue().splitlines()
    assert (f"{first.rstrip()} {rest}", again, len(first) <= 80) == (said, [first, rest], True)
    assert file.getvalue() == f"{said}\n"


def test_the_list_of_commands_keeps_its_columns_on_a_narrow_terminal() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=60, force_terminal=True, color_system=None)
    Screen(console, console).help()
    column = shown.getvalue().index("this list")
    lines = shown.getvalue().partition("Enter sends")[0].splitlines()
    assert all(len(line) <= 60 and (line[:column].endswith("  ") or not line[column:]) for line in lines)
    assert len(lines) > len(COMMANDS)


def test_the_figures_tell_drafts_or_why_there_were_none() -> None:
    told = summary(Over("length", {"completion_tokens": 4}, {"drafted": 9, "accepted": 3, "rounds": 2}))
    assert told == "4 tokens · 3 of 9 drafts accepted in 2 rounds · cut at the token limit"
    assert "no drafts: turned off" in summary(Over("stop", {}, {"drafted": 0, "speculation_off": "turned off"}))


def test_lines_end_at_line_feeds_alone_however_the_body_is_cut() -> None:
    body = "data: a\u2028b\x85c\r\n\ndata: é".encode()
    for size in range(1, len(body) + 1):
        cut = [body[start : start + size] for start in range(0, len(body), size)]
        assert list(lines(cut)) == ["data: a\u2028b\x85c", "", "data: é"]


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    chunk = 'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}'
    told = events([chunk])
    assert next(told) == Said("a")
    with pytest.raises(AnswerFailed, match="cut"):
        next(told)
    with pytest.raises(AnswerFailed, match="stopping"):
        list(events(['data: {"error": {"message": "stopping"}}']))


def test_tokens_count_only_where_they_are_those_of_the_text() -> None:
    def chunk(text: str) -> str:
        choice = {"delta": {"content": text}, "finish_reason": None, "laguna": {"tokens": [["a", "copy"]]}}
        return "data: " + json.dumps({"choices": [choice]})

    told = list(events([chunk("a"), chunk("ab"), "data: [DONE]"]))
    assert told[:2] == [Said("a", (("a", "copy"),)), Said("ab")]


def test_a_server_is_read_whole_and_refusals_are_in_its_own_words() -> None:
    pair = ScriptPair(says("He\u2028llo"))
    with stand(pair) as server:
        served = Served(f"http://127.0.0.1:{server.port}", None, pair.model_id, 0, {})
        body = Wishes(pair.model_id).body(Conversation().asked("hi"))
        with closing(HttpLine(served)) as line:
            answer = Answer()
            with line.answer(body) as told:
                for event in told:
                    answer.add(event)
            assert answer.content == "He\u2028llo"
            assert answer.over is not None
            assert answer.over.reason == "stop"
            assert answer.over.usage["completion_tokens"] == len("He\u2028llo".encode())
            assert "rounds" in answer.over.laguna
            with pytest.raises(AnswerFailed, match="other"), line.answer({**body, "model": "other"}):
                pass
            assert (line.knows(pair.model_id), line.knows("other")) == (True, False)


def test_leaving_an_answer_ends_it_on_the_server() -> None:
    with stand(ScriptPair(forever, pace=0.01, context_length=10**6)) as server:
        served = Served(f"http://127.0.0.1:{server.port}", None, "Laguna-Script", 0, {})
        with closing(HttpLine(served)) as line:
            with line.answer(Wishes("Laguna-Script").body(Conversation().asked("hi"))) as told:
                assert isinstance(next(told), Said)
            server.wait_until(lambda: server.engine.health.running == 0)


def test_nobody_there_is_said_and_no_crash() -> None:
    with closing(HttpLine(SERVED)) as line, pytest.raises(AnswerFailed, match="connection"), line.answer({}):
        pass
