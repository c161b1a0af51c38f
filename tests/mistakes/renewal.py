"""Takes mistakes over to programs that have changed, and records new ones."""

import difflib
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile

from form import ROOT, SOURCES, TOOL, Misfit, Mistake, indentation, read, usual_file, write_file, write_texts

NEWLINE = "\N{PILCROW SIGN}"
ONLY_INCLUDES = re.compile(r'^#include ["<](stagecraft/[\w/.]+)[">]$', re.MULTILINE)


def files_to_change(mistake: Mistake) -> dict[str, str]:
    """What a mistake may change, in a chapter the given files too: {name by which it is included: path from the root}.

    A solution that only includes a header of the library has that header to change."""
    if not mistake.chapter:
        usual = usual_file(mistake.path)
        return {usual: (mistake.path.parent / usual).relative_to(ROOT).as_posix()}
    files = {}
    for path in sorted([*(ROOT / "solutions" / mistake.chapter).iterdir(), *(ROOT / "chapters" / mistake.chapter).glob("given/*")]):
        if path.suffix in SOURCES:
            files[path.name] = path.relative_to(ROOT).as_posix()
            headers = ONLY_INCLUDES.findall(path.read_text(encoding="utf-8")) if path.suffix == ".hpp" else []
            files.update({header: f"common/{header}" for header in headers if path.name in header})
    return files


# ---- Renewal --------------------------------------------------------------------------------------------------------

@functools.cache
def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


def text_before(mistake: Mistake, name: str, path: str, now: str) -> str | None:
    """The newest text of a file in Git to which the mistake applies; the text now, unless that lacks words of the one before
    that the mistake's new lines use."""
    if not fits(mistake, name, now):
        commits = ["HEAD", *git("rev-list", "HEAD", "--", path).split()]
        texts = (git("show", f"{commit}:{path}") for commit in commits)
        return next((text for text in texts if fits(mistake, name, text)), None)
    new = "\n".join(text for change in mistake.changes for mark, text in change.lines if change.file == name and mark == "+")
    if gone := set(words(new)) - set(words(now)):
        for commit in ["HEAD", *git("rev-list", "--max-count=2", "HEAD", "--", path).split()]:
            text = git("show", f"{commit}:{path}")
            if gone & set(words(text)) and fits(mistake, name, text):
                return text
    return now


def fits(mistake: Mistake, name: str, text: str) -> bool:
    try:
        mistake.wrong_text(name, text)
    except Misfit:
        return False
    return True


def merge(new: str, old: str, wrong: str) -> tuple[str, bool]:
    """What `wrong` changes in `old`, changed in `new`; and whether that went without a conflict."""
    with tempfile.TemporaryDirectory() as folder:
        names = ["the program now", "the program before", "the mistake"]
        files = [pathlib.Path(folder) / name for name in names]
        for file, text in zip(files, [new, old, wrong]):
            file.write_text(text, encoding="utf-8")
        labels = [argument for name in names for argument in ("-L", name)]
        done = subprocess.run(["git", "merge-file", "-p", "--diff3", *labels, *files], stdout=subprocess.PIPE, text=True)
    return done.stdout, done.returncode == 0


def merge_words(new: str, old: str, wrong: str) -> tuple[str, bool]:
    """As merge(), word by word: two changes of one line go together when they change different words of it."""
    def split(text: str) -> str:
        return "\n".join(word.replace("\n", NEWLINE) for word in re.findall(r"\w+|\n *| +|[^\w\s]", text)) + "\n"

    merged, clean = merge(split(new), split(old), split(wrong))
    return merged.replace("\n", "").replace(NEWLINE, "\n"), clean


def renew(mistake: Mistake) -> tuple[bool, str]:
    """Rewrites a mistake whose program has changed. Returns whether it applies then, and what was done, if anything."""
    texts, conflicts, notes = {}, [], []
    for name, path in mistake.files().items():
        now = read(path)
        before = text_before(mistake, name, path, now)
        if before is None:
            return False, f"{mistake.short}: no version of {path} in Git fits it; edit the change by hand"
        merged, clean = take_over(now, before, mistake.wrong_text(name, before))
        texts[name] = (now, merged)
        gone = set(words(before)) & set(words(merged)) - set(words(now))
        if not clean:
            conflicts.append(name)
        elif merged == now:
            return False, f"{mistake.short}: {path} is itself as this mistake makes it"
        elif gone:
            notes.append(f"look at it: it uses what {path} no longer has: {', '.join(sorted(gone))}")
    if conflicts:
        folder = edit_folder(mistake)
        shutil.rmtree(folder, ignore_errors=True)
        for name, (_, merged) in texts.items():
            write_file(folder / name, merged)
        return False, (f"{mistake.short}: the program has changed where this mistake changes it. Resolve the conflicts in\n"
                       + "".join(f"    {folder.relative_to(ROOT)}/{name}\n" for name in conflicts)
                       + f"  then: python3 {TOOL} record {mistake.short}")
    if all(fits(mistake, name, now) and mistake.wrong_text(name, now) == merged for name, (now, merged) in texts.items()):
        return True, ""
    mistake.record(texts)
    return True, "; ".join([f"{mistake.short}: renewed", *notes])


