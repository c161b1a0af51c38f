// The page "Search the words": finds sections that have all the words asked for, or words that begin with them, and orders them. The
// list `sections` is in words.js, which common/tools/site_search.py makes. Works from a file, without a server.
"use strict";

/** What a section is worth before its words are looked at: lessons teach, up to their exercise; the gallery shows mistakes. */
const WORTH = {lesson: 2, name: 1, reference: 1, exercise: 0.5, report: 0, gallery: 0, other: 0};

const wordsOf = text => text.toLowerCase().match(/[\p{L}\p{N}_]+(?:(?:\.|::)[\p{L}\p{N}_]+)*/gu) ?? [];
/** The words and their parts: "tcgen05.ld" has two. */
const piecesOf = text => wordsOf(text).flatMap(word => /[.:]/.test(word) ? [word, ...word.split(/[.:]+/)] : [word]);
const begins = (text, word) => (" " + text).includes(" " + word);
const isOneOf = (word, asked) => word === asked || word === asked + "s";

/** How far a heading is about a word: 1 if it has the word, or one in the plural; less if it has one that begins with it. */
function inHeading(heading, asked) {
  return heading.some(word => isOneOf(word, asked)) ? 1 : heading.some(word => word.startsWith(asked)) ? 0.5 : 0;
}

/** How often the prose of a section has a word. */
function countOf(section, asked) {
  section.counts ??= new Map(section.words.split(" ").map(word => word.split("=")).map(([word, count]) => [word, Number(count ?? 1)]));
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
  return sum / asked.length + (isTerm ? 3 : 0) + (name === question ? 3 : 0) + WORTH[section.kind];
}

/** The sections with every word of the question, the best answers first. */
function findSections(sections, question) {
  const asked = wordsOf(question);
  if (asked.length === 0) return [];
  const plain = question.trim().toLowerCase().replace(/\s+/g, " ").replace(/\(\)$/, "").replace(/-/g, " ");
  return sections.map((section, place) => ({section, place}))
    .filter(({section}) => asked.every(word => begins(piecesOf(section.heading).join(" ") + " " + section.words, word)))
    .map(entry => ({...entry, score: score(entry.section, plain, asked)}))
    .sort((a, b) => b.score - a.score || a.place - b.place).map(entry => entry.section);
}

function showSections(sections, question, list, count) {
  const found = findSections(sections, question);
  list.replaceChildren(...found.map(section => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = section.address;
    link.textContent = section.heading;
    item.append(link, " (" + section.page + ")");
    return item;
  }));
  count.textContent = question.trim() === "" ? "" : found.length === 1 ? "1 section" : found.length + " sections";
}

window.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("words"), list = document.getElementById("found"), count = document.getElementById("count");
  if (!field) return;
  const show = () => showSections(sections, field.value, list, count);
  field.addEventListener("input", show);
  field.value = new URLSearchParams(window.location.search).get("words") ?? "";
  field.focus();
  show();
});
