"""
What mpsd knows about the node's driver and its label: frozen facts, and one holder that tells of changes.

`driverwatch` writes the driver's side and `driverlabel` the label's; the gate, readiness, metrics and `mpsd status`
read. A version that NVML once told stays known while NVML is silent, because a control daemon that runs well must not
fall with it. The one exception is a half-upgraded driver: nothing that is known holds then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

import attrs

# A rotated token or a binding made a moment later mends itself; only what stays is worth being not ready for.
REFUSAL_SECONDS = 30.0
# A reason is one line of a probe's answer.
REASON_LIMIT = 400


class DriverProblem(Enum):
    """
    Why the driver's version is not known, or not to be believed.
    """

    STARTING = "driver_starting"
    """
    NVML has not answered yet and never did; on big or cold nodes this takes minutes.
    """

    SILENT = "nvml_silent"
    """
    NVML answered before and does not now.
    """

    LIBRARY_MISSING = "nvml_missing"
    MISMATCH = "driver_mismatch"
    """
    The library and the loaded kernel module are of different versions: half of an upgrade.
    """

    FAILED = "nvml_failed"
    MALFORMED = "driver_version_malformed"


class LabelProblem(Enum):
    """
    Why the node's label is not what it should be.
    """

    NOT_CONFIGURED = "not_configured"
    BAD_NODE_NAME = "bad_node_name"
    NO_SUCH_NODE = "no_such_node"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"

    @property
    def needs_a_person(self) -> bool:
        """
        Whether waiting alone will not mend it.
        """
        return self is not LabelProblem.UNREACHABLE


@attrs.frozen
class DriverFacts:
    """
    The driver as NVML tells of it.

    Args:
        version: The last version told, such as `615.43.02`; None while there never was one.
        major: Its major.
        problem: What is wrong now; None while NVML answers.
        reason: The same for a person, one line.
        since: Loop time since which this problem lasts.
        is_half_upgraded: Library and module differed, and no version was told since. Whatever NVML fails with then is
            part of the same upgrade: to reload the module is to unload it first.
    """

    version: str | None = None
    major: int | None = None
    problem: DriverProblem | None = None
    reason: str = ""
    since: float = 0.0
    is_half_upgraded: bool = False


@attrs.frozen
class LabelFacts:
    """
    The node's label as far as we wrote it.

    Args:
        value: The value last written; None while there never was one.
        version: The driver version it was written for.
        written_at: Loop time of that write.
        problem: Why the last attempt failed; None after one that worked, and where there is nothing to label.
        reason: Why there is no label, for a person, one line.
        since: Loop time since which attempts fail.
    """

    value: str | None = None
    version: str | None = None
    written_at: float | None = None
    problem: LabelProblem | None = None
    reason: str = ""
    since: float = 0.0


@attrs.define(eq=False)
class DriverState:
    """
    Holds both, and wakes whoever waits for a change.

    Args:
        clock: The loop's time.
    """

    _clock: Callable[[], float]
    driver: DriverFacts = attrs.field(init=False)
    label: LabelFacts = attrs.field(factory=LabelFacts, init=False)
    _change: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        # The first reading counts as under way, so that nobody takes "not asked yet" for "nothing is wrong".
        self.driver = DriverFacts(problem=DriverProblem.STARTING, since=self._clock())

    def current(self) -> int | None:
        """
        Give the last major that NVML told; None while there never was one.
        """
        return self.driver.major

    @property
    def is_half_upgraded(self) -> bool:
        """
        Whether library and module differ, or did when last heard of, so that MPS is held back and nothing labelled.
        """
        return self.driver.is_half_upgraded

    async def changed(self) -> None:
        """
        Wait for the next change; read the facts first, without an await in between.
        """
        await self._change.wait()

    def learn(self, version: str, major: int) -> None:
        """
        Take the driver's answer.
        """
        self._update(driver=DriverFacts(version=version, major=major))

    def doubt(self, problem: DriverProblem, reason: str, *, lasting_seconds: float = 0.0) -> None:
        """
        Take that there was no answer, or none to be believed.

        Args:
            problem: What kind of no it was.
            reason: The same for a person, one line.
            lasting_seconds: For how long it lasts already.
        """
        known = self.driver
        since = known.since if known.problem is problem else self._clock() - lasting_seconds
        half = known.is_half_upgraded or problem is DriverProblem.MISMATCH
        doubted = DriverFacts(known.version, known.major, problem, reason[:REASON_LIMIT], since, half)
        self._update(driver=doubted)

    def labelled(self, value: str, version: str) -> None:
        """
        Take that the label was written.
        """
        self._update(label=LabelFacts(value=value, version=version, written_at=self._clock()))

    def announced(self) -> None:
        """
        Take that a driver's problem was written, beside a label that was left as it is.
        """
        self._update(label=attrs.evolve(self.label, problem=None, reason=""))

    def not_labelled(self, problem: LabelProblem, reason: str) -> None:
        """
        Take that writing the label failed.
        """
        known = self.label
        since = known.since if known.problem is not None else self._clock()
        self._update(label=attrs.evolve(known, problem=problem, reason=reason[:REASON_LIMIT], since=since))

    def nothing_to_label(self, reason: str) -> None:
        """
        Take that there is no node to label, which nobody has to mend.
        """
        self._update(label=LabelFacts(reason=reason))

    def driver_reason(self) -> str:
        """
        Say what is wrong with the driver, with the seconds it lasts where waiting may mend it; empty when nothing is.
        """
        match self.driver.problem:
            case DriverProblem.STARTING:
                return f"driver starting, {self._lasted(self.driver.since):.0f} s"
            case DriverProblem.SILENT:
                return f"NVML does not answer, {self._lasted(self.driver.since):.0f} s"
            case _:
                return self.driver.reason

    def announcement(self) -> str | None:
        """
        Say what the cluster is to know of the driver: a text that stays the same while the problem does, an empty one
        when nothing is wrong, None while nobody has asked the driver yet.
        """
        match self.driver.problem:
            case DriverProblem.STARTING:
                return "NVML has not answered yet" if self.driver.reason else None
            case DriverProblem.SILENT:
                return "NVML does not answer any more"
            case _:
                return self.driver.reason

    def label_reason(self) -> str:
        """
        Say why there is no label, or none of this driver; empty when there is.
        """
        return self.label.reason

    def label_age_seconds(self) -> float | None:
        """
        Give the age of the last write of the label; None while there was none.
        """
        written = self.label.written_at
        return None if written is None else self._lasted(written)

    def complaint(self) -> str:
        """
        Say why mpsd is not to call itself ready on account of driver or label; empty when there is no such reason.

        An API server out of reach is none: it is not this node's fault, and memory is accounted for without it.
        """
        if self.driver.problem is not None:
            return self.driver_reason()
        label = self.label
        if label.problem is not None and label.problem.needs_a_person and self._lasted(label.since) >= REFUSAL_SECONDS:
            return f"node not labelled: {label.reason}"
        return ""

    def _lasted(self, since: float) -> float:
        return max(0.0, self._clock() - since)

    def _update(self, *, driver: DriverFacts | None = None, label: LabelFacts | None = None) -> None:
        before = (self.driver, self.label)
        self.driver, self.label = driver or self.driver, label or self.label
        if before != (self.driver, self.label):
            # Whoever waits now is woken; whoever waits from here on waits for the next change.
            self._change.set()
            self._change = asyncio.Event()
