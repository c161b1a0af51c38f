// The theme of a source's page: the switch of the site keeps its state under these names, also for files of another folder.
"use strict";

(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const other = localStorage.getItem(system.matches ? "prefers-light-mode-in-dark-mode" : "prefers-dark-mode-in-light-mode");
    document.documentElement.className = system.matches !== Boolean(other) ? "dark-mode" : "light-mode";
  };
  show();
  system.addEventListener("change", show);
})();
