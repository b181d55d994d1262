"""Every refusal by name; `verdicts.py` says what each is on the wire."""


class Refusal(Exception):
    """Base of everything the server says no with; raise one of the names below."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class UnreadableBody(Refusal):
    """The body is not a JSON object."""


class UnsupportedMediaType(Refusal):
    """The body does not call itself JSON."""


class BodyTooLarge(Refusal):
    """The body is longer than the server reads."""


class HeadTooLarge(Refusal):
    """The request has more or longer headers than the server reads."""


class UrlTooLong(Refusal):
    """The URL is longer than the server reads."""


class MalformedRequest(Refusal):
    """What came is not HTTP."""


class UnsupportedTransfer(Refusal):
    """A transfer encoding that the server does not read."""


class TooDeep(Refusal):
    """The JSON body is nested deeper than anything a request needs."""


class TooMany(Refusal):
    """A list in the body is longer than the server takes."""


class SlowUpload(Refusal):
    """The request did not arrive in time."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The request did not arrive within {seconds:g} seconds.")


class ForeignHost(Refusal):
    """The request is for a host that is not this server: a page of another site may have been led here."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"This server does not answer to the host '{host}'. Start it with --allowed-host if it should."
        )


class WrongKey(Refusal):
    """No API key, or none that opens this server."""

    def __init__(self, *, given: bool) -> None:
        super().__init__(
            "Incorrect API key provided."
            if given
            else "You didn't provide an API key: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
        )


class TooManyConnections(Refusal):
    """As many connections are open as may be."""

    def __init__(self) -> None:
        super().__init__("The server is busy: too many connections are open. Please retry shortly.")


class MissingParameter(Refusal):
    """A required field is absent."""


class InvalidType(Refusal):
    """A field holds the wrong kind of JSON value."""


class InvalidValue(Refusal):
    """A field holds a value outside what the API allows."""


class UnsupportedParameter(Refusal):
    """A field of the API that would change the answer and is not honoured."""


class ParameterConflict(Refusal):
    """Two fields that cannot both be set."""


class UnknownModel(Refusal):
    """Another model than the one served."""

    def __init__(self, model: str, served: str) -> None:
        super().__init__(
            f"The model `{clipped(model, 100)}` does not exist or you do not have access to it. "
            f"Served here: `{served}`.",
            param="model",
        )


class UnknownRoute(Refusal):
    """No such URL."""


class WrongMethod(Refusal):
    """The URL exists, but not for this method."""


class PromptTooLong(Refusal):
    """The rendered prompt leaves no room for an answer. Agents read both numbers out of this very sentence.

    LangChain looks for the code in the text alone.
    """

    def __init__(self, *, tokens: int, limit: int, param: str = "messages") -> None:
        super().__init__(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages. (context_length_exceeded)",
            param=param,
        )
        self.tokens = tokens
        self.limit = limit


class BudgetTooLong(Refusal):
    """Prompt and budget together are longer than the context. Claude Code reads the numbers out of this sentence."""

    def __init__(self, *, tokens: int, budget: int, limit: int) -> None:
        super().__init__(
            f"input length and `max_tokens` exceed context limit: {tokens} + {budget} > {limit}, "
            "decrease input length or `max_tokens` and try again",
            param="max_tokens",
        )


class UnrenderablePrompt(Refusal):
    """The chat template cannot show this conversation."""


class QueueFull(Refusal):
    """As many requests as may wait are waiting."""

    def __init__(self, *, waiting: int) -> None:
        super().__init__(f"The server is busy: {waiting} requests are waiting already. Please retry shortly.")


class ModelLoading(Refusal):
    """The model is not loaded yet."""

    def __init__(self) -> None:
        super().__init__("The model is still loading. Please retry shortly.")


class ServerStopping(Refusal):
    """The server was told to stop."""

    def __init__(self) -> None:
        super().__init__("The server is shutting down.")


class EngineDead(Refusal):
    """The thread that decodes has ended; only a restart helps."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The engine has stopped ({reason}). The server must be restarted.")


class EngineHung(Refusal):
    """The thread that decodes gives no sign of life; it may come back by itself."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The engine hangs: no round has ended for {seconds:g} seconds.")


class GenerationFailed(Refusal):
    """This request alone failed while it was decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The request failed while it was generated: {reason}")


class ClientGone(Refusal):
    """The client hung up before its answer was whole; nobody reads this."""

    def __init__(self) -> None:
        super().__init__("The client closed the connection.")


class Cancelled(Refusal):
    """Another request ended this one."""

    def __init__(self) -> None:
        super().__init__("The response was cancelled.")


class UnknownResponse(Refusal):
    """No kept response has this id."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"Response with id '{clipped(id_, 100)}' not found.")


class PreviousResponseNotFound(Refusal):
    """The response that a request goes on from is not kept, or not any more."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"Previous response with id '{clipped(id_, 100)}' not found.", param="previous_response_id")


class DeadlineExceeded(Refusal):
    """The answer took longer than the server gives one."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The answer was not finished within {seconds:g} seconds, the most that this server gives.")


class InternalError(Refusal):
    """A fault of the server's own; its details are in the log, not in the answer."""

    def __init__(self) -> None:
        super().__init__("The server had an internal error while it processed the request.")


def clipped(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
