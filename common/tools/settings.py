#!/usr/bin/env python3
"""The settings of the emulated GPU, as common/emulator/settings/settings.ini lists them; its first lines say what a row has.

settings.py OUTPUT   writes the rows for C++, which common/emulator/settings/table.hpp includes
"""

import configparser
import difflib
import errno
import os
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).resolve().parents[1] / "emulator" / "settings" / "settings.ini"
KEYS = {"values", "form", "file", "must_be", "least", "most", "default", "without", "run_default", "run_values", "alone", "joined_by", "option",
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
        self.form = text["form"] or {"NUMBER": "(?P<n>[0-9]+)", "FILE": ".+"}.get(self.values) or "|".join(self.words)
        self.file = text["file"]
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

    def problem(self, value: str, run: bool = False) -> str:
        """What is wrong with a value, as the end of a sentence that begins with the setting; empty where nothing is.
        `run`: of ./stagecraft run, which accepts more."""
        match = re.fullmatch(self.form, value)
        is_legal = bool(match)
        if match and "n" in match.groupdict():
            number = int(match["n"], 16 if "x" in match["n"] else 10)
            unit = {"M": 2**20, "G": 2**30}.get(match.groupdict().get("unit"), 1)
            is_legal = int(self.least) <= number and number * unit <= int(self.most)
        if run and value in filter(None, self.run_values.split("|")):
            return ""
        if not is_legal:
            words = re.findall(r"[a-z]\w+", f"{self.values} {self.form} {self.run_values}")
            similar = difflib.get_close_matches(value, words, 1)
            must_be = choice(self.words + [self.run_values]) if run and self.run_values else self.must_be
            return f'is "{value}", but must be {must_be}' + (f"; did you mean {similar[0]}?" if similar else "")
        paths = value.split(":") if self.joined_by else [value]
        for path in paths if self.file and value != "text" else ():
            try:
                open_as(self.file, path)
            except OSError as error:
                return f'is "{path}", which cannot be {self.file}: {error.strerror}'
        return ""


def open_as(use: str, path: str) -> None:
    """Raises OSError where a file cannot be `read` or `written`. Leaves no file where there was none."""
    if use == "read":
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    elif not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):   # else a device, or a pipe
        is_new = not os.path.lexists(path)
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
        if is_new:
            os.unlink(path)


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
