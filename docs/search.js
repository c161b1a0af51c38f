// The page "Search the words": finds sections that have all the words asked for, or words that begin with them. The list
// `sections` is in words.js, which common/tools/build_site.py makes. Works from a file, without a server.
"use strict";

/** The sections with every word of the question, those with the words in their heading first. */
function findSections(sections, question) {
  const words = question.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  if (words.length === 0) return [];
  const begins = (text, word) => (" " + text).includes(" " + word);
  const found = sections.filter(section => words.every(word => begins(section.heading.toLowerCase() + " " + section.words, word)));
  const rank = section => words.every(word => begins(section.heading.toLowerCase(), word)) ? 0 : 1;
  return found.map((section, place) => ({section, place})).sort((a, b) => rank(a.section) - rank(b.section) || a.place - b.place)
    .map(entry => entry.section);
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
