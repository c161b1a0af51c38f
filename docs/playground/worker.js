// Runs one kernel away from the page's own thread, so that the page stays alive and can stop it. One worker, one run.
"use strict";
importScripts("playground.js", "run.js");

onmessage = async message => {
  const started = performance.now();
  try {
    const result = await runKernel(createPlayground, message.data.module, message.data.run);
    postMessage({...result, milliseconds: performance.now() - started});
  } catch (error) {
    postMessage({status: 2, output: "", report: "The run could not start: " + error, timeline: "", milliseconds: 0});
  }
};
