// One run: its standing, its buttons, and its story with the state at any event.
import { html, useState, useEffect, useMemo, useRef, useRead, get, post, part, go, Page, Section, Box, Loading, Pill, Until, Json, Facts, Act, As, Trouble, Fragment, count, lasting, clock, oops, runAt, sessionAt, seen, ago, say, told } from "../base.mjs";
import { Strip } from "./strip.mjs";
import { Fork, RunDiff } from "./forking.mjs";

const LINE = 32;
const GAP_MS = 30000;

// -- the story --

export function look(kind) {
  if (/doubt|late|absent/.test(kind)) return "k-doubt";
  if (/failed|parked|cancel|withdrawn/.test(kind)) return "k-bad";
  if (/^ask|wait|signal/.test(kind)) return "k-wait";
  if (/^effect/.test(kind)) return "k-effect";
  return /^run/.test(kind) ? "k-run" : "k-step";
}

function laidOut(story) {
  const lines = [];
  const lineOf = new Map();
  story.seq.forEach((seq, n) => {
    const gap = n ? (story.at_us[n] - story.at_us[n - 1]) / 1000 : 0;
    if (gap > GAP_MS) lines.push({ gap, n });
    lineOf.set(n, lines.length);
    lines.push({ n });
  });
  return { lines, lineOf };
}

