// The worker that `perdure conformance` drives: an interpreter of small programs that are data.
//
//   perdure conformance node clients/typescript/conformance/worker.js

import { agent, Run, tool, Worker } from "../src/index.js";

const OUTSIDE = process.env.PERDURE_OUTSIDE;

const post = async (path, body) =>
  (await fetch(OUTSIDE + path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } })).json();

const arrived = async (what) => (await (await fetch(`${OUTSIDE}/arrived?what=${encodeURIComponent(what)}`)).json()).arrived;

const probe = async ({ what }) => {
  const count = await arrived(what);
  return count ? { verdict: "happened", result: { arrived: count } } : { verdict: "absent" };
};

/** A tool of each kind. Only the keyed one hands the key on. */
export const TOOLS = {
  unsafe: tool({ name: "do_unsafe" }, ({ what }) => post("/arrive", { what })),
  idempotent: tool({ name: "do_idempotent", kind: "idempotent", retries: 100 }, ({ what }) => post("/arrive", { what })),
  keyed: tool({ name: "do_keyed", kind: "keyed", retries: 100 }, ({ what }, { key }) => post("/arrive", { what, key })),
  probed: tool({ name: "do_probed", probe, landsWithin: "1s" }, ({ what }) => post("/arrive", { what })),
};

const tick = async (what) => (await post("/step", { what })).ran > 0;

async function doOne(run, [verb, ...given]) {
  switch (verb) {
    case "step":
      return run.step(tick, `${run.id}/${given[0]}`);
    case "act":
      return run.act(TOOLS[given[0]], { what: `${run.id}/${given[1]}` });
    case "ask":
      return run.ask(given[0], { choices: ["yes", "no"] });
    case "wait":
      return run.wait(given[0]);
    case "sleep":
      await run.sleep(given[0]);
      return "slept";
    case "child":
      return run.call("conformance-child", [given[0]]);
    case "both":
      return run.all(given.map((op) => (branch) => doOne(branch, op)));
    default:
      throw new TypeError(`there is no ${verb}`);
  }
}

const conformance = agent("conformance", async (run, ops) => {
  const state = run.restored ?? { at: 0, results: [] };
  for (let { at } = state; at < ops.length; at += 1) {
    if (ops[at][0] === "checkpoint") {
      state.results.push("saved");
      state.at = at + 1;
      await run.checkpoint(state);
    } else state.results.push(await doOne(run, ops[at]));
  }
  return state.results;
});

const child = agent("conformance-child", async (run, number) => {
  const square = (n) => n * n;
  return run.step(square, number);
});

/** Work until SIGTERM. run: the class that programs get, for workers that are wrong on purpose. */
export async function work(run = Run) {
  const log = (line) => console.error(line);
  const { PERDURE_URL: url, PERDURE_TOKEN: token } = process.env;
  const worker = new Worker({ url, token, agents: [conformance, child], concurrency: 4, log, run });
  process.on("SIGTERM", () => worker.stop());
  await worker.work();
}

if (import.meta.filename === process.argv[1]) await work();
