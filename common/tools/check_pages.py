#!/usr/bin/env python3
"""Checks what the Markdown pages of the repository promise.

check_pages.py                      links lead somewhere, code shown in a lesson is that of the file it names, pictures have room
                                    for their words in any font
check_pages.py --console BUILD      consoles marked as checked show what their commands print, run in the folder BUILD
check_pages.py [--console BUILD] --update [PAGE...]   puts the right text in place, then look at `git diff`

Above a fenced block, alone on its line:
  <!-- snippet: FILE#NAME -->   the block is the part of FILE (from the root of the repository) between two `//! [NAME]` lines;
  <!-- snippet: FILE -->        or all of it
  <!-- diff: FILE#A FILE#B -->  the block is how the second part differs from the first
  <!-- sketch: WHY -->          code of a lesson that is not compiled, and why
  <!-- checked -->              a console block: each line `$ COMMAND` prints the lines below it; a line `...` matches any lines
  <!-- checked: COMMAND -->     the same, but COMMAND is run in place of the one shown (which needs the reader's own file)
Below the answer to a question, and indented as it is:
  <!-- numbers: 3 is -(-80 // 32); 15 is 80 % 32 - 1 -->   the answer has these numbers, in digits or as a word, and each is what
                                its expression in Python is
Above a table:
  <!-- settings -->             its rows are the settings of the emulated GPU, as settings.ini describes them
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages as markdown  # noqa: E402
import settings  # noqa: E402
import site_filter  # noqa: E402

CODE_LANGUAGES = {"cuda", "cpp", "c++", "cu"}
# Wall-clock times and rates differ between any two runs.
TIMING = re.compile(r"\d[\d.,]*(e[+-]?\d+)?(?= ?(?:µs|ms|s|sec|seconds|min|[kMGT]?FLOPS?|[kMGT]?FLOP/s|[kMGT]?i?B/s)\b)|"
                    r"(?<=per second: )\d[\d.,]*(e[+-]?\d+)?")
TIMEOUT = 120  # seconds for one command
# No common font is wider on average, in units of its size: the widest words here have 0.64 in DejaVu Sans.
ADVANCE = 0.65


class Problem(Exception):
    pass


class Unbuilt(Exception):
    pass


def part(wish, root):
    """Returns the text that FILE or FILE#NAME names."""
    file, _, name = wish.partition("#")
    path = root / file
    if not path.is_file():
        raise Problem(f"there is no file {file} (paths start at the root of the repository)")
    text = path.read_text(encoding="utf-8")
    if not name:
        return text.strip("\n")
    found = markdown.marked_part(text, name)
    if found is None:
        raise Problem(f"{file} has no part between two lines `//! [{name}]`")
    return found


def difference(old, new, root):
    lines = difflib.unified_diff(part(old, root).split("\n"), part(new, root).split("\n"), n=3, lineterm="")
    return "\n".join(line.rstrip() for line in lines if not line.startswith(("---", "+++", "@@")))


def check_links(page, text, root):
    """Yields (line, what is wrong) for links, pictures, @snippet and @include."""
    known = {}

    def anchors(path):
        if path not in known:
            other = markdown.read(path, root)
            known[path] = {markdown.slug(found["text"]) for _, line in markdown.prose(other)
                           if (found := markdown.HEADING.match(line))}
        return known[path]

    written = markdown.written(root)   # only they may lead to each other: a reader of the repository does not have them
    lines = text.split("\n")
    shown = {number for number, _ in markdown.prose(text)}
    prose = "\n".join(line if number in shown else "" for number, line in enumerate(lines, 1))
    prose = site_filter.CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), prose)
    for found in markdown.LINK.finditer(prose):
        line = prose.count("\n", 0, found.start()) + 1
        target = found["target"]
        path, fragment = site_filter.resolve(page, target, root)
        if path is None:
            if not re.match(r"(https?|mailto):", target):
                yield line, f"the link {target} leads out of the repository"
        elif not (root / path).exists() and not (path in written and page in written):
            yield line, f"the link {target} leads to {path.as_posix()}, which is not there"
        elif fragment and path.suffix == ".md" and fragment not in anchors(path):
            yield line, f"the link {target} leads to a heading that {path.as_posix()} does not have"
    for number, line in markdown.prose(text):
        found = markdown.SNIPPET.match(line) or markdown.INCLUDE.match(line)
        if not found:
            continue
        path = root / found["path"] if (root / found["path"]).exists() else root / page.parent / found["path"]
        if not path.is_file():
            yield number, f"there is no file {found['path']}"
        elif "name" in found.groupdict() and markdown.marked_part(path.read_text(encoding="utf-8"), found["name"]) is None:
            yield number, f"{found['path']} has no part between two lines `//! [{found['name']}]`"