function Listing({ story, chosen, onChoose }) {
  const branched = story.branches.length > 1;
  const { lines, lineOf } = useMemo(() => laidOut(story), [story]);
  const box = useRef(null);
  const [view, set] = useState({ top: 0, height: 640 });
  useEffect(() => {
    const measure = () => box.current && set({ top: box.current.scrollTop, height: box.current.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!box.current) return;
    const y = lineOf.get(chosen) * LINE;
    if (y < box.current.scrollTop + LINE || y > box.current.scrollTop + box.current.clientHeight - 2 * LINE) box.current.scrollTop = y - box.current.clientHeight / 2;
  }, [chosen, lineOf]);
  const from = Math.max(0, Math.floor(view.top / LINE) - 10);
  const shown = lines.slice(from, from + Math.ceil(view.height / LINE) + 20);
  function key(event) {
    const page = Math.floor(view.height / LINE) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    onChoose(Math.max(0, Math.min(story.seq.length - 1, chosen + step)));
  }
  return html`<div class="card listing" ref=${box} role="listbox" tabindex="0" aria-label="Events" aria-activedescendant=${`e${chosen}`} onScroll=${() => set({ top: box.current.scrollTop, height: box.current.clientHeight })} onKeyDown=${key} style=${{ height: `${Math.min(640, lines.length * LINE + 2)}px` }}>
    <div class="spacer" role="presentation" style=${{ height: `${lines.length * LINE}px` }}>${shown.map(({ gap, n }, k) => {
      const style = { top: `${(from + k) * LINE}px` };
      if (gap) return html`<div class="gap-line" key=${`g${n}`} role="presentation" style=${style}>${lasting(gap)}</div>`;
      const kind = story.kinds[story.kind[n]];
      return html`<div class=${`line ${n > chosen ? "ahead" : ""}`} id=${`e${n}`} key=${n} role="option" aria-selected=${n === chosen} aria-posinset=${n + 1} aria-setsize=${story.seq.length} style=${style} onClick=${() => onChoose(n)}>
        <span class="seq">${story.seq[n]}</span><span class=${`kind ${look(kind)}`}>${kind}</span><span class="about">${branched && story.branch[n] !== null && html`<span class="branch"><span class="unseen">branch </span>${seen(story.branches[story.branch[n]])}</span> `}${seen(story.names[story.about[n]])}${story.of[n] && story.of[n] !== story.seq[n] ? ` · #${story.of[n]}` : ""}</span><span class="when">${clock(story.at_us[n])}</span></div>`;
    })}</div></div>`;
}

// -- the state at an event --

function useAt(run, seq) {
  const [kept, set] = useState({});
  useEffect(() => {
    let dropped = false;
    const wait = setTimeout(() => {
      Promise.all([get(`/v1/console/runs/${part(run)}/events/${seq}`), get(`/v1/console/runs/${part(run)}/at/${seq}`)]).then(
        ([event, state]) => { if (!dropped) set({ seq, event, state }); },
        (problem) => { if (!dropped) set({ seq, problem }); },
      );
    }, kept.seq === undefined ? 0 : 40);
    return () => { dropped = true; clearTimeout(wait); };
  }, [run, seq]);
  return kept;
}

function State({ run, seq, steps, isLast, onFork }) {
  const { event, state, problem, seq: shown } = useAt(run, seq);
  if (problem) return html`<div class="card panel"><${Trouble} problem=${problem} /></div>`;
  if (!state) return html`<div class="card panel" role="status">Folding the log…</div>`;
  return html`<div class="card panel" aria-busy=${shown !== seq}>
    <${Loading} read=${{ data: { damaged: [...(event.damaged || []), ...(state.damaged || [])] } }} />
    <div><h2>After event ${state.seq}</h2><p class="soft small">${isLast ? "This is the present." : "The past, folded from the log up to here."}</p></div>
    <div><h3><span class=${look(event.kind)}>${event.kind}</span> ${event.actor && html`<span class="soft">by ${say(event.actor)}</span>`}</h3>
      ${event.about && event.about !== run && html`<p>${say(event.about)}${event.place && html` <span class="soft">at place <code>${seen(event.place)}</code></span>`}</p>`}
      ${event.said !== null && html`<${Json} value=${event.said} label="what the event says" />`}
      ${event.place && html`<p class="small"><button type="button" class="plain" onClick=${() => onFork(event.of || event.seq)}>Fork here with another result…</button></p>`}</div>
    ${state.run && html`<div><h3>The run</h3><p><${Pill} state=${state.run.status} /> ${state.run.reason && html`<span class="soft">${say(state.run.reason)} · </span>`}<span class="soft">${shown === seq ? `${count(steps, "step")}, ` : ""}${count(state.effect_count, "effect")}${state.run.holder ? html`, held by <code>${state.run.holder.slice(0, 8)}</code>` : ", held by nobody"}</span></p></div>`}
    ${state.waits.length > 0 && html`<div><h3>Waits for</h3>${state.waits.map((each) => html`<p key=${each.id}><${Pill} state="waiting" label=${each.kind} /> ${say(each.question || each.name)}</p>`)}</div>`}
    ${state.effects.length > 0 && html`<div><h3>Effects</h3><ul>${state.effects.toReversed().map((each) => html`<li key=${each.id}><${Pill} state=${each.state} /> <code>${seen(each.tool)}</code> <span class="soft small">#${each.seq}${each.attempt > 1 ? `, attempt ${each.attempt}` : ""}</span></li>`)}</ul></div>`}
    ${state.steps.length > 0 && html`<details><summary>Latest steps</summary><${Json} value=${state.steps.toReversed()} label="steps" /></details>`}
    ${state.run && state.run.result !== null && html`<div><h3>Result</h3><${Json} value=${state.run.result} label="result" /></div>`}
  </div>`;
}

function Story({ run, story, kin, query }) {
  const last = story.seq.length - 1;
  const wanted = Number(query.at);
  const chosen = query.at ? Math.max(0, nearest(story.seq, wanted)) : last;
  const [fork, setFork] = useState(null);
  const choose = (n) => go(n === last ? runAt(run) : runAt(run, story.seq[n]), { replace: true });
  const at = story.seq[chosen];
  return html`<${Fragment}>
    <div class="card strip"><${Strip} story=${story} kin=${kin} chosen=${chosen} onChoose=${choose} />
      <input type="range" min="0" max=${last} step="1" value=${chosen} aria-label="Event" aria-valuetext=${`event ${at}, ${story.kinds[story.kind[chosen]]}`} onInput=${(event) => choose(Number(event.target.value))} />
      <div class="strip-foot"><span class="legend"><span>ready</span><span class="l-live">driven</span><span class="l-step">step</span><span class="l-good">effect</span><span class="l-doubt">doubt</span><span class="l-wait">wait</span></span>
        <span class="keys"><kbd>←</kbd> <kbd>→</kbd> by event · ${count(story.seq.length, "event")} in ${lasting((story.at_us[last] - story.at_us[0]) / 1000)}, idle time shortened</span></div>
      ${kin.length > 0 && html`<ul class="lanes" aria-label="Children">${kin.map((child) => html`<li key=${child.id}>${"↳ "}<a href=${runAt(child.id)}>${say(child.agent)} <code>${child.id}</code></a> <${Pill} state=${child.status} /></li>`)}</ul>`}</div>
    ${!story.complete && html`<p class="caution">Only the newest ${count(story.seq.length, "event")} are drawn: <code>perdure events</code> has all.</p>`}
    <div class="story"><${Listing} story=${story} chosen=${chosen} onChoose=${choose} /><${State} run=${run} seq=${at} steps=${stepsBefore(story, chosen)} isLast=${chosen === last} onFork=${setFork} /></div>
    ${fork !== null && html`<${Fork} run=${run} place=${fork} onClose=${() => setFork(null)} />`}
    ${chosen !== last && html`<${RunDiff} run=${run} seq=${at} />`}
  <//>`;
}

function stepsBefore(story, chosen) {
  const step = story.kinds.indexOf("step.done");
  let found = 0;
  for (let n = 0; n <= chosen; n++) if (story.kind[n] === step) found++;
  return found;
}

function nearest(seqs, wanted) {
  let low = 0;
  let high = seqs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (seqs[middle] <= wanted) low = middle; else high = middle - 1;
  }
  return low;
}

