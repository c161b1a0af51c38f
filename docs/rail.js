// The list of pages beside a page: always open where the window is wide, and behind a button where it is narrow. Marks the section
// that is being read.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const rail = document.querySelector(".rail"), wide = window.matchMedia("(min-width: 768px)");
  const toCurrent = () => rail.querySelector("[aria-current]")?.scrollIntoView({block: "nearest"});
  const fit = () => { rail.open = wide.matches; };
  wide.addEventListener("change", fit);
  fit();
  toCurrent();
  rail.addEventListener("toggle", () => { if (rail.open) toCurrent(); });
  rail.addEventListener("click", event => { if (event.target.closest("a")) fit(); });

  const links = [...rail.querySelectorAll(".sections a")], heading = link => document.getElementById(link.hash.slice(1));
  const mark = () => {
    const read = links.filter(link => heading(link)?.getBoundingClientRect().top < 100).at(-1);
    links.forEach(link => link.classList.toggle("active", link === read));
  };
  document.addEventListener("scroll", mark, {passive: true});
  mark();
});
