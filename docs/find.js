// The search box at the top finds names while one types; Enter leads to the page that finds words as well. Doxygen makes the box
// after the page is loaded.
"use strict";

document.addEventListener("keydown", event => {
  if (event.target.id !== "MSearchField" || event.key !== "Enter" || event.target.value.trim() === "") return;
  event.preventDefault();
  event.stopImmediatePropagation();
  window.location.href = "page_search.html?words=" + encodeURIComponent(event.target.value);
}, true);
document.addEventListener("focusin", event => {
  if (event.target.id === "MSearchField") event.target.placeholder = "a name; Enter: words";
});