// -- what can be done --

const VERBS = {
  resume: ["Re-check", "", ["waiting", "parked"]], retry: ["Try again", "main", ["failed"]], unpark: ["Let it continue", "main", ["parked"]],
  cancel: ["Cancel", "harm", ["ready", "running", "waiting", "parked"]],
};

function Decisions({ run }) {
  const shown = Object.entries(VERBS).filter(([, [, , states]]) => states.includes(run.status));
  if (!shown.length) return null;
  return html`<details class="card pad"><summary>Decide about this run</summary><div class="acts">
    ${shown.map(([verb, [label, kind]]) => html`<${Act} key=${verb} label=${label} kind=${kind} command=${`perdure ${verb} ${run.id}`} run=${async () => { const now = await post(`/v1/runs/${part(run.id)}/${verb}`); return `The run is ${now.status} now.`; }} />`)}
    </div><${As} /></details>`;
}

function Open({ found }) {
  const asks = found.waits.filter((each) => ["ask", "approval"].includes(each.kind));
  const doubts = found.open_effects.filter((each) => each.state === "in_doubt");
  if (!asks.length && !doubts.length) return null;
  return html`<div class="card pad">${asks.map((each) => html`<p key=${each.id}><${Pill} state=${each.kind} /> <a href=${`/inbox?id=${part(each.id)}`}>${say(each.question)}</a> ${each.expires_at && html`<span class="soft small"><${Until} at=${each.expires_at} /></span>`}</p>`)}
    ${doubts.map((each) => html`<p key=${each.id}><${Pill} state="in_doubt" /> <a href=${`/inbox?id=${part(each.id)}`}>Did <code>${seen(each.tool)}</code> happen?</a></p>`)}</div>`;
}

const standing = ({ standing: said }) => said[0].toUpperCase() + said.slice(1);

// The outline as the page uses it: instants instead of the time between events.
function timed(outline) {
  let at = outline.first_us;
  return { ...outline, at_us: outline.after_us.map((gap) => (at += gap)) };
}
const NONE = [];

export function Run({ given: [id], query }) {
  const read = useRead(`/v1/console/runs/${part(id)}`);
  const outline = useRead(`/v1/console/runs/${part(id)}/outline`);
  const story = useMemo(() => outline.data && timed(outline.data), [outline.data]);
  const run = read.data?.run;
  const title = run ? run.agent : `Run ${id.slice(0, 12)}`;
  return html`<${Page} title=${title} name=${`${title} ${id.slice(0, 8)}`} crumb=${html`<a href="/runs">Runs</a> / <code>${seen(id)}</code>`} problem=${outline.problem} aside=${run && html`<${Pill} state=${run.abandoned ? "abandoned" : run.status} />`} sub=${read.data && html`<strong>${standing(read.data.verdict)}</strong> · ${told(read.data.verdict.says)}`}>
    <${Loading} read=${read} />
    ${run && html`<${Open} found=${read.data} /><${Decisions} run=${run} />`}
    ${story?.seq.length > 0 && html`<${Section} title="Timeline"><${Story} run=${story.run} story=${story} kin=${read.data?.children || NONE} query=${query} /><//>`}
    ${run && html`<${Box} title="About this run"><${Facts} of=${{
      key: run.key, session: run.session && html`<a href=${sessionAt(run.session)}>${say(run.session)}</a>`,
      parent: run.parent && html`<a href=${runAt(run.parent)}><code>${run.parent}</code></a>`,
      "what-if": run.what_if && html`another result at <code>${seen(run.what_if.place)}</code> of <a href=${runAt(run.what_if.run, run.what_if.seq)}><code>${run.what_if.run}</code></a>`,
      creator: run.creator, created: ago(run.created_at), ended: run.ended_at && ago(run.ended_at), deaths: run.deaths || null, program: run.program && html`<code>${run.program.slice(0, 16)}</code>`,
      versions: read.data.versions, "versions changed": read.data.versions_changed,
      arguments: html`<${Json} value=${{ args: run.args, ...(Object.keys(run.kwargs).length ? { kwargs: run.kwargs } : {}) }} label="arguments" />`,
      result: run.result !== null ? html`<${Json} value=${run.result} label="result" />` : null, error: oops(run.error),
      command: html`<code>perdure show run:${run.id}</code>`,
    }} /><//>`}
  <//>`;
}
