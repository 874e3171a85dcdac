// The client and the worker against a server that stands in this process.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { agent, Client, Failed, Problem, tool, Unreachable, Worker } from "../src/index.js";

/** A server that answers by a function of method, path and body; `null` ends the connection. */
async function serving(answer, use) {
  const seen = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    const body = text ? JSON.parse(text) : undefined;
    seen.push({ method: request.method, path: request.url, body, headers: request.headers });
    const found = await answer(request.method, request.url, body, seen.length);
    if (found === null) return request.socket.destroy();
    const [status, said, headers] = found;
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(said === undefined ? undefined : JSON.stringify(said));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${server.address().port}`, seen);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a lost answer is asked for again only where that is safe", async () => {
  await serving((_m, _p, _b, number) => (number === 1 ? null : [200, { id: "r" }]), async (url, seen) => {
    const client = new Client(url, { token: "t" });
    assert.deepEqual(await client.run("a/b"), { id: "r" });
    assert.equal(seen.length, 2);
    assert.equal(seen[0].path, "/v1/runs/a%2Fb");
    assert.equal(seen[0].headers.authorization, "Bearer t");
  });
  await serving(() => null, async (url, seen) => {
    const client = new Client(url, { token: "t" });
    await assert.rejects(client.call("revoke_token", { path: { token: "x" } }), Unreachable);
    assert.equal(seen.length, 1); // it takes no key
  });
  await serving((_m, _p, _b, number) => (number < 3 ? null : [201, { id: "r" }]), async (url, seen) => {
    const client = new Client(url, { token: "t" });
    assert.deepEqual(await client.start("fix", [1], { key: "k" }), { id: "r" });
    assert.ok(seen.every((each) => each.headers["idempotency-key"] === "k"));
  });
});

test("a write has a key of its own, which its error tells when it may have been carried out", async () => {
  const start = (url, patienceMs = 200) => new Client(url, { token: "t", patienceMs }).start("fix", [1]);
  const keys = (seen) => [...new Set(seen.map((each) => each.headers["idempotency-key"]))];
  await serving((_m, _p, _b, number) => (number < 3 ? null : [201, { id: "r" }]), async (url, seen) => {
    assert.deepEqual(await start(url, 60_000), { id: "r" });
    assert.deepEqual([seen.length, keys(seen).length, keys(seen)[0].length], [3, 1, 36]);
  });
  const refused = (title, status) => [status, { title, status, detail: "no" }];
  for (const [told, is_told] of [
    [[null], true],
    [[[502, { x: 1 }]], true],
    [[null, refused("Limited", 429)], true],
    [[null, refused("Unauthenticated", 401)], true],
    [[refused("Limited", 429)], false],
    [[null, refused("Conflict", 409)], false],
    [[refused("NotFound", 404)], false],
  ]) {
    await serving((_m, _p, _b, number) => told[Math.min(number, told.length) - 1], async (url, seen) => {
      const error = await start(url).catch((raised) => raised);
      assert.deepEqual([error.key], is_told ? keys(seen) : [undefined], JSON.stringify(told));
      if (is_told) assert.ok(error.message.includes(error.key));
    });
  }
});

test("a list names the rows that it leaves out because they cannot be read", async () => {
  const rows = [{ where: "session \ud83d\udd25 memory 3", reason: "no" }];
  const named = { "perdure-damaged": JSON.stringify(rows).replace(/[^ -~]/g, (each) => `\\u${each.charCodeAt(0).toString(16)}`) };
  for (const [headers, damaged] of [[named, rows], [{}, []]]) {
    await serving(() => [200, [{ score: 1 }], headers], async (url) => {
      const hits = await new Client(url, { token: "t" }).call("recall_across", { query: { q: "push" } });
      assert.deepEqual([...hits], [{ score: 1 }]);
      assert.deepEqual(hits.damaged, damaged);
    });
  }
});

test("a success that is no JSON is no answer", async () => {
  const answers = ["", '{"id": "r', '{"id": "r"}'];
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(answers.shift());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = new Client(`http://127.0.0.1:${server.address().port}`, { token: "t" });
  assert.deepEqual(await client.run("r"), { id: "r" });
  server.closeAllConnections();
  server.close();
});

