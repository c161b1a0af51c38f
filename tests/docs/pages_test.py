#!/usr/bin/env python3
"""Tests of common/tools/check_pages.py and site_filter.py, on small repositories made up for them."""

import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"
sys.path.insert(0, str(TOOLS))
import check_pages  # noqa: E402
import run_charts  # noqa: E402
import run_figures  # noqa: E402
import site_filter  # noqa: E402
import site_glossary  # noqa: E402
import site_names  # noqa: E402
import site_rail  # noqa: E402
import site_source  # noqa: E402


class RepositoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, path: str, *lines: str) -> pathlib.Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return file

    def check(self, *arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, str(TOOLS / "check_pages.py"), "--root", str(self.root), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


    def write_gallery(self, text: str) -> None:
        """A page that no file has, bugs/ring.md, which is made from ring.txt; what is recorded for it gets into recorded.txt."""
        self.write("ring.txt")
        self.write("tests/bugs/write_pages.py", "import pathlib", "PAGE = pathlib.Path('bugs/ring.md')",
                   f"def written(): return {{PAGE: (pathlib.Path('ring.txt'), {text!r}), PAGE.with_name('b.md'): (pathlib.Path('b.txt'), '# B')}}",
                   f"def keep_reports(page, text): pathlib.Path({str(self.root)!r}, 'recorded.txt').write_text(f'{{page}}: {{text}}')")


class LinkTest(RepositoryTest):
    def test_a_link_to_nowhere_is_named_with_its_line(self):
        self.write("a/README.md", "# A", "", "See [it](../b/none.md).")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("a/README.md:3: the link ../b/none.md leads to b/none.md, which is not there", done.stdout)

    def test_a_link_to_a_missing_heading_is_named(self):
        self.write("README.md", "# A", "[one](b.md#the-right-one) and [two](b.md#the-wrong-one)")
        self.write("b.md", "# B", "## The `right` one")
        done = self.check()
        self.assertEqual(done.stdout.count("README.md:2:"), 1)
        self.assertIn("b.md#the-wrong-one leads to a heading that b.md does not have", done.stdout)

    def test_links_in_code_are_not_followed(self):
        self.write("README.md", "# A", "`[](auto& x){}` and", "```cpp", "[a](auto b) {}", "[c](d.md)", "```")
        self.assertEqual(self.check().returncode, 0)

    def test_a_page_has_a_title(self):
        self.write("README.md", "words")
        self.assertIn("README.md:1: a page begins with its title", self.check().stdout)

    def test_only_pages_that_no_file_has_lead_to_each_other(self):
        self.write("README.md", "# A", "[one](bugs/ring.md), [its file](ring.txt)")
        self.write_gallery("# Ring\n[b](b.md), [start](../README.md), [nowhere](c.md)")
        found = self.check().stdout.splitlines()
        self.assertEqual(found, ["README.md:2: the link bugs/ring.md leads to bugs/ring.md, which is not there",
                                 "bugs/ring.md:2: the link c.md leads to bugs/c.md, which is not there", "3 pages, 2 problems"])


class NumbersTest(RepositoryTest):
    def problems(self, *answer):
        return [what for _, what in check_pages.check_numbers("\n".join(["1. The first: 3.", *answer]))]

    def test_numbers_are_what_their_expressions_are(self):
        self.assertEqual(self.problems("2. Three; the last has", "   lanes 0 to 15.",
                                       "   <!-- numbers: 3 is -(-80 // 32); 15 is 80 % 32 - 1; 2 is len({0, 1} | {1}) -->"),
                         ["the answer does not say 2"])
        self.assertEqual(self.problems("2. Four.", "   <!-- numbers: 4 is 2 + 3 -->"), ["2 + 3 is 5, and not 4"])
        self.assertIn("is no number", self.problems("2. Four.", "   <!-- numbers: 4 is open('x') -->")[0])

    def test_each_answer_is_asked_for_its_own_numbers(self):
        self.assertEqual(self.problems("2. None.", "   <!-- numbers: 3 is 1 + 2 -->"), ["the answer does not say 3"])


class PictureTest(RepositoryTest):
    def test_a_picture_follows_the_colours_of_the_page(self):
        self.write("README.md", "# A")
        self.write("a.svg", "<svg><style>@media (prefers-color-scheme: dark) {}</style></svg>")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.svg: without `:root { color-scheme: light dark; }`", done.stdout)
        self.write("a.svg", "<svg><style>:root { color-scheme: light dark; }</style></svg>")
        self.assertEqual(self.check().returncode, 0)

    def check_picture(self, *elements: str) -> str:
        self.write("README.md", "# A")
        self.write("a.svg", '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50" font-size="10">',
                   "<style>:root { color-scheme: light dark; } .small { font-size: 5px; } .middle { text-anchor: middle; }</style>",
                   *elements, "</svg>")
        return self.check().stdout

    def test_words_have_room_in_a_wide_font(self):
        self.assertIn("0 problems", self.check_picture('<text x="20" y="10">twelve chars</text>'))
        self.assertIn('a.svg: "twelve chars" leaves its box where the font is wide: it takes 78 pixels, 3 too many',
                      self.check_picture('<text x="25" y="10">twelve chars</text>'))
        self.assertIn("0 problems", self.check_picture('<text class="small middle" x="25" y="10">twelve chars</text>'))
        self.assertIn("78 pixels, 14 too many", self.check_picture('<text class="middle" x="25" y="10">twelve chars</text>'))
        self.assertIn('"below" is outside of the picture', self.check_picture('<text x="5" y="60">below</text>'))

    def test_words_stay_in_the_innermost_box_around_them(self):
        box = '<rect x="0" y="0" width="30" height="20"/>'
        self.assertIn("0 problems", self.check_picture(box, '<text x="2" y="30">below it</text>'))
        self.assertIn('"inside" leaves its box where the font is wide: it takes 39 pixels, 11 too many',
                      self.check_picture(box, '<text x="2" y="10">inside</text>'))
        self.assertIn("39 pixels, 16 too many",
                      self.check_picture('<g transform="translate(5, 0)">', '<text x="2" y="10">inside</text>', "</g>", box))


class CodeTest(RepositoryTest):
    LESSON = ["# A", "", "<!-- snippet: s/a.cu#add -->", "```cuda", "c = a - b;", "```"]

    def setUp(self):
        super().setUp()
        self.write("s/a.cu", "  //! [add]", "  c = a + b;", "    //! [one more]", "  ++c;", "    //! [one more]", "  //! [add]")

    def test_code_that_differs_from_its_file_is_shown(self):
        self.write("chapters/01/README.md", *self.LESSON)
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("chapters/01/README.md:5: it should say\n    c = a + b;\nbut says\n    c = a - b;", done.stdout)

    def test_a_marker_that_is_not_there_is_named(self):
        self.write("chapters/01/README.md", *(line.replace("#add", "#sub") for line in self.LESSON))
        self.assertIn("s/a.cu has no part between two lines `//! [sub]`", self.check().stdout)

    def test_the_name_of_a_marker_may_have_spaces(self):
        self.write("README.md", "# A", "<!-- snippet: s/a.cu#one more -->", "```cuda", "++c;", "```")
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_an_update_puts_the_code_in_place(self):
        lesson = self.write("chapters/01/README.md", *self.LESSON, "", *self.LESSON[2:])
        self.assertEqual(self.check("--update").returncode, 0)
        self.assertEqual(lesson.read_text(encoding="utf-8").count("```cuda\nc = a + b;\n++c;\n```"), 2)
        self.assertEqual(self.check().returncode, 0)

    def test_a_lesson_shows_no_code_without_a_source(self):
        self.write("chapters/01/README.md", "# A", "```cuda", "f();", "```", "<!-- sketch: no PTX for it -->", "```cuda", "g();", "```")
        done = self.check()
        self.assertIn("chapters/01/README.md:3: code in a lesson comes from a file that is tested", done.stdout)
        self.assertIn("1 problem\n", done.stdout)

    def test_a_difference_is_that_of_its_two_parts(self):
        self.write("s/b.cu", "  //! [add]", "c = a + b;", "--c;", "  //! [add]")
        self.write("README.md", "# A", "<!-- diff: s/a.cu#add s/b.cu#add -->", "```diff", " c = a + b;", "-++c;", "+--c;", "```")
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout)


