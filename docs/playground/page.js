// The page: controls in, a run in a worker, texts out. What there is to show is in kernels.js.
"use strict";

const SECONDS = 30;   // a run that takes longer is stopped
const at = id => document.getElementById(id);

/** Makes an element with properties and children. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// ---- The theme: the site keeps its switch under the same names ---------------------------------------------------------

const systemIsDark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
const switchName = () => systemIsDark() ? "prefers-light-mode-in-dark-mode" : "prefers-dark-mode-in-light-mode";

function showTheme() {
  const dark = systemIsDark() !== Boolean(localStorage.getItem(switchName()));
  document.documentElement.className = dark ? "dark-mode" : "light-mode";
  tellTheme();
}

function switchTheme() {
  if (localStorage.getItem(switchName())) localStorage.removeItem(switchName());
  else localStorage.setItem(switchName(), "true");
  showTheme();
}

// ---- What there is to choose -------------------------------------------------------------------------------------------

let kernelName = "", source = null, asked = null, worker = null, timer = 0;

/** The checks that a run may have, as `run --checks` names them. */
const CHECKS = ["race", "all", "deadlock", "none"];

const SEED = "0";   // that of the answers

/** How a run is drawn: the ending of the timeline's file. */
const TIMELINES = {html: "lanes to step through", txt: "lines of text"};

function select(id, label, names) {
  const options = Object.entries(names).map(([value, textContent]) => element("option", {value, textContent}));
  return element("label", {htmlFor: id}, element("span", {textContent: label}), element("select", {id}, ...options));
}

function field(control) {
  const id = "setting-" + control.name;
  let input;
  if (control.names) {
    input = element("select", {id, name: control.name});
    control.names.forEach((name, value) => input.append(element("option", {value: String(value), textContent: name})));
  } else {
    input = element("input", {id, name: control.name, type: "number", min: control.least, max: control.most, required: true});
  }
  input.value = String(control.value);
  input.addEventListener("input", () => { markChanges(); });
  return element("label", {htmlFor: id}, element("span", {textContent: control.label}), input);
}

/** Marks the settings that differ from a right kernel. */
function markChanges() {
  for (const control of kernels[kernelName].controls) {
    const input = at("setting-" + control.name);
    input.parentElement.classList.toggle("changed", input.value !== String(control.value));
  }
}

function setControls(settings) {
  for (const control of kernels[kernelName].controls) {
    at("setting-" + control.name).value = String(settings[control.name] ?? control.value);
  }
  markChanges();
}

/** Shows a question and its settings; the seed and the checks are those that its answer is about. */
function ask(question) {
  stop();
  asked = question;
  setControls(question.settings);
  at("seed").value = SEED;
  at("checks").value = CHECKS[0];
  at("question").textContent = question.question;
  for (const button of at("questions").children) button.setAttribute("aria-pressed", String(button.textContent === question.name));
  at("results").hidden = at("drawn").hidden = true;
}

/** Gets a file of the page, or fails with what the server answered. */
async function fetched(file) {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error(`${file} cannot be loaded: the server answers ${answer.status}`);
  return answer;
}

/** Shows the source of a kernel, unless another one was chosen meanwhile. */
async function showSource(name) {
  const file = kernels[name].source, text = await (await fetched(file)).text();
  if (kernelName !== name) return;
  source = text;
  at("source-title").textContent = "The kernel, " + file;
  const lines = text.replace(/\n$/, "").split("\n");
  at("source").replaceChildren(...lines.map((line, i) => element("span", {className: "line", id: `line-${i + 1}`}, line + "\n")));
}

