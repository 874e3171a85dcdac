// Perdure for JavaScript and TypeScript: a client of a server, and a worker that drives runs.

export { Client } from "./client.js";
export { Ending, Failed, Problem, Stopped, TimedOut, Unreachable, Unsent } from "./errors.js";
export { Run, tool } from "./run.js";
export { agent, Worker } from "./worker.js";
