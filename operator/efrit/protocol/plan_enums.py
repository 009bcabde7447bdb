"""The fixed words of a plan, its task tree and its commits. Pure; a word is API: add, never rename."""

from enum import StrEnum


class TaskType(StrEnum):
    """Whether a task is work, or has parts."""

    ATOMIC = "atomic"
    PARENT = "parent"


class TaskState(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


class PlanStep(StrEnum):
    """What a plan does at the moment."""

    BEGIN = "Begin"
    ACT = "Act"
    ASSESS = "Assess"
    ADAPT = "Adapt"
    AMEND = "Amend"


class CommitKind(StrEnum):
    """What a commit of the plan's repository records."""

    BEGIN = "begin"
    ACT = "act"
    ADAPT = "adapt"
    AMEND = "amend"


class Perspective(StrEnum):
    """From which side facts are gathered."""

    BUILD = "build"
    REQUIREMENTS = "requirements"
    INTEGRATION = "integration"
    QUALITY = "quality"
