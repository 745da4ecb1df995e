"""One declared setting, and the settings that a class declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import attrs

from fractioning_core.errors import InvalidInput, Misuse, shown
from fractioning_core.service import commandline
from fractioning_core.service.kinds import Kind

T = TypeVar("T")

METADATA_KEY = "fractioning_core.service.setting"


@attrs.frozen
class Setting(Generic[T]):
    """
    How one attribute of a settings class is told to a service.

    Args:
        flag: Name of the flag, without dashes.
        kind: What its text looks like.
        default: The value when nobody says anything.
        help: One phrase that says what it does, with its unit and the meaning of "off".
        group: Heading in the help.
        env: Environment variable that sets it, if any.
        check: Raises InvalidInput or ValueError for a value of the right kind that is still wrong.
        normalize: Gives the value meant by one that is accepted, such as the default for an empty text.
    """

    flag: str
    kind: Kind[T]
    default: T
    help: str
    group: str
    env: str | None
    check: Callable[[T], object] | None
    normalize: Callable[[T], T] | None = None

    def read(self, text: str) -> T:
        """
        Return the value that a text stands for.

        Raises:
            InvalidInput: The text is not of this kind, or the check refuses its value.
        """
        value = self.kind.parse(text)
        if self.check is not None:
            try:
                self.check(value)
            except ValueError as refusal:
                raise InvalidInput(f"{shown(text)} is refused: {refusal}") from refusal
        return value if self.normalize is None else self.normalize(value)


def declared(cls: type[attrs.AttrsInstance]) -> Mapping[str, Setting[object]]:
    """
    Return the settings of a class by attribute name, in the order declared.

    Raises:
        Misuse: Two of them share a flag or a variable, or one takes a flag that every program has.
    """
    found = {field.name: field.metadata[METADATA_KEY] for field in attrs.fields(cls) if METADATA_KEY in field.metadata}
    flags = Counter([*commandline.HELP, commandline.VERSION, *(setting.flag for setting in found.values())])
    variables = Counter(setting.env for setting in found.values() if setting.env is not None)
    twice = [name for name, count in (flags + variables).items() if count > 1]
    if twice:
        raise Misuse(f"{cls.__qualname__} declares more than once: {', '.join(twice)}")
    return found