def right_code(page, block, root):
    """Returns what a block that names its source should show, or None where it names none."""
    if found := markdown.SHOWS.match(block.note):
        return part(found["part"], root)
    if found := markdown.COMPARES.match(block.note):
        return difference(found["old"], found["new"], root)
    lesson = page.parts[0] == "chapters" and len(page.parts) > 2
    if lesson and block.language in CODE_LANGUAGES and not markdown.SKETCH.match(block.note):
        raise Problem("code in a lesson comes from a file that is tested: put <!-- snippet: FILE#NAME --> above the block, "
                      "or <!-- sketch: why --> where there can be no such file")
    return None


NUMBERS = re.compile(r"^\s+<!-- numbers: (?P<claims>.*) -->$")
ITEM = re.compile(r"^\d+\. ")
WORDS = dict(enumerate("no one two three four five six seven eight nine ten eleven twelve".split()))


def check_numbers(text):
    """Yields (line, what is wrong) for numbers of answers that are not what they are said to be."""
    answer = []
    for number, line in markdown.prose(text):
        if ITEM.match(line) or not line.strip():
            answer = []
        claims = NUMBERS.match(line)
        if not claims:
            answer.append(ITEM.sub("", line))
            continue
        words = re.findall(r"\w+", " ".join(answer).lower())
        for claim in claims["claims"].split("; "):
            said, _, expression = claim.partition(" is ")
            try:
                computed = eval(expression, {"__builtins__": {}, "len": len, "max": max, "min": min})
            except Exception as error:
                yield number, f"`{expression}` is no number: {error}"
                continue
            if said != str(computed):
                yield number, f"{expression} is {computed}, and not {said}"
            elif said not in words and WORDS.get(computed) not in words:
                yield number, f"the answer does not say {said}"


def settings_table(text):
    """Returns (line, what the page's table of settings says, what it should say), or None where it has none."""
    found = re.search(r"^<!-- settings -->\n\n((?:\|.*\n)*)", text, re.MULTILINE)
    return found and (text.count("\n", 0, found.start(1)) + 1, found[1], settings.page_table() + "\n")


# ---- Pictures -----------------------------------------------------------------------------------------------------------

def boxes_and_words(element, left=0.0, top=0.0):
    """Yields (element, x, y) for each rectangle and text of an SVG; a group may be moved with `translate`."""
    if moved := re.fullmatch(r"translate\(([\d.-]+)[ ,]+([\d.-]+)\)", element.get("transform", "")):
        left, top = left + float(moved[1]), top + float(moved[2])
    if element.tag.rpartition("}")[2] in ("rect", "text"):
        yield element, left + float(element.get("x", 0)), top + float(element.get("y", 0))
    for child in element:
        yield from boxes_and_words(child, left, top)