class SettingsTableTest(RepositoryTest):
    def test_an_update_puts_the_settings_in_place(self):
        page = self.write("README.md", "# A", "<!-- settings -->", "", "| variable |", "|---|", "", "| another |", "|---|")
        done = self.check()
        self.assertIn("README.md:4: it should say\n    | variable | default | |\nbut says\n    | variable |\n", done.stdout)
        self.assertEqual(self.check("--update").returncode, 0)
        self.assertRegex(page.read_text(encoding="utf-8"), r"(?m)^\| `STAGECRAFT_SEED` \| `0` \| the seed [^|]* \|$")
        self.assertTrue(page.read_text(encoding="utf-8").endswith("|\n\n| another |\n|---|\n"))
        self.assertNotIn("it should say", self.check().stdout)


class ConsoleTest(RepositoryTest):
    def setUp(self):
        super().setUp()
        program = self.write("build/program", "#!/bin/sh", "echo one; echo two; echo took 17.25 ms; echo six barriers")
        program.chmod(0o755)

    def console(self, *lines: str, note: str = "<!-- checked -->", arguments=()) -> subprocess.CompletedProcess:
        self.page = self.write("README.md", "# A", note, "```console", *lines, "```")
        return self.check("--console", self.root / "build", *arguments)

    def test_timings_may_differ_and_dots_stand_for_lines(self):
        done = self.console("$ build/program", "...", "took 3 ms", "six barriers")
        self.assertEqual(done.returncode, 0, done.stdout)
        done = self.console("$ anything", "one", "...", note="<!-- checked: build/program -->")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_another_output_is_an_error(self):
        done = self.console("$ build/program", "one", "two", "took 3 ms", "five barriers")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it should say\n    six barriers\nbut says\n    five barriers", done.stdout)

    def test_a_program_that_is_not_built_is_skipped(self):
        done = self.console("$ build/absent", "one")
        self.assertEqual(done.returncode, 77)
        self.assertIn("not built, so not run: build/absent", done.stdout)

    def test_an_update_puts_the_output_in_place(self):
        self.console("$ build/program", arguments=["--update"])
        self.assertIn("$ build/program\none\ntwo\ntook 17.25 ms\nsix barriers\n```", self.page.read_text(encoding="utf-8"))

    def test_an_update_of_numbers_keeps_the_lines_that_are_left_out(self):
        self.assertEqual(check_pages.renewed(["a", "...", "at x/gemm.cu:12"], ["a", "b", "at y/gemm.cu:34"]),
                         ["a", "...", "at y/gemm.cu:34"])
        self.assertEqual(check_pages.renewed(["a", "...", "at gemm.cu:12"], ["a", "b", "in gemm.cu:34"]),
                         ["a", "b", "in gemm.cu:34"])

    def test_the_console_of_a_page_that_no_file_has_is_compared_and_recorded(self):
        self.write_gallery("# Ring\n\n<!-- checked -->\n```console\n$ echo new\nold\n```\n")
        self.assertIn("bugs/ring.md:6: it should say\n    new\nbut says\n    old\n", self.check("--console", self.root).stdout)
        self.assertEqual(self.check("--console", self.root, "--update").returncode, 0)
        recorded = (self.root / "recorded.txt").read_text(encoding="utf-8")
        self.assertIn("$ echo new\nnew\n", recorded)
        self.assertFalse((self.root / "bugs").exists())


