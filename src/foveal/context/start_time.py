"""The start time of a session in words for the model: to the minute, in a named time zone, the same in every prompt."""

from datetime import UTC, datetime, timedelta, tzinfo

from foveal.values.errors import BadPolicy

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Not by the machine's locale: the same log gives the same bytes anywhere."""


def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name; `BadPolicy` if this machine knows none."""
    if name == "UTC":  # known everywhere, also without a table of time zones
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - its table is an optional package, and it is slow to load

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        advice = (
            "name one such as UTC or Europe/Berlin; where there is no table of zones, `pip install tzdata` brings one"
        )
        raise BadPolicy(f"clock: no time zone {name!r:.80} is known here; {advice}") from None


def start_line(time_ms: int, name: str) -> str:
    """Return the sentence that tells the model when the session began."""
    began = (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone_of(name))
    offset = f"{began:%z}"
    where = name if name == "UTC" else f"{name} (UTC{offset[:3]}:{offset[3:5]})"
    return f"This session began on {_DAYS[began.weekday()]}, {began:%Y-%m-%d} at {began:%H:%M} {where}."
