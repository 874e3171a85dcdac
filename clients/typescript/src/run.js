// A run, as its program holds it: the verbs, replayed from the journal where they are recorded, else carried out and recorded.
//
// A place is cut/branch/ordinal, counted in the order in which verbs are called, so it is the same at every replay. Verbs of one
// branch may run beside each other (Promise.all over verbs); lines of work that each do several things need branches of their own.

import { createHash } from "node:crypto";

import { pause } from "./client.js";
import { Ending, Failed, Problem, Stopped, TimedOut, Unreachable, Unsent } from "./errors.js";

const QUIET_LOOKS = 3;
const LOOK_MS = 2;
const SWIFT_TURNS = 8; // without a pause, in which the branches beside come as far as their records lead them
const HOLD_MS = 300_000;
const NEVER = new Promise(() => {});
const IN_HAND = new Set(["record_step", "tell_outcome"]); // what they say is known to this process alone

/** A digest that is equal for equal values, whatever the order of keys. */
export function digestOf(value) {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

function canonical(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value.toJSON === "function") return canonical(value.toJSON());
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}

/** What JSON makes of a value: a program gets the same now and at every replay. */
const plain = (value) => (value === undefined ? null : JSON.parse(JSON.stringify(value)));

/** Declare a tool: a function that does something outside, and what may be done about doubt. */
export function tool(declared, fn) {
  const { name, kind = declared.probe ? "probed" : "unsafe", fails = () => false, ...rest } = declared;
  if (!name) throw new TypeError("a tool has a name");
  if (kind === "probed" && !declared.probe) throw new TypeError(`${name}: a probed tool has a probe`);
  return Object.freeze({ name, kind, fails, fn, ...rest });
}

/** What all branches of one driven run share. */
export class Drive {
  constructor(client, holder, claim, leaseMs, { keepMs, holdMs = HOLD_MS, log = () => {} } = {}) {
    this.client = client;
    this.keepMs = keepMs;
    this.holdMs = holdMs;
    this.log = log;
    this.holder = holder;
    this.claim = claim;
    this.token = claim.token;
    this.cut = claim.cut;
    this.leaseMs = leaseMs;
    this.confirmedAt = performance.now();
    this.cancelling = claim.cancelling;
    this.ending = null; // what the program was told, when it was told to end
    this.stopped = null; // why nothing more is written in this drive
    this.unsaid = []; // steps that failed: recorded when the program goes on
    this.journal = new Map();
    this.left = new Set();
    this.lines = new Map([["", false]]); // lines of work that were begun, and whether each came to its end
    this.held = []; // the lines of verbs that wait for records to be reached
    this.active = 0;
    this.begun = 0;
    this.calls = new Set(); // effects under way: a run does not end before they have
    this.resting = new Map(); // places that wait, with what for
    this.readRestored = false;
    this.over = new Promise((resolve) => (this._over = resolve));
  }

  learn(items) {
    for (const each of items) {
      this.journal.set(each.place, each);
      this.left.add(each.place);
    }
  }

  /** The record at a place, or undefined. */
  take(place) {
    this.left.delete(place);
    return this.journal.get(place);
  }

  stop(why) {
    this.stopped ??= why;
    this._over({ stopped: this.stopped });
    return this.stopped;
  }

  /** Throw what must end the program now. */
  checkGoing() {
    if (this.stopped) throw this.stopped;
    if (this.cancelling) throw (this.ending ??= new Ending("Cancelled"));
  }

  /** Send a verb of this run. A lost lease and a changed program stop the drive. */
  async send(name, body = {}, path = {}) {
    if (this.stopped) throw this.stopped;
    const began = performance.now();
    try {
      const answer = await this.client.call(name, {
        path: { run: this.claim.run, ...path },
        body: { holder: this.holder, token: this.token, ...body },
        ...(IN_HAND.has(name) ? { patienceMs: this.keepMs } : {}),
      });
      this.confirmedAt = Math.max(this.confirmedAt, began);
      if (answer.cancelling) this.cancelling = true;
      return answer;
    } catch (error) {
      throw this._judged(error);
    }
  }

