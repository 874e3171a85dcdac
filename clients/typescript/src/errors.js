// The errors of a client: what the server refused, and what a program hears of its run.

/** An answer of the server that is no success: an RFC 9457 problem. `key`: of a write that may have been carried out before. */
export class Problem extends Error {
  /** @param {number} status @param {import("./api.js").components["Problem9457"]} body */
  constructor(status, body) {
    super(body.path ? `${body.path}: ${body.detail}` : body.detail);
    this.name = body.title || "Problem";
    this.status = status;
    this.path = body.path ?? "";
    this.hint = body.hint ?? "";
    this.facts = body.facts ?? {};
  }
}

/** The server does not answer, or not now. `key`: of the write, which may have been carried out. */
export class Unreachable extends Error {
  name = "Unreachable";
}

/** It did not happen, and it is known why: a tool throws it to say no; a program gets it of a step, an effect or a child. */
export class Failed extends Error {
  /** @param {string} message @param {{code?: string, step?: string, effect?: number}} [about] */
  constructor(message, { code = "Failed", step, effect } = {}) {
    super(message);
    this.name = "Failed";
    this.code = code;
    this.step = step;
    this.effect = effect;
  }
}

/** A tool throws it to say that nothing was sent: it is tried again, as often as the tool declares. */
export class Unsent extends Error {
  name = "Unsent";
}

/** A wait has expired, and there is no default. */
export class TimedOut extends Error {
  name = "TimedOut";
}

/** The run is to end: it was cancelled, or its time is over. Every further verb throws it again. */
export class Ending extends Error {
  /** @param {string} code */
  constructor(code) {
    super(`the run is to end: ${code}`);
    this.name = "Ending";
    this.code = code;
  }
}

/** The run is another worker's by now, or is left to people. Nothing more is written, whatever the program makes of it. */
export class Stopped extends Error {
  /** @param {string} message @param {{park?: {reason: string, message: string, hint?: string}}} [about] */
  constructor(message, { park } = {}) {
    super(message);
    this.name = "Stopped";
    this.park = park;
  }
}
