"""
A client of the MPS control daemon inside a container: whom it reaches through the directory that the container sees.

    container = await cri.create_container(pod, "main", mounts=[mpsclient.mount(mpsd)])
    assert await mpsclient.reach(cri, container, mpsd=mpsd, word="hello") == mpsd.daemon()
"""

from __future__ import annotations

from lab.cri import Cri
from lab.errors import LabError
from lab.mpsd import Mpsd

PROGRAM = "/bin/mpsclient"


def mount(mpsd: Mpsd) -> tuple[str, str]:
    """
    Give the mount that brings the client, which needs no library, into a container.
    """
    return (str(mpsd.driver.client), PROGRAM)


async def reach(cri: Cri, container: str, *, mpsd: Mpsd, word: str) -> int:
    """
    Send a word to the control daemon whose socket the container's environment names.

    Returns:
        The process id of the daemon that logged it.

    Raises:
        LabError: Nobody answered, or not to this word.
        Overdue: No daemon of this mpsd logged it.
    """
    answer = await cri.exec(container, [PROGRAM, word])
    if word not in answer:
        raise LabError(f"the answer to {word} was {answer!r}")
    return await mpsd.heard(word)