  _judged(error) {
    if (error instanceof Unreachable) return this.stop(new Stopped(error.message));
    if (!(error instanceof Problem)) return error;
    if (error.name === "Stale") return this.stop(new Stopped(error.message));
    if (error.name === "Changed") return this.stop(changed(error.message));
    return error;
  }

  /** Record steps that failed, now that the program goes on. */
  async flush() {
    while (this.unsaid.length) await this.send("record_step", this.unsaid.shift());
  }

  /** Whether the lease stands, right before something is sent. A worker that was stopped for long asks first. */
  async confirm(tries = 5) {
    if (performance.now() - this.confirmedAt < this.leaseMs / 2) return;
    const began = performance.now();
    const { runs } = await this.client.call("heartbeat", { body: { holder: this.holder } });
    if (!runs.some((each) => each.run === this.claim.run && each.token === this.token))
      throw this.stop(new Stopped("the lease was lost before the call"));
    this.confirmedAt = began;
    if (performance.now() - began < this.leaseMs / 2) return;
    if (tries <= 1) throw this.stop(new Stopped("the server answers more slowly than a lease lasts"));
    await this.confirm(tries - 1);
  }

  /** An operation of the program, while it goes on. */
  async during(operation) {
    this.active += 1;
    this.begun += 1;
    try {
      return await operation();
    } finally {
      this.active -= 1;
    }
  }

  /**
   * Hold a new verb while a record that may be that very verb was not reached: a program that was regrouped comes to it in another
   * branch. same: whether a record is the same verb.
   */
  async holdBack(line, verb, same) {
    for (let turn = 0; turn < SWIFT_TURNS && this.left.size && !this._holding(line, same); turn++) await new Promise(setImmediate);
    let ahead = this.left.size;
    let idleSince = performance.now();
    if (!this._holding(line, same)) return this.checkGoing();
    this.log(`run ${this.claim.run} holds ${verb}, because what is recorded at ${this._holding(line, same)} was not reached`);
    this.held.push(line);
    try {
      for (let place; (place = this._holding(line, same)); ) {
        this.checkGoing();
        if (performance.now() - idleSince >= this.holdMs)
          throw this.stop(changed(`what is recorded at ${place} was not reached, and now it does ${verb}, of which nothing was sent`));
        await pause(LOOK_MS);
        if (this.active || this.left.size !== ahead) idleSince = performance.now();
        ahead = this.left.size;
      }
    } finally {
      this.held.splice(this.held.indexOf(line), 1);
    }
    this.checkGoing();
  }

  /** The place of a record that holds a new verb of a line; undefined if none does (docs/decisions/0140). */
  _holding(line, same) {
    for (const place of this.left) {
      const path = place.slice(place.indexOf("/") + 1, place.lastIndexOf("/"));
      if (path === "patch" || path === line) continue;
      if (same(this.journal.get(place))) return place;
      const begun = [...this.lines.keys()].filter((each) => isWithin(path, each)).sort((a, b) => b.length - a.length)[0];
      if (isWithin(line, begun) || this.lines.get(begun) || this.held.includes(begun)) return place;
    }
    return undefined;
  }

  /** Wait, with whatever else of the run waits: the drive ends when nothing of it goes on any more. */
  async rest(place, why) {
    this.resting.set(place, why);
    let quiet = 0;
    while (quiet < QUIET_LOOKS && !this.stopped) {
      const before = this.begun;
      await pause(LOOK_MS);
      quiet = this.active === 0 && !this.held.length && this.begun === before ? quiet + 1 : 0;
    }
    this._over({ rest: this.resting });
    return NEVER;
  }
}

/** Whether a branch is this line of work, or has left it. */
const isWithin = (path, line) => !line || path === line || path.startsWith(`${line}.`);

const changed = (message) =>
  new Stopped(message, { park: { reason: "changed", message, hint: "deploy the program that began it, then `perdure resume`" } });

/** One line of work of a run. */
export class Run {
  constructor(drive, path = "") {
    this._drive = drive;
    this._path = path;
    this._ordinal = 0;
    this._children = 0;
    this._names = new Set();
    this._cut = drive.cut;
  }

  get id() {
    return this._drive.claim.run;
  }

  get session() {
    return this._drive.claim.session;
  }

