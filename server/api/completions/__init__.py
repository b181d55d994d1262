"""The dialect of OpenAI's legacy completions: text goes on, with no template and no conversation."""
