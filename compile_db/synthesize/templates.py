"""CMake's ``configure_file``, as far as headers of frameworks use it."""

from __future__ import annotations

import re
from collections.abc import Mapping

DEFINE = re.compile(
    r"^(?P<indent>[ \t]*)#(?P<space>[ \t]*)cmakedefine(?P<number>01)?[ \t]+(?P<name>\w+)(?P<rest>.*)$", re.M
)
FALSE = {"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"}


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """The header that CMake would write for these values; a variable without one counts as off, or as ``0``.

    ``#cmakedefine A`` with A=1 gives ``#define A``, without it ``/* #undef A */``; ``@B@`` gives B's value.
    """

    def define(found: re.Match[str]) -> str:
        name = found["name"]
        is_on = values.get(name, "").upper() not in FALSE and not values.get(name, "").upper().endswith("-NOTFOUND")
        if found["number"]:
            return f"{found['indent']}#{found['space']}define {name} {int(is_on)}"
        if not is_on:
            return f"/* #undef {name} */"
        return f"{found['indent']}#{found['space']}define {name}{found['rest']}"

    text = DEFINE.sub(define, template)
    return re.sub(r"@(\w+)@|\$\{(\w+)\}", lambda found: values.get(found[1] or found[2], "0"), text)
