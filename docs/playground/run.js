// One run of one kernel, in a Web Worker of the page or in Node for the tests. Nothing of it is left for the next run: the
// caller gives a compiled module, and each run makes an instance of its own.
"use strict";

/**
 * Runs a kernel on the emulated GPU.
 * @param create  createPlayground of playground.js
 * @param module  the WebAssembly.Module of playground.wasm
 * @param run     {kernel, ptx, source, settings, seed, checks, timeline}: ptx is the text of the kernel's PTX and source that
 *                of its CUDA source, settings maps names to numbers (settings.hpp), checks is a value of `run --checks`,
 *                timeline the ending of a file of `run --timeline` (txt, html)
 * @returns {status, output, report, timeline}: status 0 when all results are right, texts for the rest
 */
async function runKernel(create, module, run) {
  const output = [], report = [];
  let status = null;
  const timeline = "/timeline." + (run.timeline ?? "txt");
  const environment = {
    STAGECRAFT_SEED: String(run.seed ?? 0), STAGECRAFT_CHECKS: run.checks ?? "race", STAGECRAFT_FINDINGS: "report",
    STAGECRAFT_TIMELINE: timeline, STAGECRAFT_THREADS: "1", STAGECRAFT_PROGRESS: "none",
  };
  const instance = await create({
    instantiateWasm(imports, ready) {
      WebAssembly.instantiate(module, imports).then(made => ready(made, module));
      return {};
    },
    preRun: [prepared => Object.assign(prepared.ENV, environment)],
    print: line => output.push(line),
    printErr: line => { if (!line.startsWith("warning: unsupported syscall")) report.push(line); },
    onExit: code => { status = code; },
    quit: (code, exit) => { throw exit; },   // Node would end here, with the tests
  });
  const file = run.kernel + ".ptx";
  instance.FS.writeFile(file, run.ptx);
  instance.FS.mkdirTree("/docs/playground");   // where the PTX says that its source is; the timeline reads the roles there
  instance.FS.writeFile(`/docs/playground/${run.kernel}.cu`, run.source);
  const words = Object.entries(run.settings).map(([name, value]) => name + "=" + value);
  try {
    const returned = instance.callMain([run.kernel, file, ...words]);
    status ??= returned;
  } catch (error) {
    if (status === null) {   // the emulated GPU itself failed
      status = 2;
      report.push("The emulated GPU stopped: " + error);
    }
  }
  let drawn = "";
  try {
    drawn = instance.FS.readFile(timeline, {encoding: "utf8"});
  } catch (error) {
    // no launch, so no timeline
  }
  return {status, output: output.join("\n"), report: report.join("\n"), timeline: drawn};
}

if (typeof module !== "undefined") module.exports = {runKernel};
