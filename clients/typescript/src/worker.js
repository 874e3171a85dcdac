// A worker: takes runs from the server and drives many of them at once, with one heartbeat for all.

import { randomBytes } from "node:crypto";

import { Client, pause } from "./client.js";
import { Ending, Failed, Problem, Stopped, Unreachable } from "./errors.js";
import { digestOf, Drive, Run } from "./run.js";

const WAIT_SECONDS = 20;
const KEEP_MS = 600_000;

/**
 * Declare an agent: an async function that gets a run and its arguments. version: of the program; by default its text's. pins:
 * versions of the model, the prompt and the tools; onChange: what is done with a run that had others.
 */
export function agent(name, fn, { version, pins, onChange } = {}) {
  return Object.freeze({ name, fn, program: version ?? digestOf(fn.toString()).slice(0, 16), pins, onChange });
}

/** Takes and drives runs until it is told to stop. */
export class Worker {
  /**
   * @param {{url: string, token: string, agents: ReturnType<typeof agent>[], concurrency?: number, waitSeconds?: number,
   *   log?: (line: string, about?: object) => void, run?: typeof Run, patienceMs?: number, keepMs?: number, holdMs?: number}} options
   * keepMs: for how long a result that only this process has is kept while the server is away.
   * holdMs: for how long a new verb waits for what is recorded in other branches.
   */
  constructor({
    url, token, agents, concurrency = 10, waitSeconds = WAIT_SECONDS, log = () => {}, run = Run, patienceMs, keepMs = KEEP_MS, holdMs,
  }) {
    this.client = new Client(url, { token, patienceMs });
    this.agents = new Map(agents.map((each) => [each.name, each]));
    this.concurrency = concurrency;
    this.holder = randomBytes(12).toString("hex"); // of this process alone: never used again
    this.log = log;
    this.keepMs = keepMs;
    this._run = run;
    this._holdMs = holdMs; // for how long a new verb waits for records of other branches
    this._waitSeconds = waitSeconds;
    this._drives = new Map();
    this._stopping = new AbortController();
    this._leaseMs = 10_000;
  }

  /** Work until `stop`. graceMs: for how long runs may go on then. */
  async work({ graceMs = 5_000 } = {}) {
    const beating = this._beat();
    while (!this._stopping.signal.aborted) {
      if (this._drives.size >= this.concurrency) await Promise.race([...this._drives.values()].map((each) => each.done));
      else await this._claim();
    }
    const done = Promise.allSettled([...this._drives.values()].map((each) => each.done));
    await Promise.race([done, pause(graceMs)]);
    for (const each of this._drives.values()) each.drive.stop(new Stopped("the worker ends"));
    await beating;
    await this.client.call("leave_work", { body: { holder: this.holder } }).catch(() => {});
  }

  stop() {
    this._stopping.abort();
  }

  async _claim() {
    const held = [...this._drives.keys()];
    const by = (field) => Object.fromEntries([...this.agents.values()].filter((each) => each[field]).map((each) => [each.name, each[field]]));
    const [agents, pins, on_change] = [by("program"), by("pins"), by("onChange")];
    const versions = { ...(Object.keys(pins).length && { pins }), ...(Object.keys(on_change).length && { on_change }) };
    const wait = held.length ? 1 : this._waitSeconds; // what it drives may end, and make room, meanwhile
    const body = { holder: this.holder, agents, held, concurrency: this.concurrency, wait, ...versions };
    try {
      const claim = await this.client.call("claim_work", { body, waitMs: wait * 1000 });
      if (claim) this._begin(claim);
    } catch (error) {
      this.log(`no run could be taken: ${error.message}`);
      await pause(1000, this._stopping.signal);
    }
  }

  _begin(claim) {
    this._leaseMs = claim.lease_seconds * 1000;
    this._drives.get(claim.run)?.drive.stop(new Stopped("it was given again under a new token"));
    const options = { keepMs: this.keepMs, holdMs: this._holdMs, log: this.log };
    const drive = new Drive(this.client, this.holder, claim, this._leaseMs, options);
    const done = this._drive(drive).finally(() => {
      if (this._drives.get(claim.run)?.drive === drive) this._drives.delete(claim.run);
    });
    this._drives.set(claim.run, { drive, done });
  }

