// Tells the timelines inside of a page which theme it has: a frame does not see the switch of the page around it. They tell how high
// they are.
"use strict";

(() => {
  if (window.tellsTimelines) return;   // the page includes this file once for each timeline
  window.tellsTimelines = true;
  const theme = () => document.documentElement.classList.contains("dark-mode") ? "dark"
    : document.documentElement.classList.contains("light-mode") ? "light" : "";
  const tell = frame => frame.contentWindow.postMessage({theme: theme()}, "*");
  window.addEventListener("DOMContentLoaded", () => {
    const frames = [...document.querySelectorAll(".timeline iframe")];
    for (const frame of frames) frame.addEventListener("load", () => tell(frame));
    new MutationObserver(() => frames.forEach(tell)).observe(document.documentElement, {attributeFilter: ["class"]});
    window.addEventListener("message", message => {
      const frame = frames.find(frame => frame.contentWindow === message.source);
      if (frame && message.data.timelineHeight > 0) frame.style.height = `${message.data.timelineHeight + 2}px`;
    });
    frames.forEach(tell);   // those that are there already
  });
})();