class SiteTest(RepositoryTest):
    def render(self, page: str) -> str:
        return site_filter.Page(pathlib.Path(page), self.root).render((self.root / page).read_text(encoding="utf-8"))

    def test_links_to_pages_become_references(self):
        self.write("README.md", "# Start", "[the lessons](chapters/)")
        self.write("chapters/README.md", "# Lessons", "[one](01/README.md#why), [a file](x.cu), [out](https://a.b/c.md)")
        self.write("chapters/01/README.md", "# One", "## Why", "![a ring](ring.svg)")
        self.write("chapters/x.cu")
        self.assertIn('@subpage page_chapters "the lessons"', self.render("README.md"))
        lessons = self.render("chapters/README.md")
        self.assertIn('@ref page_chapters_01_why "one", [a file](files/chapters/x.cu.html), [out](https://a.b/c.md)', lessons)
        self.assertIn('@subpage page_chapters_01 "One"', lessons)  # no sentence leads there, so a list does
        self.assertIn("## Why {#page_chapters_01_why}\n![a ring](ring.svg)", self.render("chapters/01/README.md"))

    def test_a_link_to_what_a_page_is_made_from_leads_to_that_page(self):
        self.write("README.md", "# Start", "[the ring](ring.txt)")
        self.write_gallery("# Ring")
        self.assertIn('@subpage page_bugs_ring "the ring"', self.render("README.md"))
        self.assertEqual(site_filter.filtered(pathlib.Path("bugs/ring.md"), self.root), "# Ring {#page_bugs_ring}")

    def test_headings_that_differ_in_signs_have_anchors_of_their_own(self):
        self.write("README.md", "# A", "## C++", "## C", "[c](#c-1)")
        lines = self.render("README.md").split("\n")
        self.assertEqual(lines[1:4], ["## C++ {#mainpage_c}", "## C {#mainpage_c_1}", '@ref mainpage_c_1 "c"'])

    def test_every_line_keeps_its_number(self):
        self.write("README.md", "# A", "text [over", "two](b.md). Lines", "```cuda", "f();", "```", "## Last")
        self.write("b.md", "# B")
        lines = self.render("README.md").split("\n")
        self.assertEqual(lines[1:3], ["text", '@subpage page_b "over two". Lines'])
        self.assertTrue(lines[6].startswith("## Last"))
        self.write("README.md", "# A", "([over", "two](b.md)).", "", "[b](b.md) is next")
        self.assertEqual(self.render("README.md").split("\n")[1:6],
                         ['(@subpage page_b "over two").', "", "", '@ref page_b "b" is next', ""])

    def test_a_timeline_is_a_frame_where_its_run_was_recorded(self):
        self.write("README.md", "# A", "text", "<!-- timeline: chapters/01_x_solution Chapter01.Todo1 2 -->", "more")
        text = (self.root / "README.md").read_text(encoding="utf-8")
        shown = site_filter.Page(pathlib.Path("README.md"), self.root, {"01_x_solution"}).render(text).split("\n")
        self.assertIn('<iframe src="timelines/01_x_solution.html"', shown[2])
        self.assertEqual([shown[1], shown[3]], ["text", "more"])
        self.assertEqual(self.render("README.md").split("\n")[1:4], ["text", site_filter.NO_RUN, "more"])

    def test_a_drawing_of_a_run_is_left_out_where_its_page_is(self):
        self.write("docs/figures/runs/01_x_solution.svg", "<svg/>")
        self.write("README.md", "# A", "![This run, drawn](docs/figures/runs/01_x_solution.svg)", "",
                   "<!-- timeline: chapters/01_x_solution Chapter01.Todo1 2 -->")
        text = (self.root / "README.md").read_text(encoding="utf-8")
        shown = site_filter.Page(pathlib.Path("README.md"), self.root, {"01_x_solution"}).render(text)
        self.assertNotIn("01_x_solution.svg", shown)
        self.assertIn("![This run, drawn](01_x_solution.svg)", self.render("README.md"))

    def test_bold_text_may_begin_with_code(self):
        self.write("README.md", "# A", "**`a` and", "`b`** are **bold**, `**` is not")
        self.assertEqual(self.render("README.md").split("\n")[1:3], ["<b>`a` and", "`b`</b> are **bold**, `**` is not"])

    def test_a_console_keeps_its_lines(self):
        self.write("README.md", "# A", "```console", "$ true", "an `@end` and ```", "```", "text", "```cuda", "f();", "```")
        self.assertEqual(self.render("README.md").split("\n")[1:],
                         ['<div class="console">@code{.unparsed}', "$ true", "an `@end` and ```", "@endcode</div>", "text",
                          "```{.cpp}", "f();", "```", ""])

    def test_a_source_has_a_page_with_its_lines_and_a_way_back(self):
        self.write("solutions/02/README.md", "# The `ring`")
        page = site_source.page(pathlib.Path("solutions/02/ring.cu"), 'int a;  // < 1 "x"\n/* one\ntwo */ f("//");\n', self.root)
        self.assertIn('<a href="../../../index.html">Stagecraft</a> / <a href="../../../page_solutions_02.html">The ring</a>', page)
        self.assertIn('<span class="line" id="L1"><span class="keyword">int</span> a;  <span class="comment">// &lt; 1 &quot;x&quot;</span>\n</span>'
                      '<span class="line" id="L2"><span class="comment">/* one</span>\n</span>'
                      '<span class="line" id="L3"><span class="comment">two */</span> f(<span class="string">&quot;//&quot;</span>);\n</span>', page)

    def test_the_list_of_lessons_marks_the_page_itself(self):
        listed = [("Lessons", [("a.html", "A & B"), ("b.html", "C")])]
        self.assertIn('<li><a href="a.html">A &amp; B</a></li><li><a href="b.html" aria-current="page">C</a><div class="sections"><ul></ul></div></li>',
                      site_rail.rail(listed, "b.html", "<ul></ul>"))
        self.assertIn('<h2>On this page</h2><div class="sections"><ul></ul></div>', site_rail.rail(listed, "c.html", "<ul></ul>"))
        self.assertIn('<a href="../a.html">', site_rail.rail(listed, "c.html", top="../"))