def check_picture(text):
    """Yields what is wrong with an SVG: its colours, and words that leave their box or the picture where the font is wide."""
    if "color-scheme: light dark" not in text:
        yield "without `:root { color-scheme: light dark; }` in its style, it has a white background on the dark site"
    picture = ElementTree.fromstring(text)
    # The first rule of a class counts: later ones are those of the dark theme, which changes only colours.
    styles = dict(reversed(re.findall(r"\.(\w+) \{([^}]*)\}", text)))
    left, top, width, height = (float(number) for number in picture.get("viewBox", "0 0 0 0").split())
    boxes, words = [(left, top, left + width, top + height)], []
    for element, x, y in boxes_and_words(picture):
        if element.tag.endswith("rect"):
            boxes.append((x, y, x + float(element.get("width")), y + float(element.get("height"))))
        else:
            words.append((element, x, y))
    for element, x, y in words:
        style = "".join(styles.get(name, "") for name in element.get("class", "").split())
        own_size, anchor = re.search(r"font-size: ([\d.]+)px", style), re.search(r"text-anchor: (\w+)", style)
        size = float(own_size[1] if own_size else picture.get("font-size", 16))
        word = "".join(element.itertext())
        length = ADVANCE * size * len(word)
        begin = x - length * {"start": 0, "middle": 0.5, "end": 1}[anchor[1] if anchor else "start"]
        around = [box for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3]]
        if not around:
            yield f'"{word}" is outside of the picture'
            continue
        left, _, right, _ = min(around, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))
        over = max(left - begin, begin + length - right)
        if over > 0:
            yield f'"{word}" leaves its box where the font is wide: it takes {length:.0f} pixels, {over:.0f} too many'


# ---- Consoles -----------------------------------------------------------------------------------------------------------

def translate(command, build):
    """Returns the command that is run in place of the one that a reader would type; it sets up and builds nothing."""
    command = re.sub(r"^\./stagecraft gemm\b", "build/gemm", command)
    emulator = f"{build}/common/emulator"
    command = re.sub(r"^\./stagecraft run ",
                     f"LD_LIBRARY_PATH={emulator} LD_PRELOAD={emulator}/libcudart.so.13:{emulator}/libcuda.so.1 ", command)
    command = re.sub(r"(^|\s)\./stagecraft time (?=build/)", r"\1STAGECRAFT_TIMING=on STAGECRAFT_CHECKS=none ", command)
    if re.search(r"(^|\s)(\./stagecraft|meson|ninja)\s", command):
        raise Problem(f"`{command}` would build or test: name a program with <!-- checked: build/PROGRAM ... -->")
    for program in re.findall(r"(?:^|\s)(?:\./)?build/(\S+)", command):
        if not (build / program).exists():
            raise Unbuilt(f"build/{program}")
    return re.sub(r"(^|\s)(?:\./)?build/", rf"\1{build}/", command)


