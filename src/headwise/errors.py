"""The errors a user can cause: each is one line that says what was wrong, where, and what to do."""


class HeadwiseError(Exception):
    """Anything headwise refuses; at the command line it is one line and exit code 2."""


class CheckpointError(HeadwiseError):
    """A file that cannot be believed: names the file and the field."""

    def __init__(self, where: object, field: str, problem: str) -> None:
        super().__init__(f"{where}: {field}: {problem}")
        self.where = str(where)
        self.field = field


class TokenizerError(CheckpointError):
    """A tokenizer that cannot be read or rendered."""


class SourceError(HeadwiseError):
    """A model that cannot be found or fetched."""


class UnsupportedError(HeadwiseError):
    """A known thing that headwise does not do: says what was found and what is supported."""


class ContextError(HeadwiseError, ValueError):
    """A text longer than the model allows: says both numbers."""


class ReceiptError(HeadwiseError):
    """What would be shown differs from what the model computed."""


class RecipeError(HeadwiseError):
    """A recipe that cannot be followed: names the file and the field."""

    def __init__(self, where: object, field: str, problem: str) -> None:
        super().__init__(f"{where}: {field}: {problem}")
        self.where = str(where)
        self.field = field


class DataError(HeadwiseError):
    """Rows that cannot be trained on: names the file and the lines."""


class TrainingError(HeadwiseError):
    """A run that cannot go on: says why, and where its last good checkpoint is."""