class FigureTest(unittest.TestCase):
    # A row goes through stage 0 of two: announced, brought, waited for, and released.
    RING = {"barriers": [{"block": 0, "name": name} for name in ("full[0]", "empty[0]", "full[1]", "empty[1]")],
            "steps": [["init", 1, 0, 1, 0, 0, 0, 0, 1, 0], ["expect", 10, 0, 64, 0, 0, 0, 0, 1, 64], ["arrive", 10, 0, 1, 0, 0, 0, 0, 0, 64],
                      ["deliver", 20, 0, 64, -1, -1, 1, 0, 0, 0], ["end", 20, 0, 0, -1, -1, 1, 1, 1, 0],
                      ["pass", 30, 0, 0, 1, 0, 0, 1, 1, 0], ["end", 40, 1, 0, 1, 0, 0, 1, 1, 0]]}

    def test_a_stage_is_empty_filling_full_in_use_and_empty_again(self):
        states = [run_figures.Ring(self.RING, cycle).state(0) for cycle in (9, 10, 19, 20, 30, 40)]
        self.assertEqual(states, ["empty", "copying", "copying", "full", "read", "empty"])
        self.assertEqual(run_figures.Ring(self.RING, 40).state(1), "empty")
        self.assertEqual([run_figures.Ring(self.RING, cycle).rows() for cycle in (9, 10, 40)], [(0, 0), (1, 0), (1, 1)])

    def test_what_copies_fill_has_the_operand_of_their_line(self):
        code = ["stage.load_a(a, k);", "copy_tile(stage.tile().b, b, k);", "copy_tile(sfa, scales);", "copy_bulk(tile[0], in);"]
        operations = [{"place": number, "target": f"tiles+0x{number * 64:x}", "bytes": 64, "what": "cp.async.bulk"} for number in range(4)]
        run = {"places": [{"code": line} for line in code], "tracks": [{"unit": "TMA", "operations": operations}],
               "shared": {"variables": [{"name": "tiles", "offset": 1024, "bytes": 0}]}}
        self.assertEqual(run_figures.shared_parts(run),
                         [(1024, 64, "A"), (1088, 64, "B"), (1152, 64, "scale factors"), (1216, 64, "rows")])


    def test_tiles_of_two_warpgroups_end_where_the_other_begins(self):
        wait = {"what": "multiplied[1]", "begin": 0, "end": 12}
        warps = [{"warp": 4, "end": 70, "waits": []}, {"warp": 8, "end": 90, "waits": [wait]}]
        products = [{"number": number, "begin": begin, "end": begin + 8, "warp": warp}
                    for number, (begin, warp) in enumerate([(0, 0), (4, 0), (12, 1), (16, 1), (30, 0)])]
        picture = run_charts.draw_ping_pong({"cycles": 100, "warps": warps, "tracks": [{"unit": "tensor core", "operations": products}]})
        bars = re.findall(r'<rect class="(full|read|rest)" x="(\d+)[^"]*" y="(\d+)" width="([\d.]+)"', picture)
        pixels = run_charts.WIDTH / 100
        self.assertEqual([(look, round((int(x) - run_charts.LEFT) / pixels), round(float(width) / pixels)) for look, x, _, width in bars if width != "16"],
                         [("full", 0, 12), ("read", 12, 18), ("full", 30, 8), ("read", 38, 32),   # two tiles of the first
                          ("rest", 0, 12), ("full", 12, 12), ("read", 24, 66)])                   # the second waits for its turn

    def test_a_bar_has_words_only_where_they_have_room(self):
        chart = run_charts.Chart(100)
        chart.lane("a")
        chart.bar(0, 50, "full", "tile 0")
        chart.bar(50, 52, "full", "tile 1")
        self.assertEqual([re.findall(">([^<]+)<", part) for part in chart.parts], [["a"], [], ["tile 0"], []])