  /** Arguments by name. */
  get kwargs() {
    return this._drive.claim.kwargs;
  }

  /** Whether the run was told to end. */
  get cancelling() {
    return this._drive.cancelling;
  }

  /** The state of the last checkpoint; null if there is none. A program begins with it. */
  get restored() {
    this._drive.readRestored = true;
    return this._drive.claim.restored;
  }

  /** After a checkpoint everything is counted from the start. */
  _countAnew() {
    if (this._cut === this._drive.cut) return;
    this._cut = this._drive.cut;
    this._ordinal = this._children = 0;
    this._names.clear();
  }

  _place() {
    this._countAnew();
    this._ordinal += 1;
    return `${this._cut}/${this._path}/${this._ordinal}`;
  }

  /** The place of a verb. A program that has a checkpoint and acts before it read `restored` would repeat what came before. */
  _arrive(what) {
    const drive = this._drive;
    if (drive.stopped) throw drive.stopped;
    if (drive.claim.has_checkpoint && !drive.readRestored && what !== "step") {
      const message = `it has a checkpoint and comes to ${what} before it reads run.restored`;
      throw drive.stop(new Stopped(message, { park: { reason: "unread", message, hint: "begin from run.restored" } }));
    }
    return this._place();
  }

  /** The record of this very thing at a place. Another thing there: the program changed. */
  _found(place, what, name) {
    const found = this._drive.take(place);
    if (found && (found.what !== what || found.name !== name))
      throw this._drive.stop(changed(`at ${place} it did ${found.what} ${found.name}, and now does ${what} ${name}`));
    return found;
  }

  /** A line of work beside others, known by its name. */
  branch(name) {
    this._countAnew();
    if (this._names.has(name)) throw new TypeError(`the branch ${name} was begun already`);
    this._names.add(name);
    return this._begin(`${this._path}.'${name}'`);
  }

  /** Run functions beside each other, each with a branch of its own; their results in order. */
  async all(functions) {
    this._countAnew();
    const branches = functions.map(() => {
      this._children += 1;
      return this._begin(this._path ? `${this._path}.${this._children}` : String(this._children));
    });
    const ends = (branch) => this._drive.lines.set(branch._path, true);
    return Promise.all(functions.map(async (each, at) => each(branches[at]).finally(() => ends(branches[at]))));
  }

  _begin(path) {
    this._drive.lines.set(path, false);
    return new Run(this._drive, path);
  }

  /** Wait where a new verb may be one that another branch has recorded. */
  async _holdBack(verb, same) {
    if (this._drive.left.size) await this._drive.holdBack(this._path, verb, same);
  }

  // -- steps ------------------------------------------------------------------------------------------------------------

  /** Call a function that changes nothing outside, and keep what it gives. It may run again after a crash. */
  async step(fn, ...args) {
    return this._step(fn, args, {});
  }

  /** Call a model: a step whose input is kept with it. pins: the versions of the model and the prompt. */
  async model(fn, args, pins = {}) {
    return this._step(fn, args, { model: pins, args: plain(args) });
  }

  async _step(fn, args, more) {
    const drive = this._drive;
    const name = fn.stepName ?? fn.name;
    if (!name) throw new TypeError("a step is a function with a name");
    const place = this._arrive("step");
    const digest = digestOf(args);
    const found = this._found(place, "step", name);
    if (found) {
      if (found.digest !== digest) throw drive.stop(changed(`at ${place} ${name} has other arguments than it had`));
      if (found.step.error) throw failedStep(found.step.error, place);
      return found.step.value;
    }
    drive.checkGoing();
    if (more.model) await this._holdBack(`model ${name}`, (each) => each.what === "step" && each.name === name && each.digest === digest);
    return drive.during(async () => {
      let value;
      try {
        value = plain(await fn(...args));
      } catch (error) {
        const said = { code: error.code && error.name === "Failed" ? error.code : error.name || "Error", message: String(error.message ?? error) };
        drive.unsaid.push({ place, name, digest, error: said, ...more });
        throw failedStep(said, place, error);
      }
      await drive.flush();
      return (await drive.send("record_step", { place, name, digest, value, ...more })).step.value;
    });
  }

