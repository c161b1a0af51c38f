// Keeps the definition of a word inside of the window, and hides it when Escape is pressed. Without this file it still shows.
"use strict";

(() => {
  const margin = 8;
  function place(term) {
    const definition = term.querySelector(".definition");
    definition.style.transform = "";
    const box = definition.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const over = Math.max(0, box.right - (width - margin)), under = Math.max(0, margin - (box.left - over));
    if (getComputedStyle(definition).position === "fixed") return;   // a narrow window: it is at the bottom
    if (over !== 0 || under !== 0) definition.style.transform = `translateX(${under - over}px)`;
  }
  window.addEventListener("DOMContentLoaded", () => {
    for (const term of document.querySelectorAll(".term")) {
      for (const event of ["mouseenter", "focusin"]) {
        term.addEventListener(event, () => { term.classList.remove("closed"); place(term); });
      }
    }
    document.addEventListener("keydown", event => {
      if (event.key === "Escape") document.querySelectorAll(".term").forEach(term => term.classList.add("closed"));
    });
  });
})();
