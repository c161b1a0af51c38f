// Runs every question of the playground in Node, and prints for each what the page would get, one JSON object per line.
// run_questions.js FOLDER   the folder of the built page
"use strict";
const fs = require("fs"), path = require("path");

const folder = path.resolve(process.argv[2]);
const {kernels} = require(path.join(folder, "kernels.js"));
const {runKernel} = require(path.join(folder, "run.js"));
const create = require(path.join(folder, "playground.js"));
const read = name => fs.readFileSync(path.join(folder, name), "utf8");

(async () => {
  process.setMaxListeners(0);   // each instance listens for the end of the process
  const module = await WebAssembly.compile(fs.readFileSync(path.join(folder, "playground.wasm")));
  for (const [kernel, description] of Object.entries(kernels)) {
    const files = {ptx: read(kernel + ".ptx"), source: read(description.source)};
    const run = (settings, more) => runKernel(create, module, {kernel, ...files, settings, ...more});
    const defaults = Object.fromEntries(description.controls.map(control => [control.name, control.value]));
    for (const question of description.questions) {
      const result = await run({...defaults, ...question.settings}, {timeline: "html"});
      console.log(JSON.stringify({kernel, name: question.name, outcome: question.outcome, result}));
    }
    console.log(JSON.stringify({kernel, name: "a setting that is not known", result: await run({stage: 1})}));
    console.log(JSON.stringify({kernel, name: "the defaults of the kernel", result: await run({})}));
    console.log(JSON.stringify({kernel, name: "the text", result: await run(defaults, {timeline: "txt"})}));
  }
})();