/** Shows a kernel; a name that is not known stands for the first. Returns its name. */
async function choose(wanted) {
  const name = kernels[wanted] ? wanted : Object.keys(kernels)[0];
  const kernel = kernels[name];
  stop();
  kernelName = name;
  source = null;
  for (const tab of at("tabs").children) tab.setAttribute("aria-pressed", String(tab.dataset.kernel === kernelName));
  at("kernel-title").textContent = kernel.title;
  at("what").replaceChildren(kernel.what + " It is taught in ");
  const link = document.querySelector("header .site a");
  at("what").append(...kernel.chapters.flatMap(({name, page}, place) =>
    [place ? " and " : "", link ? element("a", {href: "../" + page, textContent: name}) : name]), ".");
  at("questions").replaceChildren(...kernel.questions.map(question =>
    element("button", {type: "button", textContent: question.name, onclick: () => ask(question)})));
  at("fields").replaceChildren(...kernel.controls.map(field),
    element("label", {htmlFor: "seed"}, element("span", {textContent: "seed: another legal order of the warps"}),
      element("input", {id: "seed", type: "number", min: 0, max: 1000000, value: SEED, required: true})),
    select("checks", "checks", Object.fromEntries(CHECKS.map(value => [value, value]))), select("form", "timeline", TIMELINES));
  ask(kernel.questions[0]);
  await showSource(name);
  return name;
}

// ---- A run -------------------------------------------------------------------------------------------------------------

let compiled = null;   // the WebAssembly.Module, made once

function compile() {
  compiled ??= fetched("playground.wasm").then(answer => answer.arrayBuffer()).then(bytes => WebAssembly.compile(bytes)).catch(error => {
    compiled = null;   // the next run tries again
    throw error;
  });
  return compiled;
}

function stop() {
  worker?.terminate();
  worker = null;
  clearTimeout(timer);
  at("state").textContent = "";
  at("run").textContent = "Run";
}

async function run() {
  stop();
  if (source === null) return;   // still being loaded
  const kernel = kernels[kernelName], question = asked;
  const settings = Object.fromEntries(kernel.controls.map(control => [control.name, Number(at("setting-" + control.name).value)]));
  const isAsked = at("seed").value === SEED && at("checks").value === CHECKS[0] &&
    kernel.controls.every(control => settings[control.name] === (question.settings[control.name] ?? control.value));
  const mine = worker = new Worker("worker.js");   // a new one for each run: nothing of the last is left
  at("run").textContent = "Stop";
  at("state").textContent = "running ...";
  try {
    const [module, ptx] = await Promise.all([compile(), fetched(kernelName + ".ptx").then(answer => answer.text())]);
    if (worker !== mine) return;
    const result = await new Promise((resolve, reject) => {
      mine.onmessage = message => resolve(message.data);
      mine.onerror = error => reject(new Error(error.message));
      timer = setTimeout(() => reject(new Error(`stopped after ${SECONDS} seconds`)), SECONDS * 1000);
      const run = {kernel: kernelName, ptx, source, settings, seed: at("seed").value, checks: at("checks").value, timeline: at("form").value};
      mine.postMessage({module, run});
    });
    stop();
    show(result, isAsked ? question : null);
  } catch (error) {
    if (worker !== mine) return;
    stop();
    at("state").textContent = String(error.message ?? error);
  }
}

// ---- What a run said ---------------------------------------------------------------------------------------------------

/** What the reports of a run are about: "race", "deadlock" and so on, in their order. */
function reportKinds(report) {
  return [...report.matchAll(/^stagecraft: (.+?) in kernel /gm)].map(match => match[1]);
}

/** Replaces each place in the shown file by a link to its line. */
function linked(text, file) {
  const pieces = text.split(new RegExp(`(\\b${file.replace(".", "\\.")}:\\d+)`));
  return pieces.map((piece, i) => {
    if (i % 2 === 0) return piece;
    const number = piece.split(":")[1], link = element("a", {href: "#line-" + number, textContent: piece});
    link.addEventListener("click", event => {
      event.preventDefault();
      const line = at("line-" + number);
      document.querySelectorAll("#source .chosen").forEach(old => old.classList.remove("chosen"));
      line.classList.add("chosen");
      line.scrollIntoView({block: "center", behavior: "smooth"});
      at("source").focus({preventScroll: true});
    });
    return link;
  });
}