  /** Whether this run goes the new way of a changed program: true for runs that reach this place anew. */
  async patched(name) {
    const drive = this._drive;
    const place = `${drive.cut}/patch/${name}`;
    if (drive.take(place)) return true;
    if (drive.left.size) return false;
    await drive.flush();
    await drive.send("record_step", { place, name: "run.patched", digest: "" });
    drive.journal.set(place, { what: "step", name: "run.patched" });
    return true;
  }

  // -- effects ----------------------------------------------------------------------------------------------------------

  /** Do something outside, once, whatever crashes. args: by name. approve: a question to a person before it is sent. */
  async act(tool, args = {}, { approve, approveWithin, about } = {}) {
    const drive = this._drive;
    const place = this._arrive(`effect ${tool.name}`);
    const found = this._found(place, "effect", tool.name);
    const given = plain(args);
    if (found?.effect.settled && canonical(found.effect.args) === canonical(given)) return outcomeOf(found.effect);
    const body = {
      place, tool: tool.name, args: given, kind: tool.kind, timeout: tool.timeout, lands_within: tool.landsWithin,
      keeps_keys: tool.keepsKeys, retries: tool.retries, can_probe: Boolean(tool.probe), approve, approve_within: approveWithin,
      about,
    };
    if (!found) drive.checkGoing();
    const isSame = (each) => each.what === "effect" && each.name === tool.name && canonical(each.effect.args) === canonical(given);
    if (!found) await this._holdBack(`effect ${tool.name}`, isSame);
    const acting = drive.during(() => this._carryOut(tool, body));
    drive.calls.add(acting);
    try {
      const came = await acting;
      return came.rest ? await drive.rest(place, came.rest) : outcomeOf(came.effect);
    } finally {
      drive.calls.delete(acting);
    }
  }

  /** Carry an effect to its end, or to where only time or a person can settle it. */
  async _carryOut(tool, body) {
    const drive = this._drive;
    await drive.flush();
    for (;;) {
      const answer = await drive.send("begin_run_effect", body);
      const { next, effect } = answer;
      if (next === "given") return { effect };
      if (next === "end") throw (drive.ending ??= new Ending(answer.why));
      if (next === "rest") return { rest: restOf(answer) };
      if (next === "send") {
        const told = await this._send(tool, effect);
        if (told.effect.settled) return { effect: told.effect };
        await pause(told.pause_seconds * 1000);
      } else {
        const told = await this._probe(tool, answer);
        if (told.next === "rest") return { rest: restOf(told) };
      }
    }
  }

  async _send(tool, effect) {
    const drive = this._drive;
    await drive.confirm();
    const said = await called(tool, effect);
    return drive.send("tell_outcome", { attempt: effect.attempt, ...said }, { seq: effect.seq });
  }

  async _probe(tool, { effect, now }) {
    let verdict;
    try {
      verdict = await tool.probe(effect.args, { key: effect.sent_key });
    } catch (error) {
      verdict = { verdict: "unknown", reason: String(error.message ?? error) };
    }
    const body = { attempt: effect.attempt, asked_at: now, ...verdict };
    return this._drive.send("tell_probe", body, { seq: effect.seq });
  }

  // -- waits ------------------------------------------------------------------------------------------------------------

  /** Ask a person, and wait for the answer for as long as it takes. After `timeout`: the default, or TimedOut. */
  async ask(question, { choices, timeout, default: standing, detail, about } = {}) {
    const body = { question, choices, timeout, default: standing, detail, about };
    const found = await this._await("ask", "", "open_run_ask", body, (wait) => wait.question === question);
    if (found.state === "expired" && standing === undefined) throw new TimedOut(`nobody answered ${question} in time`);
    return found.answer;
  }

  /** Wait for some time ("10m"), on the store's clock; nobody holds the run meanwhile. */
  async sleep(duration) {
    await this._await("sleep", "", "open_sleep", { duration }, () => false);
  }

  /** Wait for a signal; its payload. After `timeout`: the default, or TimedOut. */
  async wait(name, { timeout, default: standing } = {}) {
    const found = await this._await("signal", name, "open_wait", { name, timeout }, () => true);
    if (found.state === "met") return found.answer;
    if (standing === undefined) throw new TimedOut(`no signal ${name} came in time`);
    return standing;
  }

