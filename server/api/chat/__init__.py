"""The dialect of OpenAI's chat completions."""
