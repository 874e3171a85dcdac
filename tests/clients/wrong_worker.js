// Workers that are wrong on purpose, so that the conformance program can be seen to catch them. Which: the first argument.
//
//   forgets     calls its tool before the intent is recorded, and tells only afterwards
//   unfenced    does not stop when its lease is lost: it calls its tools all the same
//   replays     does not look into the journal: it does everything again

import { work } from "../../clients/typescript/conformance/worker.js";
import { Client, Run, Worker } from "../../clients/typescript/src/index.js";
import { Drive } from "../../clients/typescript/src/run.js";

const wrong = process.argv[2];

class Forgetful extends Run {
  async act(tool, args) {
    const result = await tool.fn(args, { key: `${this.id}${JSON.stringify(args)}` });
    return super.act({ ...tool, fn: async () => result }, args);
  }
}

class Replaying extends Run {
  async act(tool, args) {
    return tool.fn(args, { key: `${Math.random()}` });
  }
}

if (wrong === "unfenced") {
  Drive.prototype.confirm = async () => {};
  Worker.prototype._hear = () => {};
  const call = Client.prototype.call;
  Client.prototype.call = async function (name, given) {
    try {
      return await call.call(this, name, given);
    } catch (error) {
      if (error.name !== "Stale" || name !== "begin_run_effect") throw error;
      return { next: "send", cancelling: false, effect: { seq: 1, attempt: 1, args: given.body.args, sent_key: `${Math.random()}` } };
    }
  };
}

await work({ forgets: Forgetful, replays: Replaying }[wrong] ?? Run);
