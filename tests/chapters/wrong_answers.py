#!/usr/bin/env python3
"""Renews, edits and records the patches of wrong answers, whose form answer_patch.py explains.

usage: wrong_answers.py renew [ANSWER...]   rewrites the patches that no longer apply, because their solution has changed
       wrong_answers.py edit ANSWER         writes the files of an answer, old or new, to a folder for you to edit
       wrong_answers.py record ANSWER       makes the patch from these files

ANSWER is NN/NAME, or the path of a patch.
"""

import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from answer_patch import CHAPTERS, ROOT, SOURCES, TOOL, Answer, Misfit, read, write_answer, write_file  # noqa: E402

NEWLINE = "\N{PILCROW SIGN}"
ONLY_INCLUDES = re.compile(r'^#include ["<](stagecraft/[\w/.]+)[">]$', re.MULTILINE)


def find(argument: str) -> Answer:
    if match := re.fullmatch(r"(\d\d)/(\w+)", argument):
        folders = list(CHAPTERS.glob(f"{match[1]}_*"))
        if len(folders) == 1:
            return Answer(folders[0] / "wrong" / f"{match[2]}.patch")
    elif argument.endswith(".patch"):
        return Answer(pathlib.Path(argument))
    raise Misfit(f"'{argument}' is no wrong answer: give NN/NAME, or the path of a patch")


def all_answers() -> list[Answer]:
    return [Answer(path) for path in sorted(CHAPTERS.glob("*/wrong/*.patch"))]


def solution_files(chapter: str) -> dict[str, str]:
    """What a wrong answer may change: {name by which it is included: path from the root}, the chapter's given files too.

    A solution that only includes a header of the library has that header to change."""
    files = {}
    for path in sorted([*(ROOT / "solutions" / chapter).iterdir(), *(ROOT / "chapters" / chapter).glob("given/*")]):
        if path.suffix in SOURCES:
            files[path.name] = path.relative_to(ROOT).as_posix()
            headers = ONLY_INCLUDES.findall(path.read_text(encoding="utf-8")) if path.suffix == ".hpp" else []
            files.update({header: f"common/{header}" for header in headers if path.name in header})
    return files


# ---- Renewal --------------------------------------------------------------------------------------------------------

def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


def text_that_fits(answer: Answer, changed: str) -> str | None:
    """The newest text of the file in Git to which the patch applies."""
    commits = ["HEAD", *git("rev-list", "HEAD", "--", changed).split()]
    texts = (git("show", f"{commit}:{changed}") for commit in commits)
    return next((text for text in texts if fits(answer, changed, text)), None)


def fits(answer: Answer, changed: str, text: str) -> bool:
    try:
        answer.apply(changed, text)
    except Misfit:
        return False
    return True


def merge(new: str, old: str, wrong: str) -> tuple[str, bool]:
    """What `wrong` changes in `old`, changed in `new`; and whether that went without a conflict."""
    with tempfile.TemporaryDirectory() as folder:
        names = ["the solution now", "the solution before", "the wrong answer"]
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


def renew(answer: Answer) -> tuple[bool, str]:
    """Rewrites a patch that does not apply. Returns whether it applies now, and what was done, if anything."""
    if all(fits(answer, changed, read(changed)) for changed in answer.files):
        return True, ""
    texts, conflicts, notes = {}, [], []
    for changed, (name, _) in answer.files.items():
        now = read(changed)
        before = now if fits(answer, changed, now) else text_that_fits(answer, changed)
        if before is None:
            return False, f"{answer.short}: no version of {changed} in Git fits it; edit the patch by hand"
        wrong = answer.apply(changed, before)
        merged, clean = take_over(now, before, wrong)
        texts[changed] = (name, now, merged)
        gone = set(words(before)) & set(words(merged)) - set(words(now))
        if not clean:
            conflicts.append(name)
        elif merged == now:
            return False, f"{answer.short}: {changed} is itself as this answer makes it"
        elif gone:
            notes.append(f"look at it: it uses what {changed} no longer has: {', '.join(sorted(gone))}")
    if conflicts:
        folder = edit_folder(answer)
        shutil.rmtree(folder, ignore_errors=True)
        for name, _, merged in texts.values():
            write_file(folder / name, merged)
        return False, (f"{answer.short}: the solution has changed where this answer changes it. Resolve the conflicts in\n"
                       + "".join(f"    {folder.relative_to(ROOT)}/{name}\n" for name in conflicts)
                       + f"  then: python3 {TOOL} record {answer.short}")
    answer.record(texts)
    return True, "; ".join([f"{answer.short}: renewed", *notes])


def take_over(now: str, before: str, wrong: str) -> tuple[str, bool]:
    """The wrong answer to the solution `before`, as it is to the solution `now`; and whether that has no conflict."""
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


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


# ---- Editing --------------------------------------------------------------------------------------------------------

def edit_folder(answer: Answer) -> pathlib.Path:
    return ROOT / "build/edited_answers" / answer.chapter / answer.name


def edit(answer: Answer) -> str:
    """Writes all files that the answer may change; those that are left alone change nothing."""
    folder = edit_folder(answer)
    shutil.rmtree(folder, ignore_errors=True)
    if answer.path.exists():
        write_answer(answer.read(), folder)
    for name, path in solution_files(answer.chapter).items():
        if not (folder / name).exists():
            write_file(folder / name, read(path))
    return f"edit the files in {folder.relative_to(ROOT)}, then: python3 {TOOL} record {answer.short}"


def record(answer: Answer) -> str:
    folder = edit_folder(answer)
    texts = {}
    for name, path in solution_files(answer.chapter).items():
        if (folder / name).exists():
            wrong = (folder / name).read_text(encoding="utf-8")
            if "<<<<<<< " in wrong:
                raise Misfit(f"{folder.relative_to(ROOT)}/{name} still has conflicts")
            if wrong != read(path):
                texts[path] = (name, read(path), wrong)
    if not texts:
        raise Misfit(f"{folder.relative_to(ROOT)} has nothing that differs from the solution; begin with: "
                     f"python3 {TOOL} edit {answer.short}")
    if answer.path.exists():
        answer.head = answer.read().head
    answer.record(texts)
    shutil.rmtree(folder)
    return f"recorded {answer.shown}"


# ---- Commands -------------------------------------------------------------------------------------------------------

def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    if command == "renew":
        answers = list(map(find, arguments)) if arguments else all_answers()
        failed = 0
        for answer in answers:
            try:
                if not answer.path.exists():
                    raise Misfit(f"there is no {answer.shown}")
                applies, text = renew(answer.read())
            except Misfit as misfit:
                applies, text = False, str(misfit)
            failed += not applies
            if text:
                print(text)
        print(f"{len(answers)} patches, {failed} do not apply")
        return 1 if failed else 0
    if command in ("edit", "record") and len(arguments) == 1:
        print((edit if command == "edit" else record)(find(arguments[0])))
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Misfit as misfit:
        sys.exit(str(misfit))
