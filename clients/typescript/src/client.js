// The client: every route of the server by the name of its operation, repeated where that is safe.

import { randomUUID } from "node:crypto";

import { Problem, Unreachable } from "./errors.js";
import { OPERATIONS } from "./operations.js";

const PAUSES_MS = [50, 100, 200, 500, 1000, 2000];
const LATER = new Set([429, 502, 503, 504]);
const AHEAD = new Set([401, 403, 429, 504, 507]); // may come before the server looks what stands under a key

/** Wait; not longer than until the signal. @param {number} ms @param {AbortSignal} [signal] */
export const pause = (ms, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, ms);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });

/** A server, by its address and a token. */
export class Client {
  /**
   * @param {string} url
   * @param {{token: string, patienceMs?: number, fetch?: typeof fetch}} options
   * patienceMs: for how long a request that is safe to repeat is repeated.
   */
  constructor(url, { token, patienceMs = 30_000, fetch = globalThis.fetch }) {
    this.url = url.replace(/\/+$/, "");
    this.patienceMs = patienceMs;
    this._fetch = fetch;
    this._headers = { authorization: `Bearer ${token}` };
  }

  /**
   * Call an operation of the OpenAPI document. The answer of a wait that ended without anything is null. A list has `damaged`, as
   * a page has: the rows that were left out because they cannot be read.
   *
   * A read, a PUT, a verb of workers and whatever takes a `key` is repeated when an answer was lost: each of them is carried out
   * once. Any other request is sent once. A write that may have been carried out though nobody answered it throws an error with
   * its `key`: the same call with that key does it once.
   * @param {string} name
   * @param {{path?: Record<string, string | number>, query?: Record<string, unknown>, body?: unknown, key?: string,
   *   waitMs?: number, patienceMs?: number}} [given]
   */
  async call(name, { path = {}, query, body, key, waitMs = 0, patienceMs = this.patienceMs } = {}) {
    const operation = OPERATIONS[name];
    if (!operation) throw new TypeError(`there is no operation ${name}`);
    const [method, template, right, takesKey] = operation;
    const own = key ?? (takesKey ? randomUUID() : undefined);
    const parts = template.replace(/{(\w+)}/g, (_, part) => encodeURIComponent(String(path[part])));
    const asked = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
    const text = asked.length ? `?${new URLSearchParams(asked.map(([each, value]) => [each, String(value)]))}` : "";
    const repeats = method === "GET" || method === "PUT" || right === "work" || own !== undefined;
    const request = { method, headers: this._headersOf(body, own), body: body === undefined ? undefined : JSON.stringify(body) };
    return this._repeat(this.url + parts + text, request, waitMs, repeats ? patienceMs : 0, own);
  }

  _headersOf(body, key) {
    const json = body === undefined ? {} : { "content-type": "application/json" };
    return { ...this._headers, ...json, ...(key === undefined ? {} : { "idempotency-key": key }) };
  }

  async _repeat(url, request, waitMs, patienceMs, key) {
    const until = performance.now() + patienceMs;
    for (let number = 0, open = false; ; number += 1) {
      const found = await this._once(url, request, waitMs);
      if (!found.problem) return found.answer;
      open = leavesOpen(found.problem, open);
      const ms = Math.max(found.retryMs ?? 0, PAUSES_MS[Math.min(number, PAUSES_MS.length - 1)]);
      if (!found.later || performance.now() + ms > until) throw open && key !== undefined ? told(found.problem, key) : found.problem;
      await pause(ms);
    }
  }

  /** One attempt. `later`: whether it may be tried again. */
  async _once(url, request, waitMs) {
    let status, text, kind, retryAfter, damaged;
    try {
      const answer = await this._fetch(url, { ...request, signal: AbortSignal.timeout(waitMs + 20_000) });
      retryAfter = answer.headers.get("retry-after");
      kind = answer.headers.get("content-type") ?? "";
      damaged = answer.headers.get("perdure-damaged");
      ({ status } = answer);
      text = await answer.text();
    } catch (error) {
      const why = `the server does not answer: ${error.cause?.message ?? error.message}`;
      return { later: true, problem: new Unreachable(why, { cause: error }) };
    }
    if (status === 204) return { answer: null };
    const body = parsed(text);
    if (Array.isArray(body)) body.damaged = parsed(damaged ?? "[]") ?? [];
    if (status < 300 && (body !== undefined || !kind.includes("json"))) return { answer: body ?? null };
    if (status < 300) return { later: true, problem: new Unreachable(`the server answered ${status} with half an answer, or none`) };
    const problem = new Problem(status, body ?? { title: "Problem", detail: `the server answered ${status}` });
    return { later: LATER.has(status), problem, retryMs: retryAfter === null ? undefined : Number(retryAfter) * 1000 };
  }

  /** Begin a run and leave it to the workers. key: the same key and arguments give the same run. */
  async start(agent, args = [], { key, kwargs = {}, session, timeout } = {}) {
    return this.call("start_run", { body: { agent, args, kwargs, session, timeout }, key });
  }

  /** A run, as it stands. */
  async run(id) {
    return this.call("get_run", { path: { run: id } });
  }

  /** A run once it is over or parked; null if that did not come in time. */
  async result(id, { waitSeconds = 30 } = {}) {
    return this.call("get_run_result", { path: { run: id }, query: { wait: waitSeconds }, waitMs: waitSeconds * 1000 });
  }

  /** Answer a question of a run. */
  async answer(ask, value) {
    return this.call("answer_ask", { path: { ask }, body: { value }, key: `answer-${ask}` });
  }

  /** Send a signal to a run. key: so that it is sent once. */
  async signal(run, name, payload = null, { key } = {}) {
    return this.call("signal_run", { path: { run }, body: { name, payload }, key });
  }
}

/** Whether a write that ended so may have been carried out. before: an earlier attempt at it was not answered. */
function leavesOpen(problem, before) {
  const says = problem instanceof Problem && !["Problem", "Error", "Unavailable", "Damaged"].includes(problem.name);
  return !says || (before && AHEAD.has(problem.status));
}

function told(problem, key) {
  problem.key = key;
  problem.message += `; this write may have been carried out: the same call with key ${JSON.stringify(key)} does it once`;
  return problem;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
