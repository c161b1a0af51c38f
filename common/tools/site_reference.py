"""Makes the pages that Doxygen writes about types shorter: the name as the title, and a table of the variables, which Doxygen lists
once with "More..." at each and describes again below."""

import re

TITLE = re.compile(r"(<title>|<div class=\"title\">)(?:stagecraft::)?(.*?) (Class|Struct|Union|Namespace|Concept|File) (?:Template )?Reference")
VARIABLES = re.compile(r'<table class="memberdecls">\n<tr class="heading"><td colspan="2"><h2 class="groupheader"><a id="(pub(?:-static)?-attribs)" name="\1"></a>\n([\w ]+)</h2>.*?</table>', re.DOTALL)
ROW = re.compile(r'<tr class="memitem:(\w+)"><td class="memItemLeft"[^>]*>(.*?)&#160;</td><td class="memItemRight"[^>]*>(?:<a [^>]*>)?(\w+)(?:</a>)?(.*?)</td></tr>\n'
                 r'(?:<tr class="memdesc:\1">.*?</tr>\n)?<tr class="separator:\1">.*?</tr>\n')
DESCRIPTION = r'<a id="{0}" name="{0}"></a>\n<h2 class="memtitle">.*?<div class="memdoc">\n(.*?)</div>\n</div>\n'
DEFINITION = re.compile(r'<p class="definition">.*?</p>\n', re.DOTALL)
EMPTY = re.compile(r'<h2 class="groupheader">Member Data Documentation</h2>\n(?=<hr/>|<h2 class="groupheader">|</div><!-- contents -->)')


def code(text):
    return f"<code>{text}</code>" if text else ""


def table(text, found):
    """Returns a page with one table in place of a list of variables and their descriptions."""
    rows = []
    for anchor, kind, name, value in ROW.findall(found[0]):
        described = re.search(DESCRIPTION.format(anchor), text, re.DOTALL)
        words = DEFINITION.sub("", described[1]).strip() if described else ""
        if described:
            text = text.replace(described[0], "", 1)
        rows.append(f'<tr id="{anchor}"><td><code>{name}</code></td><td><code>{kind}</code></td><td>{code(value.strip(" ="))}</td><td>{words}</td></tr>\n')
    others = ROW.sub("", found[0])
    rest = others if "inherit_header" in others else ""
    head = f'<h2 class="groupheader"><a id="{found[1]}" name="{found[1]}"></a>\n{found[2]}</h2>\n'
    columns = "<tr><th>name</th><th>type</th><th>value</th><th>what</th></tr>\n"
    return EMPTY.sub("", text.replace(found[0], f'{head}<table class="doxtable fields">\n{columns}{"".join(rows)}</table>\n{rest}', 1))


def shorten(text):
    """Returns a page of the reference as the site shows it."""
    text = TITLE.sub(lambda title: title[1] + (title[2] if title[3] == "File" else f"{title[3]} {title[2]}"), text)
    text = text.replace('<div class="title">Class List</div>', '<div class="title">Types</div>').replace("<title>Class List", "<title>Types")
    if 'id="nested-classes"' not in text:   # Doxygen links to that also where it lists none
        text = re.sub(r'<a href="#nested-classes">[^<]*</a>(?: &#124;)?\s*', "", text)
    for found in list(VARIABLES.finditer(text)):
        if ROW.search(found[0]):
            text = table(text, found)
    return text


def add(site):
    """Shortens all pages of a folder."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        changed = shorten(text)
        if changed != text:
            page.write_text(changed, encoding="utf-8")
