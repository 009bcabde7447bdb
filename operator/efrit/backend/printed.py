"""What Lisp prints, read back. Pure."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def unquoted(result: str) -> str:
    """Return the text of a printed Lisp string, without quotes and escapes; anything else as it is."""
    if len(result) < 2 or result[0] != '"' or result[-1] != '"':
        return result
    characters, rest = [], iter(result[1:-1])
    for character in rest:
        if character == '"':
            return result  # more than one string
        characters.append(_ESCAPES.get(following := next(rest, ""), following) if character == "\\" else character)
    return "".join(characters)