class NamesTest(unittest.TestCase):
    TAGS = """<tagfile>
      <compound kind="class"><name>stagecraft::Ring</name><filename>ring.html</filename>
        <member kind="function"><name>Ring</name></member><member kind="function"><name>wait</name></member></compound>
      <compound kind="class"><name>stagecraft::emulator::Machine</name><filename>machine.html</filename></compound>
      <compound kind="namespace"><name>stagecraft</name>
        <member kind="function"><name>copy</name><anchorfile>all.html</anchorfile><anchor>a1</anchor></member>
        <member kind="function"><name>copy</name><anchorfile>all.html</anchorfile><anchor>a2</anchor></member>
        <member kind="function"><name>wait</name><anchorfile>all.html</anchorfile><anchor>a3</anchor></member></compound></tagfile>"""
    KNOWN = {"Ring": "ring.html", "copy": "all.html#a1"}

    def test_names_are_those_of_the_library_that_have_one_meaning(self):
        self.assertEqual(site_names.known_names(*site_names.read(io.StringIO(self.TAGS))), self.KNOWN)

    def test_a_guess_in_the_text_is_removed_and_a_link_in_code_is_not(self):
        code = '<a class="code hl_function" href="namespacestagecraft.html#a1">copy</a>'
        page = f'<code><a class="el" href="namespacestagecraft.html#b7" title="t">copy()</a></code> <a class="el" href="ring_8hpp.html">ring.hpp</a> {code}'
        self.assertEqual(site_names.GUESS.sub(r"\1", page), f"<code>copy()</code> ring.hpp {code}")

    def test_the_first_use_of_a_name_leads_to_its_description(self):
        page, used = site_names.link_uses('<div class="contents"><h2><code>Ring</code></h2><p><code>Ring&lt;2&gt;</code>, <code>Ring</code>, '
                                          '<a href="x"><code>copy()</code></a> and <code>a copy</code></p>', self.KNOWN)
        self.assertEqual(used, {"Ring"})
        self.assertEqual(page.partition("</h2>")[2], '<p><a class="name" href="ring.html"><code>Ring&lt;2&gt;</code></a>, <code>Ring</code>, '
                         '<a href="x"><code>copy()</code></a> and <code>a copy</code></p>')

    def test_uses_are_counted_in_code_alone(self):
        text = "# A\ncopy a `Ring` of\n```cuda\nRing ring; copy(ring);\n```\n```console\n$ Ring\n```"
        self.assertEqual(site_names.uses_in_code(text, self.KNOWN), {"Ring": 2, "copy": 1})

    def test_the_lesson_that_teaches_a_name_is_first(self):
        self.assertEqual(site_names.sentence([("a.html", "01: A", 1), ("b.html", "02: B", 2), ("c.html", "03: C", 4)]),
                         '<p class="lessons">In the lessons: <a href="b.html">02: B</a>, also <a href="a.html">01</a>, <a href="c.html">03</a>.</p>\n')