def run(command, build, root):
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(["bash", "-c", translate(command, build)], cwd=root, env=environment, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Problem(f"`{command}` took more than {TIMEOUT} s") from None
    output = done.stdout.replace(f"{build}/", "build/").replace(f"{root}/", "")
    return [line.rstrip() for line in output.rstrip("\n").split("\n")] if output.strip() else []


def same(line):
    return TIMING.sub("#", line.rstrip())


def matches(expected, actual):
    """Returns whether the lines are the same except for timings, where a line `...` matches any number of lines."""
    if not expected:
        return not actual
    if expected[0].strip() == "...":
        return any(matches(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and same(expected[0]) == same(actual[0]) and matches(expected[1:], actual[1:])


def renewed(expected, actual):
    """Returns `expected` with its lines as `actual` has them, where only numbers and folders differ; else `actual`.

    Lines `...` keep their places.
    """
    def shape(line):
        return re.sub(r"\d+", "#", re.sub(r"[\w./]*/", "", line.rstrip()))

    lines, rest = [], list(actual)
    for line in expected:
        if line.strip() != "...":
            place = next((i for i, candidate in enumerate(rest) if shape(candidate) == shape(line)), None)
            if place is None:
                return actual
            line, rest = rest[place], rest[place + 1:]
        lines.append(line)
    return lines if matches(lines, actual) else actual


def right_console(block, build, root):
    """Returns what a checked console should show; that is its own text where only timings differ."""
    found = markdown.CHECKED.match(block.note)
    sessions = []  # each is [line `$ COMMAND`, lines below it]
    for line in block.text().split("\n"):
        if line.startswith("$ "):
            sessions.append([line, []])
        elif not sessions:
            raise Problem("the first line of a checked console is `$ COMMAND`")
        else:
            sessions[-1][1].append(line)
    if found["command"] and len(sessions) != 1:
        raise Problem("<!-- checked: COMMAND --> must be above a single `$` line")
    lines = []
    for prompt, expected in sessions:
        while expected and not expected[-1].strip():
            expected.pop()
        actual = run(found["command"] or prompt[2:], build, root)
        lines += [prompt, *(expected if matches(expected, actual) else renewed(expected, actual))]
    return "\n".join(lines)


# ---- All of it ------------------------------------------------------------------------------------------------------------

def replaced(text, block, right):
    lines = text.split("\n")
    lines[block.first - 1:block.first - 1 + len(block.lines)] = [block.indent + line if line else ""
                                                                 for line in right.split("\n")]
    return "\n".join(lines)


def first_difference(right, shown):
    for number, (one, other) in enumerate(zip(right.split("\n"), shown.split("\n"))):
        if same(one) != same(other):
            return number, f"it should say\n    {one}\nbut says\n    {other}"
    number = min(right.count("\n"), shown.count("\n")) + 1
    longer, verb = (right, "ends before") if right.count("\n") > shown.count("\n") else (shown, "goes on with")
    return number, f"it {verb}\n    {longer.split(chr(10))[number]}"


def check_page(page, root, build, update):
    """Returns (problems as (line, text), programs that are not built)."""
    text = markdown.read(page, root)
    problems = [] if build else [*check_links(page, text, root), *check_numbers(text)]
    if not build and not markdown.title(text):
        problems.append((1, "a page begins with its title: `# TITLE`"))
    unbuilt = []
    for block in reversed(markdown.blocks(text)):  # in reverse, so that an update moves no later block
        try:
            if build:
                right = right_console(block, build, root) if markdown.CHECKED.match(block.note) else None
            else:
                right = right_code(page, block, root)
        except Problem as problem:
            problems.append((block.first, str(problem)))
            continue
        except Unbuilt as program:
            unbuilt.append(str(program))
            continue
        shown = block.text()
        if right is None or [line.rstrip() for line in right.split("\n")] == [line.rstrip() for line in shown.split("\n")]:
            continue
        if update:
            text = replaced(text, block, right)
            continue
        offset, what = first_difference(right, shown)
        problems.append((block.first + offset, f"{what}\n  common/tools/check_pages.py "
                         f"{'--console BUILD ' if build else ''}--update {page.as_posix()} puts it right"))
    if not build and (table := settings_table(text)) and table[1] != table[2]:
        if update:
            text = text.replace(table[1], table[2])
        else:
            offset, what = first_difference(table[2], table[1])
            problems.append((table[0] + offset, f"{what}\n  common/tools/check_pages.py --update {page.as_posix()} puts it right"))
    if update and page in markdown.written(root):
        markdown.gallery(root).keep_reports(page, text)
    elif update:
        (root / page).write_text(text, encoding="utf-8")
    return sorted(problems), unbuilt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--console", metavar="BUILD", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=markdown.ROOT, help=argparse.SUPPRESS)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    root = options.root.resolve()
    build = options.console.resolve() if options.console else None
    wanted = [page.resolve().relative_to(root) for page in options.pages] or markdown.pages(root)
    count, missing = 0, set()
    pictures = {}
    for picture in [] if build else [*markdown.files(".svg", root), *markdown.files(".png", root)]:
        other = pictures.setdefault(picture.name, picture)
        if other != picture:
            print(f"{picture.as_posix()}: {other.as_posix()} has the same name, and the site puts them into one folder")
            count += 1
        if picture.suffix == ".svg":
            for problem in check_picture((root / picture).read_text(encoding="utf-8")):
                print(f"{picture.as_posix()}: {problem}")
                count += 1
    for page in wanted:
        problems, unbuilt = check_page(page, root, build, options.update)
        count += len(problems)
        missing.update(unbuilt)
        for line, what in problems:
            print(f"{page.as_posix()}:{line}: {what}")
    print(f"{len(wanted)} pages, {count} {'problem' if count == 1 else 'problems'}")
    if count:
        return 1
    if missing:
        print(f"not built, so not run: {', '.join(sorted(missing))}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
