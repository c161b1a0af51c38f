// The search: the best answers below the box while one types, and all of them on the page "Search". The list `sections` is in
// words.js, which common/tools/site_search.py makes. Works from a file, without a server.
"use strict";

/** What a section is worth before its words are looked at: lessons teach, up to their exercise; the gallery shows mistakes. */
const WORTH = {lesson: 2, name: 1, reference: 1, exercise: 0.5, member: 0.5, report: 0, gallery: 0, other: 0};
/** Words of a question on which no answer depends. */
const FILLERS = new Set(("a an and are as at be by can do does for from how i in is it my not of on or so that the then there this to what "
  + "when where which why will with you your").split(" "));
const SUGGESTED = 8, CLOSEST = 20;
const NOTHING = "Nothing has this. Try one word, or the beginning of one. The <a href='page_docs_glossary.html'>glossary</a> has the words of "
  + "other libraries; the <a href='page_chapters.html'>lessons</a> are listed in their order.";

const wordsOf = text => text.toLowerCase().match(/[\p{L}\p{N}_]+(?:(?:\.|::)[\p{L}\p{N}_]+)*/gu) ?? [];
/** The words and their parts: "tcgen05.ld" has two. */
const piecesOf = text => wordsOf(text).flatMap(word => /[.:]/.test(word) ? [word, ...word.split(/[.:]+/)] : [word]);
const escaped = word => word.replaceAll(".", "\\.");
const isOneOf = (word, asked) => word === asked || word === asked + "s";

/** The words of a question that must be found. */
function askedBy(question) {
  const words = wordsOf(question), telling = words.filter(word => !FILLERS.has(word));
  return telling.length ? telling : words;
}

/** Whether a word of a section begins with what is asked for; in names, a part is enough. */
function has(section, asked, anywhere) {
  section.all ??= [section.heading, section.text, section.code].join("\n").toLowerCase();
  return section.all.includes(asked)
    && (anywhere || section.kind === "member" || new RegExp("(?<![\\p{L}\\p{N}])" + escaped(asked), "u").test(section.all));
}

/** How far a heading is about a word: 1 if it has the word, or one in the plural; less if it has one that begins with it. */
function inHeading(heading, asked) {
  return heading.some(word => isOneOf(word, asked)) ? 1 : heading.some(word => word.startsWith(asked)) ? 0.5 : 0;
}

/** How often the prose of a section has a word. */
function countOf(section, asked) {
  if (!section.counts) {
    section.counts = new Map();
    for (const word of piecesOf(section.text)) section.counts.set(word, (section.counts.get(word) ?? 0) + 1);
  }
  return (section.counts.get(asked) ?? 0) + (section.counts.get(asked + "s") ?? 0);
}

/** How well a section answers a question. A section that explains the term asked for has it in italics. */
function score(section, question, asked) {
  section.pieces ??= {heading: piecesOf(section.heading), page: piecesOf(section.page)};
  const teaches = section.kind === "lesson" || section.kind === "exercise";
  let sum = 0;
  for (const word of asked) {
    const often = countOf(section, word);
    sum += (teaches || section.kind === "name" ? 3 : 2) * inHeading(section.pieces.heading, word) + 3 * often / (often + 3);
    if (teaches) sum += 1.5 * inHeading(section.pieces.page, word);
  }
  // The page of a report is named "deadlock: nothing that is left can end a wait".
  const name = (section.kind === "report" ? section.heading.split(":")[0].replace(/-/g, " ") : section.heading).toLowerCase();
  const isTerm = section.terms.split("|").some(term => isOneOf(term, question));
  return sum / asked.length + (isTerm ? 3.5 : 0) + (name === question ? 4 : 0) + WORTH[section.kind];
}