class WorkflowTest(unittest.TestCase):
    def test_it_calls_commands_that_there_are_and_publishes_what_they_build(self):
        text = (TOOLS.parents[1] / ".github/workflows/site.yml").read_text(encoding="utf-8")
        usage = (TOOLS.parents[1] / "stagecraft").read_text(encoding="utf-8")
        commands = re.findall(r"run: \./stagecraft (\w+)$", text, re.MULTILINE)
        self.assertEqual(commands, ["playground", "docs"])
        for command in commands:
            self.assertRegex(usage, rf"(?m)^  {command} ")
        # The container has no ninja but the one that ./stagecraft fetches, which `meson compile` does not find outside of PATH.
        self.assertNotIn("meson compile", text)
        self.assertIn("venv=$tools/python\n", usage)
        self.assertIn("run: build/tools/python/bin/ninja -C build ", text)
        jobs = re.findall(r"(?m)^  (\w+):\n    (?:needs|runs-on):", text)
        self.assertEqual(re.findall(r"(?m)^    needs: (\w+)$", text), jobs[:1])
        steps = re.findall(r"(?m)^      - (?:id: \w+\n        )?(run|uses): (.+)$", text)
        self.assertEqual(len(steps), text.count("      - "))
        for kind, what in steps:
            self.assertTrue(kind == "run" or re.fullmatch(r"[\w/-]+@v\d+", what), what)
        # What actions/deploy-pages asks for: its README, "Usage".
        for needed in ("pages: write", "id-token: write", "name: github-pages"):
            self.assertIn(needed, text)
        published = re.search(r"path: (\S+)", text)[1]
        self.assertIn(f"`{published}/index.html`", (TOOLS.parents[1] / "docs/README.md").read_text(encoding="utf-8"))


