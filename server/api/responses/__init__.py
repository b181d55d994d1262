"""The dialect of OpenAI's responses."""
