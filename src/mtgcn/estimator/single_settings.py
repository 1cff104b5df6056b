"""Settings of the method one by one, as scikit-learn's searches reach parts of an estimator: `settings__per_class`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "settings__"


def with_settings_gathered(parameters: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """The parameters that somebody sets, single settings put into one mapping with those given there or before. What
    was given before is left as it is: it may be somebody's dictionary.

    >>> with_settings_gathered({"neighbors": 3, "settings__per_class": 5}, {"per_class": 3, "peers": 2})
    {'neighbors': 3, 'settings': {'per_class': 5, 'peers': 2}}
    """
    single = {name.removeprefix(PREFIX): value for name, value in parameters.items() if name.startswith(PREFIX)}
    rest = {name: value for name, value in parameters.items() if not name.startswith(PREFIX)}
    if not single:
        return rest
    return rest | {"settings": dict(rest.get("settings", settings) or {}) | single}
