// What the page shows about each kernel: its controls, and the questions to try. The names and the default values of the
// controls are those of settings.hpp; host.cpp refuses what is not legal. The tests run every question and compare
// `outcome` with what the emulated GPU says: the kinds of its reports, and of those that it says follow from one.
"use strict";

/** The names of 0 and 1 in a control that is a question. */
const noYes = ["no", "yes"];

const kernels = {
  barrier: {
    title: "One barrier, again and again",
    chapters: [{name: "chapter 01", page: "page_chapters_01_mbarrier_phases.html"}],
    source: "barrier.cu",
    what: "In each round, 32 lanes of warp 0 write a table, and warp 1 reads it backwards. One mbarrier tells warp 1 when.",
    controls: [
      {name: "rounds", label: "rounds", value: 4, least: 1, most: 64},
      {name: "count", label: "arrivals that end a phase", value: 32, least: 1, most: 128},
      {name: "arrives", label: "who arrives", value: 0, names: ["all lanes", "lane 0", "lane 0, after __syncwarp()", "nobody"]},
      {name: "parity", label: "parity that the reader waits for", value: 0,
       names: ["that of the round", "always 0", "always 1", "that of the round before"]},
      {name: "block_barrier", label: "__syncthreads() ends a round", value: 1, names: noYes},
    ],
    questions: [
      {name: "As it should be", settings: {},
       question: "Nothing is wrong here. How many phases does the barrier complete in four rounds, and what is the parity of the last?",
       answer: "One phase per round: 0, 1, 2 and 3. The last has parity 1, and the barrier is then in phase 4.",
       outcome: {results: "right", reports: []}},
      {name: "One lane speaks", settings: {arrives: 1, count: 1},
       question: "Lane 0 arrives for its whole warp, and the count is 1. The warp runs in step, so what could be wrong?",
       answer: "An arrival promises what its own thread has written, not what the other 31 lanes have. The results may be right "
         + "in spite of that, as they are here, and the race is reported all the same. Let lane 0 arrive after a __syncwarp(), and look again.",
       outcome: {results: "right", reports: ["race"]}},
      {name: "Too many are counted", settings: {count: 64},
       question: "The barrier counts 64 arrivals, because the block has 64 threads. What happens in round 0?",
       answer: "Only the 32 lanes of warp 0 arrive. Phase 0 never ends, and warp 1 waits forever. The count is the number of "
         + "threads that arrive, not of those that take part.",
       outcome: {results: "none", reports: ["deadlock"]}},
      {name: "Parity 1 on a fresh barrier", settings: {parity: 3},
       question: "The reader waits for the parity of the round before: in round 0, for parity 1. Does it wait?",
       answer: "No. The phase before phase 0 counts as complete, so the wait passes at once, and the table is read while it is "
         + "written. Chapter 02 makes use of just that, for a writer that waits for an empty buffer.",
       outcome: {results: "none", reports: ["race"], follow: ["deadlock"]}},
      {name: "Always parity 0", settings: {parity: 1},
       question: "The reader always waits for parity 0. Round 0 is right. What happens in round 1?",
       answer: "Phase 0 is still the last phase that ended, so the wait for it passes at once, and round 1 reads what round 0 "
         + "wrote, or half of each. Waiting consumes nothing: the waiter must remember which phase comes next.",
       outcome: {results: "wrong", reports: ["barrier misuse"], follow: ["race"]}},
      {name: "Two phases behind", settings: {block_barrier: 0},
       question: "Without the __syncthreads(), nothing holds the writer back. Can the reader miss a phase?",
       answer: "Yes. The writer goes through all rounds while the reader still waits for the first. Parity cannot distinguish phase "
         + "0 from phase 2, so a reader that is two phases late sleeps, here forever.",
       outcome: {results: "none", reports: ["deadlock"]}},
    ],
  },
  ring: {
    title: "A ring of stages",
    chapters: [{name: "chapter 02", page: "page_chapters_02_ring_of_stages.html"},
               {name: "chapter 03", page: "page_chapters_03_producer_consumer_pipeline.html"}],
    source: "ring.cu",
    what: "One lane of warp 0 asks TMA for rows of 256 floats; warp 1 adds each of them up. Between the two is a ring "
      + "of stages, each with a full and an empty barrier.",
    controls: [
      {name: "stages", label: "stages", value: 2, least: 1, most: 4},
      {name: "rows", label: "rows", value: 8, least: 1, most: 64},
      {name: "full_count", label: "arrivals that end a phase of full", value: 1, least: 1, most: 128},
      {name: "empty_count", label: "arrivals that end a phase of empty", value: 32, least: 1, most: 128},
      {name: "bytes", label: "bytes announced per row", value: 1024, least: 0, most: 2048},
      {name: "producer_waits", label: "the producer waits for empty", value: 1, names: noYes},
      {name: "producer_parity", label: "the producer's first parity", value: 1, names: ["0", "1"]},
      {name: "consumer_parity", label: "the consumer's first parity", value: 0, names: ["0", "1"]},
      {name: "consumer_flips", label: "the consumer flips it after each lap", value: 1, names: noYes},
      {name: "released", label: "who releases a stage", value: 0,
       names: ["all lanes, after reading", "lane 0, after reading", "all lanes, before reading", "nobody"]},
    ],
    questions: [
      {name: "As it should be", settings: {},
       question: "Nothing is wrong here. Which of the two warps waits for the other, and would more stages help?",
       answer: "Look at the timeline: the copies take far longer than the sums, so warp 1 waits for full most of the time, and warp 0 "
         + "for empty. More stages keep more copies under way: try 4, then 1, and compare the cycles.",
       outcome: {results: "right", reports: []}},
      {name: "Who goes first?", settings: {producer_parity: 0},
       question: "Both sides begin with parity 0, which looks fair. What happens?",
       answer: "The producer waits for a phase of empty that only a consumer can end, and the consumer waits for the first row. The "
         + "producer must begin with parity 1: the phase before the first counts as complete, as every stage is empty then.",
       outcome: {results: "none", reports: ["deadlock"]}},
      {name: "One arrival, 32 lanes", settings: {empty_count: 1, stages: 3},
       question: "One consumer warp, so one arrival releases a stage: the empty barriers count 1. All lanes run the line that arrives.",
       answer: "Each lane arrives on its own: 32 arrivals, which end 32 phases at once. An even number of phases later the parity "
         + "is what it was, so the producer sees nothing. Count 32, or let one lane arrive.",
       outcome: {results: "none", reports: ["barrier misuse"], follow: ["deadlock"]}},
      {name: "One lane releases", settings: {empty_count: 1, released: 1},
       question: "Now the count is 1, and lane 0 alone arrives, right after the sum. All 32 lanes took part in it. Is that enough?",
       answer: "No. The shuffles exchange values and order nothing in memory: lane 0 speaks for its own reads only, and the next copy "
         + "may overwrite what another lane has still to read. A __syncwarp() before the arrival is missing.",
       outcome: {results: "right", reports: ["race"]}},
      {name: "Half of the bytes", settings: {bytes: 512},
       question: "The copy brings 1024 bytes, and 512 were announced. Does the phase end early, or never?",
       answer: "Never: the bytes that came are more than those announced, so the count of outstanding bytes is not zero, and the phase "
         + "stays open. Announce too many (2048), and it stays open for the opposite reason.",
       outcome: {results: "none", reports: ["deadlock"]}},
      {name: "Released too early", settings: {released: 2},
       question: "The consumer releases a stage as soon as it is full, and then reads it. That lets the next copy start early. Is it legal?",
       answer: "No: the copy of a later row may overwrite the stage while the row is read. The sums may be right in spite of that, as "
         + "they are here: the copy happened to be late. The race is reported every time.",
       outcome: {results: "right", reports: ["race"]}},
      {name: "A flip forgotten", settings: {consumer_flips: 0},
       question: "The consumer keeps parity 0 in every lap. The first lap is right. Which line does the report name in the second?",
       answer: "The wait for full: its phase 0 ended in the first lap, so the wait passes at once, before the copy has come. The race and the "
         + "misuse that follow are results of that.",
       outcome: {results: "none", reports: ["barrier misuse"], follow: ["race", "barrier misuse"]}},
      {name: "No waiting producer", settings: {producer_waits: 0},
       question: "The producer does not wait for empty stages. With eight rows and two stages, what breaks first: the data, or a barrier?",
       answer: "A barrier: in the third row the producer arrives at full[0] again, while the bytes of the first row are still to come. With as many "
         + "stages as rows nothing breaks: try 4 stages and 4 rows.",
       outcome: {results: "none", reports: ["barrier misuse"]}},
    ],
  },
  product: {
    title: "A product on the tensor core",
    chapters: [{name: "chapter 08", page: "page_chapters_08_tensor_memory.html"},
               {name: "chapter 09", page: "page_chapters_09_input_tile_pipeline.html"}],
    source: "product.cu",
    what: "Warp 4 asks for tiles of A and B, one of each per step of K. Warp 5 asks the tensor core to multiply them and to add the "
      + "products up in tensor memory. Warps 0 to 3 wait for all of it, load the sums, and store them.",
    controls: [
      {name: "steps", label: "steps of K", value: 8, least: 1, most: 32},
      {name: "stages", label: "stages", value: 2, least: 1, most: 4},
      {name: "tile_awaited", label: "warp 5 waits for full", value: 1, names: noYes},
      {name: "overwritten", label: "MMAs that overwrite the sums", value: 0, names: ["the first", "none", "all"]},
      {name: "freed", label: "who frees a stage", value: 0,
       names: ["the tensor core, by a commit", "the thread that asked for the MMA", "nobody"]},
      {name: "committed", label: "a commit follows the last MMA", value: 1, names: noYes},
      {name: "done_parity", label: "parity that the storing warps wait for", value: 0, names: ["0", "1"]},
      {name: "fence", label: "a tcgen05 fence follows that wait", value: 1, names: noYes},
      {name: "deallocated", label: "tensor memory is deallocated", value: 1, names: noYes},
    ],
    questions: [
      {name: "As it should be", settings: {},
       question: "Nothing is wrong here. Three kinds of threads ask for work, and two engines do it. What does the kernel spend its time on?",
       answer: "Look at the timeline: on the copies. The tensor core needs a fraction of the time of a copy, so it waits. Try 4 stages, "
         + "then 1, and compare the cycles: the more copies are under way at once, the less the kernel waits for each.",
       outcome: {results: "right", reports: []}},
      {name: "No last commit", settings: {committed: 0},
       question: "All MMAs are asked for, and each stage is freed by a commit. The commit after the last MMA is left out. Who notices?",
       answer: "The warps that store: nothing else ever arrives at done. The tensor core says nothing on its own when it has finished; "
         + "a commit makes it arrive at one barrier, once, and those for the stages arrive elsewhere.",
       outcome: {results: "none", reports: ["deadlock"]}},
      {name: "The wrong parity", settings: {done_parity: 1},
       question: "The storing warps wait for parity 1 of done, which has never been used. Do they store too early, or never?",
       answer: "Too early: the phase before phase 0 counts as complete, so the wait passes at once, and the sums are loaded while the "
         + "tensor core still writes them. Then tensor memory is deallocated and the block ends, with an MMA on its way.",
       outcome: {results: "none", reports: ["race"], follow: ["tensor memory leak", "illegal address"]}},
      {name: "No fence", settings: {fence: 0},
       question: "The wait for done is there, and no fence follows it. Right results, on this machine and seemingly on the chip. Is it a mistake?",
       answer: "By PTX it is: the wait orders what the thread does next, but the instructions of tcgen05 are ordered only by a "
         + "tcgen05 fence after it. The report also says that the chip seems to tolerate this one.",
       outcome: {results: "right", reports: ["missing tcgen05 fence"]}},
      {name: "Sums onto nothing", settings: {overwritten: 1},
       question: "No MMA overwrites the sums: all add, from the first on. What do they add to?",
       answer: "To whatever was in tensor memory: PTX does not define it after an allocation. The emulated GPU puts NaNs there, so that "
         + "every result is wrong in every run. Do not rely on the zeros that you may find on a chip.",
       outcome: {results: "wrong", reports: ["uninitialised accumulator"]}},
      {name: "Only the last step", settings: {overwritten: 2},
       question: "Every MMA overwrites the sums. There is no race, no hang, and nothing uninitialised. Can anything be reported?",
       answer: "No: a program may overwrite its sums, and nobody but you knows that it should not. The results equal the product of the last "
         + "step alone; with one step they are right. Only a test of values finds this.",
       outcome: {results: "wrong", reports: []}},
      {name: "Freed by a thread", settings: {freed: 1},
       question: "The thread that asks for an MMA arrives at empty right after it, instead of the tensor core. What may happen to the tile?",
       answer: "The next copy may overwrite it while the tensor core still reads it: asking for an MMA returns at once. The results "
         + "are right here, because a copy takes longer than an MMA. The race is reported all the same.",
       outcome: {results: "right", reports: ["race"]}},
      {name: "Nobody frees", settings: {freed: 2},
       question: "Nobody arrives at empty. With 2 stages and 8 steps, in which step does the kernel stop? And with 4 stages and 4 steps?",
       answer: "In step 2: the first two waits for empty pass at once, the third is for a phase that never ends. With as many stages as "
         + "steps no stage is used twice, so nothing has to be freed: try it.",
       outcome: {results: "none", reports: ["missing commit", "deadlock"]}},
      {name: "A tile that has not come", settings: {tile_awaited: 0},
       question: "Warp 5 does not wait for full. It asks for all MMAs at once, and the tensor core reads tiles that are still being copied. What is reported?",
       answer: "The race of a copy and an MMA over the same tile. Its likely cause names the MMA, and the barrier that the thread has never "
         + "waited for. The last line is what follows: commits after MMAs that were far too early free stages whose bytes are still to "
         + "come, so the producer announces the next tile for a phase that has not ended.",
       outcome: {results: "none", reports: ["race"], follow: ["barrier misuse"]}},
      {name: "Lost columns", settings: {deallocated: 0},
       question: "Tensor memory is not deallocated. The block ends anyway. Does that not free it?",
       answer: "No: PTX requires that a kernel deallocates all that it has allocated. A later block that allocates on the same multiprocessor "
         + "waits for columns that never become free.",
       outcome: {results: "right", reports: ["tensor memory leak"]}},
    ],
  },
};

if (typeof module !== "undefined") module.exports = {kernels};
