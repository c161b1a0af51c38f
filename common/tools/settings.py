#!/usr/bin/env python3
"""The settings of the emulated GPU, as common/emulator/settings/settings.ini lists them; its first lines say what a row has.

settings.py OUTPUT   writes the rows for C++, which common/emulator/settings/table.hpp includes
"""

import configparser
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).resolve().parents[1] / "emulator" / "settings" / "settings.ini"
KEYS = {"values", "must_be", "least", "most", "default", "without", "run_default", "run_values", "alone", "joined_by", "option",
        "help", "page"}


class Setting:
    """One row. What it does not say is an empty string."""

    def __init__(self, name: str, row: dict):
        if unknown := set(row) - KEYS:
            raise ValueError(f"{TABLE}: [{name}] has an unknown key: {', '.join(sorted(unknown))}")
        text = {key: " ".join(row.get(key, "").split()) for key in KEYS}
        self.name, self.variable = name, "STAGECRAFT_" + name.upper().replace("-", "_")
        self.is_option = text["option"] != "no"
        self.values, self.default, self.without = text["values"], text["default"], text["without"]
        self.run_default, self.run_values = text["run_default"], text["run_values"]
        self.alone, self.joined_by, self.help, self.page = text["alone"], text["joined_by"], text["help"], text["page"]
        self.least, self.most = text["least"] or "0", text["most"] or "0"
        # The legal values where they are words and nothing else.
        self.words = self.values.split("|") if re.fullmatch(r"[a-z0-9_|]+", self.values) else []
        self.must_be = text["must_be"].format(least=self.least, most=self.most) or choice(self.words)
        for key, is_there in {"values": self.values, "must_be, or words as values": self.must_be, "page": self.page,
                              "help, or option = no": self.help or not self.is_option,
                              "default or without, and not both": bool(self.default) != bool(self.without)}.items():
            if not is_there:
                raise ValueError(f"{TABLE}: [{name}] needs {key}")

    def syntax(self) -> str:
        """The option and its values, as --help shows them."""
        values = "|".join(filter(None, [self.values, self.run_values]))
        return f"--{self.name}[={values}]" if self.alone else f"--{self.name} {values}"


def choice(words: list) -> str:
    """The words as a sentence names them: `some, all or none`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def settings() -> list:
    """All of them, in the order of the table. Raises ValueError where a row is not complete."""
    table = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), empty_lines_in_values=False)
    table.read_string(TABLE.read_text(encoding="utf-8"), str(TABLE))
    return [Setting(name, dict(table[name])) for name in table.sections()]


def page_table() -> str:
    """The table of docs/emulator.md, in Markdown."""
    def row(setting):
        default = f"`{setting.default}`" if setting.default else setting.without
        if setting.run_default:
            default += f"; of `./stagecraft run`: `{setting.run_default}`"
        return f"| `{setting.variable}` | {default} | {setting.page} |"

    return "\n".join(["| variable | default | |", "|---|---|---|", *map(row, settings())])


def rows_for_cpp() -> str:
    """A call of STAGECRAFT_SETTING for each: its identifier, variable, legal values as a sentence and as words, default, range."""
    def row(setting):
        texts = (setting.variable, setting.must_be, "|".join(setting.words), setting.default)
        return ", ".join([setting.name.replace("-", "_"), *(f'"{text}"' for text in texts), f"{setting.least}u", f"{setting.most}u"])

    return "".join(f"STAGECRAFT_SETTING({row(setting)})\n" for setting in settings())


def main() -> None:
    pathlib.Path(sys.argv[1]).write_text(rows_for_cpp(), encoding="utf-8")


if __name__ == "__main__":
    main()