/** The sections with every word of the question, the best answers first; where there are none, those with most of its words. */
function findSections(sections, question) {
  const asked = askedBy(question);
  if (asked.length === 0) return [];
  const plain = question.trim().toLowerCase().replace(/\s+/g, " ").replace(/\(\)$/, "").replace(/-/g, " ");
  const counted = anywhere => sections.map((section, place) => ({section, place, holds: asked.filter(word => has(section, word, anywhere)).length}));
  const whole = entry => entry.holds === asked.length;
  let found = counted(false).filter(whole);
  if (!found.length) found = counted(true).filter(entry => entry.holds > 0);
  if (found.some(whole)) found = found.filter(whole);
  const sorted = found.map(entry => ({...entry, score: score(entry.section, plain, asked)}))
    .sort((a, b) => b.holds - a.holds || b.score - a.score || a.place - b.place).map(entry => entry.section);
  return found.every(whole) ? sorted : sorted.slice(0, CLOSEST);
}

/** Text with the words asked for marked. */
function marked(text, asked) {
  const pieces = text.split(new RegExp("(" + asked.map(escaped).join("|") + ")", "i"));
  return pieces.map((piece, place) => {
    if (place % 2 === 0) return piece;
    const mark = document.createElement("mark");
    mark.textContent = piece;
    return mark;
  });
}

/** The sentence of a section that has most of the words asked for; of a long one, what is around the first of them. */
function excerpt(section, asked) {
  const holds = text => asked.filter(word => text.toLowerCase().includes(word)).length;
  const sentences = (section.text + "\n" + section.code).split(/(?<=[.?!]) +|\n/);
  const best = sentences.reduce((best, sentence) => holds(sentence) > holds(best) ? sentence : best);
  const first = Math.min(...asked.map(word => best.toLowerCase().indexOf(word)).filter(place => place >= 0), best.length);
  const begin = best.length > 240 ? Math.max(0, best.lastIndexOf(" ", first - 90)) : 0, end = best.length > begin + 240 ? best.indexOf(" ", begin + 220) : -1;
  return (begin > 0 ? "..." : "") + (end < 0 ? best.slice(begin) : best.slice(begin, end) + " ...");
}

function item(section, asked, top, withExcerpt) {
  const entry = document.createElement("li"), link = document.createElement("a"), where = document.createElement("small");
  link.href = top + section.address;
  link.append(...marked(section.heading, asked));
  where.textContent = section.page === section.heading ? "" : section.page;
  entry.append(link, " ", where);
  if (withExcerpt) {
    const sentence = document.createElement("p");
    sentence.append(...marked(excerpt(section, asked), asked));
    entry.append(sentence);
  }
  return entry;
}

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("MSearchBox"), field = document.getElementById("MSearchField");
  const top = form.getAttribute("action").replace("page_search.html", ""), list = document.getElementById("found"), count = document.getElementById("count");
  const suggestions = document.createElement("ol");
  suggestions.id = "suggestions";
  suggestions.hidden = true;
  form.parentNode.append(suggestions);

  let loaded;
  const load = () => loaded ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    Object.assign(script, {src: top + "words.js", onload: done, onerror: fail});
    document.head.append(script);
  });
  const show = async () => {
    await load();
    const asked = askedBy(field.value), found = findSections(sections, field.value);
    const whole = found.length > 0 && asked.every(word => has(found[0], word, true));
    (list ?? suggestions).replaceChildren(...(list ? found : found.slice(0, SUGGESTED)).map(section => item(section, asked, top, list)));
    suggestions.hidden = Boolean(list) || found.length === 0;
    if (!list) return;
    if (asked.length === 0) count.textContent = "";
    else if (found.length === 0) count.innerHTML = NOTHING;
    else count.textContent = !whole ? "No section has all of these words. The closest:" : found.length === 1 ? "1 section" : found.length + " sections";
  };
  field.addEventListener("focus", load);
  field.addEventListener("input", show);
  form.parentNode.addEventListener("focusout", event => { if (!form.parentNode.contains(event.relatedTarget)) suggestions.hidden = true; });
  form.parentNode.addEventListener("keydown", event => { if (event.key === "Escape") suggestions.hidden = true; });
  if (list) {
    field.value = new URLSearchParams(window.location.search).get("words") ?? "";
    field.focus();
    show();
  }
});