class GlossaryTest(unittest.TestCase):
    def test_a_table_becomes_a_list_and_all_words_are_in_order(self):
        table = ('<table class="markdownTable"><tr><th>here   </th><th>the idea </th><th>CUTLASS</th></tr>\n'
                 '<tr><td class="x"><em>ring</em> (<code>Ring</code>) </td><td>stages</td><td><code>Pipe</code> </td></tr>\n'
                 '<tr><td><code>Arm</code></td><td>begin</td><td> </td></tr></table>')
        other = '<table class="markdownTable"><tr><th>a</th></tr><tr><td>b</td></tr></table>'
        self.assertEqual(site_glossary.rewrite("<h1>Words</h1>" + table + other),
                         '<p class="words"><a href="#term-Arm">Arm</a>, <a href="#term-ring">ring</a></p>\n<h1>Words</h1><dl class="glossary">'
                         '<dt><a id="term-ring" name="term-ring"></a><em>ring</em> (<code>Ring</code>)</dt><dd>stages<div><b>CUTLASS</b>: '
                         '<code>Pipe</code></div></dd>\n<dt><a id="term-Arm" name="term-Arm"></a><code>Arm</code></dt><dd>begin</dd>\n</dl>\n' + other)

    GLOSSARY = "\n".join(["| here | the idea | X |", "|---|---|---|", "| *ring* (elsewhere *slot*) | stages, with `full[s]` | |",
                          "| *pair*, *leader* | two blocks; the even one | |", "| *slice* | a part | |", "| *slice* | another | |", "",
                          "| here | role | the idea |", "|---|---|---|", "| *acquire* | producer | wait |"])

    def explain(self, body: str) -> str:
        page = site_glossary.explain(f'<title>ring</title><div class="contents">{body}</div>', site_glossary.definitions(self.GLOSSARY))
        return re.sub(r'<span class="term"[^>]*>(.*?)<span class="definition"[^>]*>(.*?) <a .*?</span></span>', r"[\1|\2]",
                                    page.partition("<title>ring</title>")[2])

    def test_a_term_is_in_italics_in_the_first_column_and_has_one_definition(self):
        self.assertEqual(site_glossary.definitions(self.GLOSSARY), {
            "ring": "**ring**: stages, with `full[s]`", "pair": "**pair, leader**: two blocks; the even one",
            "leader": "**pair, leader**: two blocks; the even one"})

    def test_the_first_use_of_a_term_gets_its_definition(self):
        self.assertEqual(self.explain("<p>Rings, a ring and a string.</p>"),
                         '<div class="contents"><p>[Rings|<b>ring</b>: stages, with <code>full[s]</code>], a ring and a string.</p></div>')

    def test_code_links_and_headings_are_left_alone(self):
        for body in ("<h2>A ring</h2>", "<code>ring</code>", '<a href="x">a ring</a>', '<div class="fragment"><div>ring</div> ring</div>'):
            self.assertEqual(self.explain(body), f'<div class="contents">{body}</div>')
        self.assertIn("[ring|", self.explain('<div class="fragment"><div>ring</div></div> a ring'))

    def test_a_word_of_everyday_is_a_term_in_italics_only(self):
        self.assertEqual(self.explain("<p>a pair of rows</p>"), '<div class="contents"><p>a pair of rows</p></div>')
        self.assertIn("<em>[pair|", self.explain("<p>a pair, a <em>pair</em></p>"))


if __name__ == "__main__":
    unittest.main()
