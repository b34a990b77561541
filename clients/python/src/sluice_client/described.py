"""Describes a wrong value in an error."""

MOST_CHARACTERS = 80


def described(value: object) -> str:
    """Returns a value as an error shows it, on one short line."""
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = ascii(value) if isinstance(value, (str, bytes, int, float, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
