// The inbox: questions, approvals with the very arguments, and doubts with their evidence.
import { html, useState, useEffect, useRef, useRead, get, post, part, Page, Empty, Loading, Pill, Until, Text, Json, Act, As, Trouble, count, quoted, streamAt, seen, show, typed, oops, say, ago } from "../base.mjs";

const by = (id) => `/v1/asks/${part(id)}/answer`;

// Somebody else was first: the server says who and how it stands, and that outlives the card.
async function decided(id, onGone, asked) {
  try {
    return await asked;
  } catch (problem) {
    if (problem.status !== 409 || /lives/.test(problem.message)) throw problem;
    onGone(id, `Somebody was first: ${problem.message}.`, true);
    return null;
  }
}

function Where({ kind, name, seq }) {
  const href = streamAt(kind, name, kind === "run" ? seq : undefined);
  return html`<a href=${href}>${kind} <code>${seen(name)}</code></a>`;
}

function Card({ id, chosen, children }) {
  const card = useRef(null);
  useEffect(() => { if (chosen) { card.current.scrollIntoView({ block: "center" }); card.current.focus({ preventScroll: true }); } }, [chosen]);
  return html`<article class="card pad" tabindex="-1" ref=${card} id=${id} aria-label=${seen(id)}>${children}</article>`;
}

function Ask({ ask, chosen, onGone }) {
  const [text, set] = useState("");
  const approval = ask.kind === "approval" && ask.detail?.tool; // of a call: one of other versions names none
  const choices = ask.choices.length ? ask.choices : null;
  const answer = (value) => async () => {
    const done = await decided(ask.id, onGone, post(by(ask.id), { value }));
    if (!done) return;
    onGone(ask.id, `${ask.question}: ${value}, by ${done.met_by}. ${ask.stream_kind === "run" ? "Its run continues." : ""}`);
  };
  const verb = (value) => `perdure answer ${quoted(ask.id)} ${quoted(value)}`;
  return html`<${Card} id=${ask.id} chosen=${chosen}>
    <div class="card-top"><${Pill} state=${ask.kind} /><${Where} kind=${ask.stream_kind} name=${ask.stream} seq=${ask.seq} /><span>asked ${ago(ask.at)} by ${say(ask.actor)}</span>
      ${ask.expires_at && html`<span class="push"><${Until} at=${ask.expires_at} />${ask.default !== null && html`, then <strong>${say(show(ask.default))}</strong>`}</span>`}</div>
    <h2 class="question">${say(ask.question)}</h2>
    ${approval && ask.detail && html`<p class="soft">Approving lets <code>${seen(ask.detail.tool)}</code> be called with exactly these arguments, and no others.</p><${Json} value=${ask.detail.args} label="arguments" /><p class="small soft mono wrap">digest ${ask.digest}</p>`}
    ${!approval && ask.detail !== null && html`<${Json} value=${ask.detail} label="details" />`}
    <div class="acts">
      ${choices ? choices.map((choice, n) => html`<${Act} key=${choice} kind=${n === 0 ? "main" : ""} label=${say(choice)} command=${verb(choice)} run=${answer(choice)} />`)
        : html`<label>Your answer<input value=${text} maxlength="4000" onInput=${(event) => set(event.target.value)} /></label>
          <${Act} kind="main" label="Answer" command=${verb(text || "…")} disabled=${!text} run=${answer(text)} />`}
    </div>
    <${As} />
  <//>`;
}

const SENDER = {
  dead: "The process is dead: proved by its lock file.",
  alive: "The process lives: it may still send.",
  silent: "The process gives no sign of life; nobody can prove that it died.",
  unknown: "The sender is not known.",
};

export function Sender({ sender }) {
  return html`<div><${Pill} state=${sender.state} /> <span>${SENDER[sender.state]}</span>
    ${sender.holder && html`<div class="small soft">${sender.host && html`on ${say(sender.host)}, `}holder <code>${sender.holder.slice(0, 12)}</code>${sender.quiet_at && html`; unable to send since ${ago(sender.quiet_at)}`}</div>`}</div>`;
}

