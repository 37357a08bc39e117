"""The error for invalid input: which field, and what is wrong with it.

Border code (api, settings, command line) turns it into a Kubernetes Status cause or a line for a
person.
"""


class FieldError(ValueError):
    """`path` names the field in the user's terms (`spec.template.spec.containers[0].name`, "" for
    the whole value); `message` is a sentence without the path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def join(path: str, field: str) -> str:
    """`field` below `path`; either may be empty."""
    if not path or not field:
        return path or field
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"
