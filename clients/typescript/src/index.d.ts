import type { components, operations } from "./api.js";

export type { components, operations };

type Op = keyof operations;

/** How an operation is called. key: its Idempotency-Key. */
export interface Given<Name extends Op> {
  path?: operations[Name]["path"];
  query?: operations[Name]["query"];
  body?: operations[Name]["body"];
  key?: string;
  waitMs?: number;
  patienceMs?: number;
}

export interface ClientOptions {
  token: string;
  /** For how long a request that is safe to repeat is repeated. */
  patienceMs?: number;
  fetch?: typeof fetch;
}

/** An answer. A list that is no page names the rows that it leaves out because they cannot be read. */
export type Answer<Name extends Op> = operations[Name]["answer"] extends (infer Row)[] | null
  ? Row[] & { damaged: components["DamagedRow"][] }
  : operations[Name]["answer"];

export class Client {
  constructor(url: string, options: ClientOptions);
  call<Name extends Op>(name: Name, given?: Given<Name>): Promise<Answer<Name>>;
  start(
    agent: string,
    args?: unknown[],
    options?: { key?: string; kwargs?: Record<string, unknown>; session?: string; timeout?: string },
  ): Promise<components["RunAnswer"]>;
  run(id: string): Promise<components["RunAnswer"]>;
  result(id: string, options?: { waitSeconds?: number }): Promise<components["RunAnswer"] | null>;
  answer(ask: string, value: unknown): Promise<components["AskAnswer"]>;
  signal(run: string, name: string, payload?: unknown, options?: { key?: string }): Promise<unknown>;
}

/** Handed to a tool with its arguments. key: the same at every attempt, for the other side to deduplicate on. */
export interface Handed {
  key: string;
  attempt: number;
  signal: AbortSignal;
}

export type Verdict =
  | { verdict: "happened"; result?: unknown }
  | { verdict: "absent" | "declined" | "unknown"; reason?: string };

export interface ToolDeclaration<Args> {
  name: string;
  kind?: "idempotent" | "keyed" | "probed" | "unsafe";
  probe?: (args: Args, handed: { key: string }) => Promise<Verdict>;
  /** Which errors say that it did not happen; besides Failed. */
  fails?: (error: unknown) => boolean;
  retries?: number;
  /** The deadline of one call, which the worker keeps; `timeout` is what the ledger is told ("30s"). */
  timeoutMs?: number;
  timeout?: string;
  landsWithin?: string;
  keepsKeys?: string;
}

export interface Tool<Args, Result> extends ToolDeclaration<Args> {
  fn: (args: Args, handed: Handed) => Promise<Result>;
}

export function tool<Args extends object, Result>(
  declared: ToolDeclaration<Args>,
  fn: (args: Args, handed: Handed) => Promise<Result>,
): Tool<Args, Result>;

export class Run {
  readonly id: string;
  readonly session: string | null;
  readonly kwargs: Record<string, unknown>;
  readonly cancelling: boolean;
  readonly restored: any;
  step<Args extends unknown[], Result>(fn: (...args: Args) => Result | Promise<Result>, ...args: Args): Promise<Result>;
  model<Args extends unknown[], Result>(
    fn: (...args: Args) => Result | Promise<Result>,
    args: Args,
    pins?: Record<string, unknown>,
  ): Promise<Result>;
  act<Args extends object, Result>(
    tool: Tool<Args, Result>,
    args?: Args,
    options?: { approve?: string; approveWithin?: string; about?: string[] },
  ): Promise<Result>;
  ask(
    question: string,
    options?: { choices?: string[]; timeout?: string; default?: unknown; detail?: unknown; about?: string[] },
  ): Promise<any>;
  sleep(duration: string): Promise<void>;
  wait(name: string, options?: { timeout?: string; default?: unknown }): Promise<any>;
  call(
    agent: string,
    args?: unknown[],
    options?: { kwargs?: Record<string, unknown>; timeout?: string; about?: string[] },
  ): Promise<any>;
  checkpoint(state: unknown): Promise<boolean>;
  patched(name: string): Promise<boolean>;
  branch(name: string): Run;
  all<Results extends unknown[]>(functions: { [At in keyof Results]: (run: Run) => Promise<Results[At]> }): Promise<Results>;
}

export interface Agent {
  name: string;
  program: string;
  pins?: Record<string, unknown>;
  onChange?: "continue" | "park" | "ask";
  fn: (run: Run, ...args: any[]) => Promise<unknown>;
}

export function agent(
  name: string,
  fn: (run: Run, ...args: any[]) => Promise<unknown>,
  options?: { version?: string; pins?: Record<string, unknown>; onChange?: "continue" | "park" | "ask" },
): Agent;

export interface WorkerOptions {
  url: string;
  token: string;
  agents: Agent[];
  concurrency?: number;
  waitSeconds?: number;
  patienceMs?: number;
  /** For how long a new verb waits for what is recorded in other branches; then the run is parked as changed. */
  holdMs?: number;
  /** For how long the result of a tool or step is kept while the server is away; default: ten minutes. */
  keepMs?: number;
  log?: (line: string, about?: object) => void;
}

export class Worker {
  constructor(options: WorkerOptions);
  work(options?: { graceMs?: number }): Promise<void>;
  stop(): void;
}

export class Problem extends Error {
  status: number;
  path: string;
  hint: string;
  facts: Record<string, string>;
  /** Of a write that may have been carried out: the same call with it does it once. */
  key?: string;
}
export class Unreachable extends Error {
  key?: string;
}
export class Failed extends Error {
  constructor(message: string, about?: { code?: string; step?: string; effect?: number });
  code: string;
}
export class Unsent extends Error {}
export class TimedOut extends Error {}
export class Ending extends Error {
  code: string;
}
export class Stopped extends Error {}
