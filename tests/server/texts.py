"""What a scripted model says where a stream and an answer are compared."""

OSLO = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
TEXTS = {
    "plain": "Hello, wörld 😀!",
    "empty": "",
    "thought": "Let me see.</think>It is 7.",
    "one call": f"I look.</think>{OSLO}",
    "two calls and text between": f"Both.</think>On it.{OSLO}And<tool_call>ping</tool_call>",
    "typed": "x</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich</arg_value>"
    "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>",
    "only thought": "never ends",
    "a call without its end": f"x</think>{OSLO}<tool_call>get_weather<arg_key>city</arg_key><arg_value>Os",
}