/** Marks the lines that a report names, and shows the first that its likely cause names; if that names none, the first of all. */
function markLines(report, file) {
  document.querySelectorAll("#source .line").forEach(line => { line.className = "line"; });
  const named = text => [...text.matchAll(new RegExp(`\\b${file.replace(".", "\\.")}:(\\d+)`, "g"))].map(match => at("line-" + match[1])).filter(Boolean);
  const all = named(report);
  all.forEach(line => line.classList.add("named"));
  const first = named(report.match(/^  likely cause: .*/m)?.[0] ?? "")[0] ?? all[0];
  if (first) at("source").scrollTop = first.offsetTop - 60;   // not scrollIntoView: the page stays where it is
}

/** A timeline is a page of its own, which goes into a frame, or text. */
function showTimeline(timeline, file) {
  const isPage = timeline.startsWith("<!DOCTYPE");
  at("drawn").hidden = timeline === "";
  at("timeline").hidden = isPage;
  at("frame").hidden = !isPage;
  at("timeline").replaceChildren(...(isPage ? [] : linked(timeline, file)));
  at("frame").srcdoc = isPage ? timeline : "";
}

/** The frame does not see the switch of the page around it. */
function tellTheme() {
  const frame = at("frame").contentDocument?.documentElement;
  if (frame) frame.dataset.theme = document.documentElement.className.replace("-mode", "");
}

/** What came of a run, in a few words. */
function verdict({status, report}, kinds) {
  if (kinds.length > 0) return (status === 0 ? "The results are right, and yet: " : "Found: ") + kinds.join(", ");
  if (report === "") return status === 0 ? "Right, and nothing to report" : "Wrong, and nothing was reported";
  return status === 2 ? "The run failed" : "The program stopped; see the report";
}

function show(result, question) {
  const file = kernels[kernelName].source;
  const kinds = reportKinds(result.report);
  at("verdict").textContent = verdict(result, kinds);
  at("verdict").className = result.status === 0 && result.report === "" ? "right" : "wrong";
  at("answer").hidden = question === null;
  at("answer").open = false;
  at("answer").querySelector("p").textContent = question?.answer ?? "";
  at("output").textContent = result.output;
  at("reported").hidden = result.report === "";
  at("report").replaceChildren(...linked(result.report, file));
  showTimeline(result.timeline, file);
  at("state").textContent = `${Math.round(result.milliseconds)} ms`;
  markLines(result.report, file);
  at("results").hidden = false;
}

// ---- Beginning ---------------------------------------------------------------------------------------------------------

showTheme();
at("theme").addEventListener("click", switchTheme);
at("frame").addEventListener("load", tellTheme);
window.addEventListener("message", message => {   // the viewer says how high it is
  if (message.source === at("frame").contentWindow && message.data.timelineHeight) at("frame").style.height = `${message.data.timelineHeight + 2}px`;
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
at("limit").textContent = String(SECONDS);
at("tabs").append(...Object.entries(kernels).map(([name, kernel]) => {
  const tab = element("button", {type: "button", textContent: kernel.title, onclick: () => { location.hash = name; }});
  tab.dataset.kernel = name;
  return tab;
}));
at("controls").addEventListener("submit", event => {
  event.preventDefault();
  if (worker) stop();
  else run().then(() => at("verdict").scrollIntoView({block: "nearest"}));
});
at("reset").addEventListener("click", () => ask(kernels[kernelName].questions[0]));

/** Opens what the address asks for: #ring shows a kernel, #ring/3 also runs the question of that number. */
async function open() {
  const [wanted, number] = location.hash.slice(1).split("/");
  try {
    const name = await choose(wanted);
    const question = number && kernels[name].questions[Number(number)];
    if (!question || kernelName !== name) return;
    ask(question);
    await run();
  } catch (error) {
    at("state").textContent = String(error.message ?? error);
  }
}

if (location.protocol === "file:") {
  at("controls").replaceChildren(element("p", {className: "wrong"}, "A browser loads WebAssembly from a server only. Show this page with ",
    element("code", {textContent: "./stagecraft playground --serve"}), "."));
} else {
  window.addEventListener("hashchange", open);
  open();
}