  /** Start another run, once, and wait for its result. Failed when it failed. */
  async call(agent, args = [], { kwargs = {}, timeout, about } = {}) {
    const body = { agent, args: plain(args), kwargs: plain(kwargs), timeout, about };
    const found = await this._await("child", agent, "start_child", body, () => false);
    if (found.answer.error) throw new Failed(found.answer.error[1], { code: found.answer.error[0], step: found.place });
    return found.answer.result;
  }

  /** A wait when it is over. The run rests until then. same: whether a recorded one is surely this; else the server says. */
  async _await(what, name, operation, body, same) {
    const drive = this._drive;
    const place = this._arrive(what);
    const found = this._found(place, what, name);
    if (found && found.wait.state !== "open" && same(found.wait)) return found.wait;
    if (!found) drive.checkGoing();
    const isSame = (each) => each.what === what && each.name === name && (what === "child" || same(each.wait));
    if (!found) await this._holdBack(`${what} ${name}`.trim(), isSame);
    const answer = await drive.during(async () => {
      await drive.flush();
      return drive.send(operation, { place, ...body });
    });
    if (answer.next === "end") throw (drive.ending ??= new Ending(answer.why));
    return answer.next === "given" ? answer.wait : drive.rest(place, restOf(answer));
  }

  // -- checkpoints ------------------------------------------------------------------------------------------------------

  /** Save a state to go on from: `restored` after a crash. Only between branches, and when nothing is open. */
  async checkpoint(state) {
    const drive = this._drive;
    if (!drive.readRestored) throw new TypeError("begin the agent with run.restored: else it repeats what came before");
    if (this._path || drive.active || drive.left.size) {
      if (drive.left.size && !this._path) return false; // it replays: what is recorded comes first
      throw new TypeError("a branch cannot cut the run: do it after gathering the branches");
    }
    drive.checkGoing();
    await drive.during(async () => {
      await drive.flush();
      const answer = await drive.send("cut_run", { cut: drive.cut, state: plain(state) });
      if (answer.next === "end") throw (drive.ending ??= new Ending("Cancelled"));
      drive.cut = answer.cut;
      drive.journal.clear();
      drive.lines = new Map([["", false]]);
    });
    return true;
  }
}

const failedStep = (said, place, cause) => Object.assign(new Failed(said.message, { code: said.code, step: place }), { cause });

const restOf = ({ why, awaited, effect, wake_at }) => ({
  why, awaited, doubts: awaited.length || !effect ? [] : [effect.seq], wake_at,
});

/** What an effect gave its program. */
function outcomeOf(effect) {
  if (effect.state === "committed" || ((effect.state === "undone" || effect.state === "undoing") && !effect.error))
    return effect.result;
  const { code, message } = effect.error ?? { code: effect.state, message: `${effect.tool} is ${effect.state}` };
  throw new Failed(message, { code, effect: effect.seq });
}

/** Call a tool; what came of it, in the words of the protocol. */
async function called(tool, effect) {
  const abort = new AbortController();
  let timer;
  try {
    const calling = Promise.resolve(tool.fn(effect.args, { key: effect.sent_key, attempt: effect.attempt, signal: abort.signal }));
    const deadline = new Promise((_, reject) => {
      if (tool.timeoutMs) timer = setTimeout(() => reject(new Overdue(tool.timeoutMs)), tool.timeoutMs);
    });
    return { outcome: "happened", result: plain(await Promise.race([calling, deadline])) };
  } catch (error) {
    abort.abort();
    const said = { code: error.code ? String(error.code) : (error.name ?? "Error"), message: String(error.message ?? error) };
    if (error instanceof Failed || tool.fails(error)) return { outcome: "failed", ...said };
    if (error instanceof Unsent) return { outcome: "unsent", ...said };
    return { outcome: "unknown", ...said, over: !(error instanceof Overdue) };
  } finally {
    clearTimeout(timer);
  }
}

class Overdue extends Error {
  code = "Overdue";

  constructor(ms) {
    super(`no answer within ${ms / 1000} s`);
  }
}
