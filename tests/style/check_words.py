#!/usr/bin/env python3
"""Fails where a comment, docstring, string literal, name or page uses a phrase that the word list of docs/style.md replaces.

usage: check_words.py SOURCE_ROOT [NOT_YET...]   NOT_YET: files and folders below the root that are still exempt

Also fails where a sentence starts with "Of". docs/style.md says how its tables are read. Tables of NVIDIA's own messages
(`.inc`) are not searched.
"""

import bisect
import io
import os
import pathlib
import re
import sys
import tokenize

STYLE = "docs/style.md"
SPELLING = "| American |"  # begins the table that names need not follow
BREAK = "\x01"  # between texts; no phrase matches it

C_ENDINGS = (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp")
C_TOKEN = re.compile(
    r"//(?P<line>[^\n]*)"
    r"|/\*(?P<block>.*?)\*/"
    r'|R"(?P<mark>[^()\s\\]{0,16})\((?P<raw>.*?)\)(?P=mark)"'
    r'|"(?P<string>(?:\\.|[^"\\\n])*)"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'", re.DOTALL)
MISTAKES = ".mistakes"  # sentences, and lines of C++ after '+', '-' or ' '
NAME = re.compile(r"[A-Za-z_]\w*")
WORD_END = re.compile(r"[_-]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # in a name
SHELL = re.compile(r"#!.*\b(?:ba|da)?sh\b")
SHELL_TOKEN = re.compile(
    r"(?:^|(?<=[\s;]))#(?P<line>[^\n]*)"
    r'|"(?P<double>(?:\\.|[^"\\])*)"'
    r"|'(?P<string>[^']*)'"
    r"|\\.", re.DOTALL | re.MULTILINE)
MESON_TOKEN = re.compile(
    r"#(?P<line>[^\n]*)"
    r"|'''(?P<raw>.*?)'''"
    r"|'(?P<string>(?:\\.|[^'\\\n])*)'", re.DOTALL)


class Text:
    """Words that belong together, gathered from one or more places of a file."""

    def __init__(self, in_string=False):
        self.in_string, self.words, self._starts, self._lines = in_string, "", [], []

    def add(self, line, words, between=""):
        self.words += between if self.words else ""
        for number, part in enumerate(words.split("\n")):
            self.words += " " if number else ""
            self._starts.append(len(self.words))
            self._lines.append(line + number)
            self.words += part

    def append(self, other):
        """Adds another text; no phrase reaches from one into the other."""
        self.words += BREAK
        self._starts += [start + len(self.words) for start in other._starts]
        self._lines += other._lines
        self.words += other.words

    def line_of(self, position):
        return self._lines[bisect.bisect_right(self._starts, position) - 1]

    def blank(self, pattern):
        """Replaces what the pattern matches by as many characters that are neither words nor the end of a sentence."""
        self.words = re.sub(pattern, lambda found: "_" * len(found[0]), self.words)


def pieces_of_tokens(source, pattern):
    """Yields (is a comment, first line, words, whether only space is between this and the piece before)."""
    end = 0
    for found in pattern.finditer(source):
        between, end = source[end:found.start()], found.end()
        name = next((name for name, words in found.groupdict().items() if name != "mark" and words is not None), None)
        if name:
            words = re.sub(r"(?m)^\s*\*+", "", found[name]) if name == "block" else found[name]
            yield name in ("line", "block"), source.count("\n", 0, found.start(name)) + 1, words, not between.strip()


def pieces_of_python(source):
    """The same for Python, where a docstring, a string that begins a statement, counts as a comment."""
    follows, at_start = False, True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield True, token.start[0], token.string, follows
        elif token.type == tokenize.STRING:
            words = re.sub(r"""^\w*("{3}|'{3}|"|')|("{3}|'{3}|"|')$""", "", token.string)
            yield at_start, token.start[0], words, follows
        follows = token.type in (tokenize.COMMENT, tokenize.STRING) or follows and token.type == tokenize.NL
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            at_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def texts_of_source(pieces):
    """Texts of comments and strings: adjacent string literals are one text, and so are comments on successive lines."""
    texts, last_line = [], None  # of a comment that may go on
    for is_comment, line, words, follows in pieces:
        if is_comment:
            words = words.lstrip("/!*<#")
            if not (follows and last_line == line - 1 and words.strip()):
                texts.append(Text())
            texts[-1].add(line, words, " ")
            last_line = line + words.count("\n") if words.strip() else None
        else:
            if not (follows and texts and texts[-1].in_string):
                texts.append(Text(in_string=True))
            texts[-1].add(line, re.sub(r"\\[nt]", "  ", words))
            last_line = None
    return texts


def texts_of_page(source, pages):
    """The paragraphs of a page; a heading, an item of a list and a cell of a table are texts of their own."""
    texts, fresh = [], True
    for number, line in pages.prose(source):
        line = re.sub(r"<!--.*?-->", "", line)
        if not line.strip() or fresh and re.match(r"\s{4,}\S", line):
            fresh = True
            continue
        cells = line.strip().strip("|").split("|") if line.lstrip().startswith("|") else [line]
        begins = fresh or len(cells) > 1 or re.match(r"\s*(#|[-*>] |\d+\. )", line)
        for cell in cells:
            if begins:
                texts.append(Text())
            texts[-1].add(number, re.sub(r"^[#>\-* ]+", "", cell), " ")
        fresh = len(cells) > 1 or line.startswith("#")
    for text in texts:
        text.blank(r"\[[^\]]*\]\(https?:[^)]*\)")  # the titles of others
        text.blank(r"(?<=\])\([^)]*\)")
    return texts


def code_of_mistakes(source):
    """The names of mistakes and the code that they change, in the lines where it is."""
    return re.sub(r"(?m)^(?:[-+ ]|== |.*)", "", source)


def texts_of_mistakes(source):
    texts = texts_of_source(pieces_of_tokens(code_of_mistakes(source), C_TOKEN))
    for number, line in enumerate(source.split("\n"), 1):
        if line and line[0] not in "-+ =":
            texts.append(Text())
            texts[-1].add(number, line)
    return texts


def token_of(path, source):
    """What matches a comment or a string of a source; None: it is none of these languages."""
    if path.suffix in C_ENDINGS:
        return C_TOKEN
    if path.name in ("meson.build", "meson.options"):
        return MESON_TOKEN
    return SHELL_TOKEN if SHELL.match(source) else None


def texts_of(path, source, pages):
    if path.suffix == ".md":
        return texts_of_page(source, pages)
    if path.suffix == ".py":
        return texts_of_source(pieces_of_python(source))
    if path.suffix == MISTAKES:
        return texts_of_mistakes(source)
    token = token_of(path, source)
    return texts_of_source(pieces_of_tokens(source, token)) if token else []


def names_of(path, source):
    """Yields (line, name) for what the code of a file names."""
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
        return
    code, token = source, token_of(path, source)
    if path.suffix == MISTAKES:
        code, token = code_of_mistakes(source), C_TOKEN
    if token:
        code = token.sub(lambda found: "\n" * found[0].count("\n") or " ", code)
        for number, line in enumerate(code.split("\n"), 1):
            for name in NAME.findall(line):
                yield number, name


def text_of_names(path, source):
    """The words of each name in the code of a file and in its path: of ReadsAhead and reads_ahead, "reads ahead"."""
    text, seen = Text(), set()
    for line, name in [*((1, part) for part in re.split("[/.]", path)), *names_of(pathlib.Path(path), source)]:
        if name not in seen:
            seen.add(name)
            text.add(line, WORD_END.sub(" ", name).strip(), BREAK)
    return text


def expression(phrase):
    """The regular expression of a phrase as the tables write it, for text in lower case; what is before it is not checked."""
    words = phrase.lower().rstrip(".").split()
    parts = [r"(?:[\w'-]+\s+){0,2}[\w'-]+" if word == "…" else re.escape(word).replace(r"\*", "[a-z]{0,8}") for word in words]
    end = rf"(?=\s*(?:[.,;:)?!{BREAK}]|$))" if phrase.endswith(".") else r"(?![\w'=-])"
    return r"\s+".join(parts) + end


class Rule:
    """A row of the word list."""

    def __init__(self, out, better):
        phrases, _, excuses = out.partition("unless")
        self.better = better
        self._pattern, self._excuse = self._any_of(phrases), self._any_of(excuses)

    @staticmethod
    def _any_of(cell):
        phrases = re.findall(r"`([^`]+)`", cell)
        return re.compile("|".join(expression(phrase) for phrase in phrases)) if phrases else None

    def is_checked(self):
        return self._pattern is not None

    def hits(self, words):
        """Yields where phrases of this rule are in lower-case words, as (begin, end)."""
        excused = [found.span() for found in self._excuse.finditer(words)] if self._excuse else []
        for found in self._pattern.finditer(words):
            begin, end = found.span()
            # Tested here, because a pattern that begins with letters is found several times as fast.
            starts_inside_a_word = begin and (words[begin - 1].isalnum() or words[begin - 1] in "_-")
            if not starts_inside_a_word and not any(first < end and begin < last for first, last in excused):
                yield begin, end


def rules_of(page):
    """The rows of the tables in a page."""
    rows = [re.match(r"^\| *(.*?) *\| *(.*?) *\|.*\|$", line) for line in page.split("\n")]
    rules = [Rule(*row.groups()) for row in rows if row]
    return [rule for rule in rules if rule.is_checked()]


OF = re.compile(rf"(?:[.!?:]\s+|{BREAK}\s*)(Of (?!course\b)[\w`]+)")


def complaints(name, source, rules, rules_of_names, pages):
    """Yields (line, what is wrong) for each hit in one file."""
    prose, strings = Text(), Text(in_string=True)
    for text in texts_of(pathlib.Path(name), source, pages):
        text.blank(r"`[^`]*`")
        if text.in_string:
            strings.append(text)
        else:
            text.blank(r'"[^"]*"')
            prose.append(text)
    for found in OF.finditer(prose.words):
        yield prose.line_of(found.start(1)), f'"{found[1]} ...": begin with the subject'
    for text, which in (prose, rules), (strings, rules), (text_of_names(name, source), rules_of_names):
        words = text.words.lower()
        for rule in which:
            for begin, end in rule.hits(words):
                phrase = text.words[begin:end]
                if not re.search("[a-z][A-Z]", phrase):  # otherwise it is part of an identifier
                    yield text.line_of(begin), f'"{phrase}": {rule.better}'


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name == ".ci" or not name.startswith((".", "build", "__pycache__")))
        yield from (pathlib.Path(folder, name) for name in sorted(names))


def main():
    root, not_yet = pathlib.Path(sys.argv[1]), sys.argv[2:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"))
    import pages  # what the site knows of Markdown

    page = (root / STYLE).read_text()
    rules, rules_of_names = rules_of(page), rules_of(page.partition(SPELLING)[0])
    if not rules_of_names:
        print(f"{STYLE} holds no word list")
        return 1
    checked = found = exempt = 0
    for path in files_of(root):
        try:
            source = path.read_text()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(root).as_posix()
        hits = sorted(set(complaints(name, source, rules, rules_of_names, pages)))
        if any(name == entry or name.startswith(entry.rstrip("/") + "/") for entry in not_yet):
            exempt += len(hits)
            continue
        checked, found = checked + 1, found + len(hits)
        for line, what in hits:
            print(f"{name}:{line}: {what}")
    print(f"{checked} files checked with {len(rules)} rules: {found} phrases to replace, {exempt} in what is still exempt")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