function Doubt({ doubt, chosen, onGone }) {
  const [result, setResult] = useState("");
  const [reason, setReason] = useState("");
  const [force, setForce] = useState(false);
  const [value = null, wrong] = typed(result);
  const settle = (verdict) => async () => {
    const body = verdict === "happened" ? { verdict, result: value } : { verdict: verdict === "failed" ? "declined" : verdict, reason, force: verdict === "absent" && force };
    const done = await decided(doubt.id, onGone, post(`/v1/effects/${part(doubt.id)}/settle`, body));
    if (!done) return;
    onGone(doubt.id, `${doubt.tool} was settled as ${verdict} by ${done.settled_by}. It is ${done.state.replace("_", " ")} now.`);
  };
  const base = `perdure settle ${quoted(doubt.id)}`;
  const because = reason ? ` --reason ${quoted(reason)}` : "";
  return html`<${Card} id=${doubt.id} chosen=${chosen}>
    <div class="card-top"><${Pill} state="in_doubt" /><${Where} kind=${doubt.stream_kind} name=${doubt.stream} seq=${doubt.seq} /><span>sent ${ago(doubt.dispatched_at || doubt.at)} by ${say(doubt.actor)}</span><span class="push">attempt ${doubt.attempt} · ${doubt.kind}</span></div>
    <h2 class="question">Did <code>${seen(doubt.tool)}</code> happen?</h2>
    <p class="soft">${doubt.error ? say(oops(doubt.error)) : "The call was sent, and no outcome was recorded."} ${doubt.advice.reason && html`<${Text}>${`Advice: ${doubt.advice.action}, because ${doubt.advice.reason}.`}<//>`}</p>
    <div class="evidence">
      <div><h3>Arguments that were sent</h3><${Json} value=${doubt.args} label="arguments" /></div>
      <div><h3>Sender</h3><${Sender} sender=${doubt.sender} />
        <h3>Key that was sent</h3><p class="mono small wrap">${doubt.sent_key || doubt.key}</p><p class="small soft">Search for it on the other side: it stands for this call and no other.</p></div>
      <div><h3>What is recorded about it</h3><ol class="trail small">${doubt.history.map((each) => html`<li key=${each.seq}><strong>${each.kind}</strong> <span class="soft">#${each.seq} ${ago(each.at)}</span>${each.said?.error && html`<div>${say(oops(each.said.error))}</div>`}</li>`)}</ol></div>
    </div>
    ${doubt.sender.state === "alive" && html`<p class="caution">Its sender lives. End that process first: saying that it did not happen lets it be sent once more.</p>`}
    <div class="acts">
      <label>If it happened, its result (JSON, may stay empty)<textarea value=${result} spellcheck="false" onInput=${(event) => setResult(event.target.value)}></textarea></label>
      <${Trouble} problem=${wrong} />
      <${Act} kind="main" label="It happened" disabled=${Boolean(wrong)} command=${`${base} happened${result.trim() ? ` --result ${quoted(result.trim())}` : ""}`} run=${settle("happened")} />
      <label>If it did not, the reason: how you know<input value=${reason} maxlength="2000" onInput=${(event) => setReason(event.target.value)} /></label>
      ${doubt.sender.state === "alive" && html`<label class="check"><input type="checkbox" checked=${force} onChange=${(event) => setForce(event.target.checked)} />I know that the living process will not send it</label>`}
      <${Act} label="It did not, try again" command=${`${base} absent${because}${force ? " --force" : ""}`} run=${settle("absent")} />
      <${Act} kind="harm" label="It did not, give up" command=${`${base} failed${because}`} run=${settle("failed")} />
    </div>
    <${As} />
    ${doubt.kind === "unsafe" && html`<details class="small"><summary>What would have settled this without you</summary><p class="wrap">${say(doubt.ways_out)}</p></details>`}
  <//>`;
}

// A card that vanished while it was looked at: how it ended, who ended it, when.
async function ended(id, was, onGone) {
  const kind = was.ask ? "asks" : "effects";
  const found = await get(`/v1/${kind}/${part(id)}`).catch(() => null);
  if (!found) return;
  if (was.ask) onGone(id, `${found.question}: ${found.state === "met" ? `${show(found.answer)}, by ${found.met_by}` : found.state}.`, true);
  else onGone(id, `${found.tool} is ${found.state.replace("_", " ")} now${found.settled_by ? `, settled by ${found.settled_by}` : ""}.`, true);
}

export function Inbox({ query }) {
  const read = useRead("/v1/console/inbox");
  const [gone, setGone] = useState([]);
  const known = useRef(new Map());
  const inbox = read.data;
  const onGone = (id, said, elsewhere = false) => {
    known.current.delete(id);
    setGone((was) => [{ id, said, elsewhere }, ...was.filter((each) => each.id !== id)].slice(0, 5));
  };
  const all = inbox ? [...inbox.asks.map((ask) => ({ id: ask.id, at: ask.at, ask })), ...inbox.doubts.map((doubt) => ({ id: doubt.id, at: doubt.dispatched_at || doubt.at, doubt }))] : [];
  all.sort((a, b) => (a.at < b.at ? -1 : 1));
  useEffect(() => {
    if (!inbox) return;
    const open = new Set(all.map((each) => each.id));
    for (const [id, was] of known.current) if (!open.has(id)) { known.current.delete(id); ended(id, was, onGone); }
    for (const each of all) known.current.set(each.id, each);
  }, [inbox]);
  const sub = inbox && (all.length ? `${count(inbox.asks.length, "question")} and ${count(inbox.doubts.length, "doubt")}, the oldest first.` : "No questions and no doubts.");
  return html`<${Page} title="Inbox" sub=${sub}><${Loading} read=${read} />
    <div aria-live="polite" class="notices">${gone.map((each) => html`<p class=${each.elsewhere ? "caution" : "done"} key=${each.id}>${say(each.said)}</p>`)}</div>
    ${inbox && !all.length && html`<${Empty} title="Nothing waits for you">Questions of runs, approvals and doubts come here.<//>`}
    ${all.map(({ ask, doubt }) => (ask
      ? html`<${Ask} key=${ask.id} ask=${ask} chosen=${query.id === ask.id} onGone=${onGone} />`
      : html`<${Doubt} key=${doubt.id} doubt=${doubt} chosen=${query.id === doubt.id} onGone=${onGone} />`))}
    ${inbox?.more && html`<p class="soft more">There are more than are shown: <code>perdure asks</code>, <code>perdure effects --in-doubt</code>.</p>`}
  <//>`;
}
