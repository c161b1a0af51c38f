"""Shows the files that lessons link to as pages of the site: with numbers of lines, and in the colours of the theme."""

import html
import re
import shutil

import pages
import site_filter

KEYWORDS = {
    "c": "alignas auto bool break case catch char class concept const consteval constexpr continue decltype default do double else enum explicit "
         "extern false float for friend if inline int namespace noexcept nullptr operator private protected public requires return short signed "
         "sizeof static static_assert struct switch template this throw true try typename union unsigned using virtual void volatile while "
         "__device__ __global__ __host__ __shared__ __constant__ __grid_constant__ __launch_bounds__ __align__ __forceinline__ __noinline__",
    "python": "and as assert break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or "
              "pass raise return True try while with yield",
}
# What a language's comments and strings look like.
PIECES = {"c": r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", "python": r"#[^\n]*|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"}
TOKENS = {language: re.compile(f"(?P<piece>{PIECES[language]})|(?P<keyword>\\b(?:{'|'.join(words.split())})\\b)", re.DOTALL)
          for language, words in KEYWORDS.items()}
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{top}source.css">
<script src="{top}source.js"></script>
</head>
<body>
<p class="way"><a href="{top}index.html">Stagecraft</a>{above}</p>
<h1>{name}</h1>
<pre tabindex="0">{lines}</pre>
</body>
</html>
"""


def coloured(text, language):
    """Returns source text as HTML: comments, strings and keywords have a class; none of them goes over the end of a line."""
    parts, last = [], 0
    for token in TOKENS[language].finditer(text):
        word = token[0]
        kind = "keyword" if token["keyword"] else "string" if word[0] in "\"'" else "comment"
        parts.append(html.escape(text[last:token.start()]))
        parts.append("\n".join(f'<span class="{kind}">{html.escape(line)}</span>' if line else "" for line in word.split("\n")))
        last = token.end()
    return "".join([*parts, html.escape(text[last:])])


def page(path, text, root=pages.ROOT):
    """Returns the page of a file, whose path is relative to the root."""
    top = "../" * (len(path.parts))   # the folder files/ is one above
    above = ""
    lesson = pages.pathlib.Path("chapters") / path.parent.name / "README.md"   # of a solution, too
    readme = next((readme for readme in (lesson, path.parent / "README.md") if (root / readme).exists()), None)
    if readme:
        title = html.escape(pages.title(pages.read(readme, root)).replace("`", ""))
        above = f' / <a href="{top}{site_filter.address(readme)}">{title}</a>'
    lines = coloured(text.rstrip("\n"), site_filter.SOURCES[path.suffix]).split("\n")
    numbered = "".join(f'<span class="line" id="L{number}">{line}\n</span>' for number, line in enumerate(lines, 1))
    return PAGE.format(name=html.escape(path.as_posix()), top=top, above=above, lines=numbered)


def add(site):
    """Writes all files that pages link to into the site: sources as pages, others as they are."""
    for path in site_filter.copied_files():
        target = site / site_filter.copy_address(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in site_filter.SOURCES:
            target.write_text(page(path, (pages.ROOT / path).read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(pages.ROOT / path, target)