  /** Say that this worker lives, three times in the time of a lease; hear which runs it has lost. */
  async _beat() {
    while (!this._stopping.signal.aborted || this._drives.size) {
      await pause(this._leaseMs / 3, this._drives.size ? undefined : this._stopping.signal);
      if (!this._drives.size) continue;
      const known = [...this._drives.values()].map((each) => each.drive);
      const began = performance.now();
      try {
        const beat = await this.client.call("heartbeat", { body: { holder: this.holder }, patienceMs: 0 });
        this._leaseMs = beat.lease_seconds * 1000;
        const held = new Map(beat.runs.map((each) => [each.run, each]));
        for (const drive of known) this._hear(drive, held.get(drive.claim.run), began);
      } catch (error) {
        this.log(`a heartbeat was not heard: ${error.message}`);
      }
    }
  }

  _hear(drive, held, began) {
    if (held?.token === drive.token) {
      drive.confirmedAt = Math.max(drive.confirmedAt, began);
      drive.cancelling ||= held.cancelling;
    } else if (this._drives.get(drive.claim.run)?.drive === drive) drive.stop(new Stopped("the lease was lost"));
  }

  // -- one run ----------------------------------------------------------------------------------------------------------

  async _drive(drive) {
    const { claim } = drive;
    try {
      await this._load(drive);
      const run = new this._run(drive);
      const program = this.agents.get(claim.agent).fn;
      const returned = Promise.resolve()
        .then(() => program(run, ...claim.args))
        .then((result) => ({ result }), (error) => ({ error }));
      const came = await Promise.race([returned, drive.over]);
      await this._end(drive, came);
    } catch (error) {
      if (!(error instanceof Stopped)) this.log(`run ${claim.run} was left: ${error.message}`);
    }
  }

  async _load(drive) {
    let { items, next } = drive.claim.journal;
    drive.learn(items);
    while (next !== null) {
      ({ items, next } = await this.client.call("read_journal", { path: { run: drive.claim.run }, query: { after: next } }));
      drive.learn(items);
    }
  }

  /** How a drive ends: the run rests, is parked, is given back, completed or failed. */
  async _end(drive, came) {
    await Promise.allSettled([...drive.calls].filter(() => !came.rest && !drive.stopped));
    const stopped = drive.stopped ?? (came.error instanceof Stopped ? came.error : null);
    if (stopped?.park) return this._say(drive, "park_run", stopped.park);
    if (stopped) return this._say(drive, "release_run", {}).catch(() => {});
    if (came.rest) return this._rest(drive, came.rest);
    if (drive.ending) return this._say(drive, "fail_run", { code: drive.ending.code, message: drive.ending.message });
    if (came.error) return this._fail(drive, came.error);
    if (drive.left.size) {
      const message = `it ended without doing what is recorded at ${[...drive.left][0]}`;
      return this._say(drive, "park_run", { reason: "changed", message });
    }
    await drive.flush();
    return this._say(drive, "finish_run", { result: came.result === undefined ? null : came.result });
  }

  async _fail(drive, error) {
    if (error instanceof Unreachable) return this._say(drive, "release_run", {});
    const code = error instanceof Failed || error instanceof Ending ? error.code : (error.name ?? "Error");
    const blamed = error instanceof Failed ? { step: error.step, effect: error.effect } : {};
    this.log(`run ${drive.claim.run} failed: ${code}: ${error.message}`, { error });
    return this._say(drive, "fail_run", { code, message: String(error.message ?? error), ...blamed });
  }

  async _rest(drive, resting) {
    await drive.flush();
    const all = [...resting.values()];
    const times = all.map((each) => each.wake_at).filter((each) => each !== null && each !== undefined);
    return this._say(drive, "rest_run", {
      reason: all[0].why, awaited: all.flatMap((each) => each.awaited), doubts: all.flatMap((each) => each.doubts),
      wake_at: times.length ? Math.min(...times) : null, cancelling: drive.cancelling,
    });
  }

  /** The last word about a run in this drive. */
  async _say(drive, operation, body) {
    const { run } = drive.claim;
    try {
      const said = { holder: this.holder, token: drive.token, ...body };
      return await this.client.call(operation, { path: { run }, body: said });
    } catch (error) {
      if (!(error instanceof Problem) || error.name !== "Stale") throw error;
      this.log(`run ${run} is another worker's by now`);
      return undefined;
    }
  }
}