test("a result in hand is kept for longer than any other request", async () => {
  let lost = 0;
  const program = async (run, n) => run.step(double, n);
  const seen = await driven(program, claimed(), { steps: (body) => ((lost += 1) < 4 ? null : { next: "given", step: { value: body.value } }) }, {
    patienceMs: 1, keepMs: 20_000,
  });
  assert.deepEqual([lost, seen.at(-1)[0]], [4, "finish"]);
});

test("a problem has the path of what is wrong and the way out", async () => {
  const said = { title: "NotFound", detail: "there is no run", path: "run", hint: "look", status: 404 };
  await serving(() => [404, said], async (url) => {
    const found = await new Client(url, { token: "t" }).run("x").catch((error) => error);
    assert.ok(found instanceof Problem);
    assert.deepEqual([found.name, found.status, found.path, found.hint], ["NotFound", 404, "run", "look"]);
  });
});

const claimed = (journal = [], more = {}) => ({
  run: "r1", token: 3, agent: "fix", args: [2], kwargs: {}, session: null, cut: 0, has_checkpoint: false, restored: null,
  cancelling: false, timeout_at: null, lease_seconds: 60, journal: { items: journal, next: null }, ...more,
});

/** Drive one claimed run; gives the requests about it. */
async function driven(program, claim, answers = {}, options = {}) {
  let worker;
  const answer = (_method, path, body) => {
    if (path === "/v1/work/claim") return worker.claimed ? [204] : ((worker.claimed = true), [200, claim]);
    if (path.startsWith("/v1/work/")) return [200, { runs: [], draining: false, lease_seconds: 60 }];
    const verb = path.replace("/v1/runs/r1/", "");
    if (/^(finish|fail|park|rest|release)$/.test(verb)) worker.stop();
    const given = answers[verb]?.(body);
    if (given === null) return null;
    const found = given ?? { next: "given", cancelling: false, awaited: [], step: { value: body.value } };
    return Array.isArray(found) ? found : [200, found];
  };
  return serving(answer, async (url, seen) => {
    worker = new Worker({ url, token: "t", agents: [agent("fix", program)], waitSeconds: 0, holdMs: 20, ...options });
    await worker.work();
    return seen.filter((each) => each.path.startsWith("/v1/runs/")).map((each) => [each.path.replace("/v1/runs/r1/", ""), each.body]);
  });
}

const double = async (n) => n * 2;

test("a step that is recorded is not done again, the next one is", async () => {
  let ran = 0;
  async function look(n) {
    ran += 1;
    return n + 1;
  }
  const program = async (run, n) => [await run.step(look, n), await run.step(look, n)];
  const first = await driven(program, claimed());
  assert.deepEqual(first.map(([verb, body]) => [verb, body.place ?? body.result]), [["steps", "0//1"], ["steps", "0//2"], ["finish", [3, 3]]]);
  const item = { place: "0//1", what: "step", name: "look", digest: first[0][1].digest, seq: 3, step: { value: 40, error: null } };
  ran = 0;
  const again = await driven(program, claimed([item]));
  assert.equal(ran, 1);
  assert.deepEqual(again.at(-1), ["finish", { holder: again[0][1].holder, token: 3, result: [40, 3] }]);
});

test("a program that does something else is parked, and one that leaves something out", async () => {
  const item = { place: "0//1", what: "step", name: "other", digest: "d", seq: 3, step: { value: 1, error: null } };
  const [[verb, body]] = await driven(async (run, n) => run.step(double, n), claimed([item]));
  assert.deepEqual([verb, body.reason], ["park", "changed"]);
  const [[left, said]] = await driven(async () => 1, claimed([item]));
  assert.deepEqual([left, said.reason], ["park", "changed"]);
});