def take_over(now: str, before: str, wrong: str) -> tuple[str, bool]:
    """The mistake in the program `before`, as it is in the program `now`; and whether that has no conflict."""
    for old_word, new_word in renamed_words(before, now).items():
        before, wrong = (re.sub(rf"\b{old_word}\b", new_word, text) for text in (before, wrong))
    before, wrong = laid_out_as(now, before, wrong)
    by_lines, clean = merge(now, before, wrong)
    if clean:
        return by_lines, True
    by_words, clean = merge_words(now, before, wrong)
    return (by_words, True) if clean else (by_lines, False)


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w+", re.sub(r"//.*", "", text))


def renamed_words(before: str, now: str) -> dict[str, str]:
    """The words of the text before that another word has replaced everywhere."""
    old, new = words(before), words(now)
    found: dict[str, set[str]] = {}
    opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, old_start, old_end, new_start, new_end in opcodes:
        if kind == "replace" and old_end - old_start == new_end - new_start:
            for old_word, new_word in zip(old[old_start:old_end], new[new_start:new_end]):
                found.setdefault(old_word, set()).add(new_word)
    return {word: by.pop() for word, by in found.items() if len(by) == 1 and word not in new and not by & set(old)}


def laid_out_as(now: str, before: str, wrong: str) -> tuple[str, str]:
    """The two older texts with the indentation and the comment that each line of code has now, so that only other changes
    have to be merged."""
    new, old, other = now.splitlines(), before.splitlines(), wrong.splitlines()
    moved = list(old)
    for at, where, size in same_lines(list(map(code_of, old)), list(map(code_of, new))):
        moved[at:at + size] = new[where:where + size]
    origin = {where + i: at + i for at, where, size in same_lines(old, other) for i in range(size)}
    result, shift = [], 0
    for number, line in enumerate(other):
        if number in origin:
            result.append(moved[origin[number]])
            shift = indentation(result[-1]) - indentation(line) if line.strip() else shift
        else:  # a line of the wrong answer goes where the one above it went
            result.append(" " * max(0, indentation(line) + shift) + line.strip())
    return "\n".join(moved) + "\n", "\n".join(result) + "\n"


def same_lines(old: list[str], new: list[str]) -> list[difflib.Match]:
    return difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()


def code_of(line: str) -> str:
    """What a line says without its indentation and comment; a line that is a comment says that."""
    return re.sub(r"\s*//.*", "", line).strip() or line.strip()


# ---- Editing --------------------------------------------------------------------------------------------------------

def edit_folder(mistake: Mistake) -> pathlib.Path:
    return ROOT / "build/edited_mistakes" / mistake.path.stem / mistake.name


def edit(mistake: Mistake) -> str:
    """Writes all files that the mistake may change; those that are left alone change nothing."""
    folder = edit_folder(mistake)
    shutil.rmtree(folder, ignore_errors=True)
    write_texts({name: read(path) for name, path in files_to_change(mistake).items()} | mistake.wrong_texts(), folder)
    return f"edit the files in {folder.relative_to(ROOT)}, then: python3 {TOOL} record {mistake.short}"


def record(mistake: Mistake) -> str:
    folder = edit_folder(mistake)
    texts = {}
    for name, path in (files_to_change(mistake) | mistake.files()).items():
        if (folder / name).exists():
            wrong = (folder / name).read_text(encoding="utf-8")
            if "<<<<<<< " in wrong:
                raise Misfit(f"{folder.relative_to(ROOT)}/{name} still has conflicts")
            if wrong != read(path):
                texts[name] = (read(path), wrong)
    if not texts:
        raise Misfit(f"{folder.relative_to(ROOT)} has nothing that differs from the right program; begin with: "
                     f"python3 {TOOL} edit {mistake.short}")
    mistake.record(texts)
    shutil.rmtree(folder)
    return f"recorded in {mistake.path.relative_to(ROOT)}"