test("a tool is called only after `send`, and what it throws is told", async () => {
  const calls = [];
  const mail = tool({ name: "mail", kind: "keyed" }, async (args, { key }) => {
    calls.push(key);
    throw new Failed("no such box", { code: "NoBox" });
  });
  const effect = { seq: 5, attempt: 1, sent_key: "k", args: { to: "bob" }, settled: false };
  const failed = { ...effect, settled: true, state: "failed", error: { code: "NoBox", message: "no such box" } };
  const seen = await driven(async (run) => run.act(mail, { to: "bob" }), claimed(), {
    effects: () => (assert.deepEqual(calls, []), { next: "send", cancelling: false, effect }),
    "effects/5/outcome": (body) => (assert.equal(body.outcome, "failed"), { next: "given", effect: failed, pause_seconds: 0 }),
  });
  assert.deepEqual(calls, ["k"]);
  assert.deepEqual(seen.map(([verb]) => verb), ["effects", "effects/5/outcome", "fail"]);
  assert.deepEqual([seen[2][1].code, seen[2][1].effect], ["NoBox", 5]);
});

test("a run rests when all that it does waits", async () => {
  const waits = (seq) => ({ next: "rest", why: "signal", awaited: [seq], cancelling: false, wake_at: null, wait: { seq } });
  const program = (run) => run.all([(one) => one.wait("a"), (two) => two.wait("b")]);
  const seen = await driven(program, claimed(), { waits: (body) => waits(body.name === "a" ? 7 : 8) });
  assert.deepEqual(seen.map(([verb, body]) => body.place ?? verb), ["0/1/1", "0/2/1", "rest"]);
  assert.deepEqual([...seen[2][1].awaited].sort(), [7, 8]);
});

test("a worker that lost its lease stops, and does not call", async () => {
  const stale = [409, { title: "Stale", detail: "taken over", status: 409 }];
  let called = 0;
  const mail = tool({ name: "mail" }, async () => (called += 1));
  const seen = await driven(async (run) => run.act(mail), claimed(), { effects: () => stale });
  assert.equal(called, 0);
  assert.deepEqual(seen.map(([verb]) => verb), ["effects", "release"]);
});

test("after a checkpoint places count from the start, in branches too", async () => {
  const program = async (run, n) => {
    void run.restored;
    await run.all([(one) => one.step(double, n)]);
    await run.checkpoint({ n });
    return run.all([(one) => one.step(double, n), (two) => two.step(double, n)]);
  };
  const seen = await driven(program, claimed(), { checkpoints: () => ({ next: "given", cut: 1, cancelling: false }) });
  assert.deepEqual(seen.map(([verb, body]) => body.place ?? verb), ["0/1/1", "checkpoints", "1/1/1", "1/2/1", "finish"]);
});

const mailed = (place, to) => ({
  place, what: "effect", name: "mail", digest: "d", seq: 3, effect: { seq: 3, args: { to }, settled: true, state: "committed", result: to },
});
const mail = tool({ name: "mail" }, async ({ to }) => to);
const given = (body) => ({ next: "given", cancelling: false, effect: { seq: 9, settled: true, state: "committed", result: body.args.to } });

test("a call that moved into another branch is not made again, and the run is parked before anything is sent", async () => {
  const mails = (one) => one.act(mail, { to: "ann" });
  const programs = {
    "0//1": (run) => run.all([mails, (two) => two.act(mail, { to: "bob" })]), // of its own line once
    "0/1/1": mails, // of a branch that is not begun any more
    "0/.'old'/1": (run) => mails(run.branch("new")),
    "0/2/1": (run) => run.all([(one) => one.act(mail, { to: "bob" }), async () => 1]), // of one that came to its end
  };
  for (const [place, program] of Object.entries(programs)) {
    const seen = await driven(program, claimed([mailed(place, "ann")]), { effects: given });
    assert.deepEqual(seen.map(([verb, body]) => [verb, body.reason]), [["park", "changed"]], place);
  }
});

test("a new call waits for the records of its own program, and then it is made", async () => {
  const program = async (run) => {
    const beside = run.all([(one) => one.act(mail, { to: "new" })]);
    await new Promise(setImmediate);
    return [await run.act(mail, { to: "ann" }), ...(await beside)];
  };
  const seen = await driven(program, claimed([mailed("0//1", "ann")]), { effects: given });
  assert.deepEqual(seen.map(([verb, body]) => body.place ?? body.result ?? verb), ["0/1/1", ["ann", "new"]]);
});
