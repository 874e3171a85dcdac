// Sessions: the list, and one with its turns, calls and results, its plan, and its forks.
import { html, useState, useRead, get, part, Page, Section, Box, Row, Slim, Empty, Loading, Pill, Text, Json, Facts, Trouble, count, sessionAt, seen, say, ago } from "../base.mjs";
import { Filters, useRows } from "./runs.mjs";
import { runRow } from "./now.mjs";
import { SessionFork, SessionDiff } from "./forking.mjs";

const STATES = ["active", "waiting", "completed", "failed", "crashed"];

export function Sessions({ query }) {
  const { read, items, button } = useRows("/v1/console/sessions", query, ["status", "label", "since"]);
  return html`<${Page} title="Sessions" sub="The newest first.">
    <${Filters} query=${query} fields=${[["status", "Status", STATES], ["label", "Label"], ["since", "Since", "7d"]]} /><${Loading} read=${read} />
    ${read.data && (items.length ? html`<ul class="card rows">${items.map((each) => html`<${Row} key=${each.name} href=${sessionAt(each.name)} state=${each.status} side=${ago(each.last_at)}
      title=${say(each.title || each.name)} about=${html`${each.title && html`${say(each.name)} · `}${count(each.last_seq, "event")}${each.labels.map((label) => html` · <${Text} key=${label}>${label}<//>`)}`} />`)}</ul>${button}`
      : html`<${Empty} title="No session matches">Sessions come with the first turn: <code>perdure say NAME "…"</code><//>`)}
  <//>`;
}

function Content({ value }) {
  if (typeof value === "string") return say(value);
  if (value === null) return html`<span class="soft">nothing</span>`;
  return html`<${Json} value=${value} label="content" />`;
}

function TurnView({ turn, session, onFork, onDiff }) {
  return html`<li class=${`turn ${turn.role}`} id=${`t${turn.seq}`}>
    <div class="who">${turn.role === "tool" ? `result${turn.error ? " (error)" : ""}` : turn.role}<a href=${sessionAt(session, turn.seq)} title=${turn.at} aria-label=${`the session after event ${turn.seq}`}>#${turn.seq}</a></div>
    <div><div class="said">${turn.call && html`<span class="soft">${seen(turn.call)} → </span>`}<${Content} value=${turn.content} /></div>
      ${turn.calls.map((call) => html`<div class="call" key=${call.id}><strong><code>${seen(call.tool)}</code></strong> <span class="soft small">${seen(call.id)}</span><${Json} value=${call.args} label=${`arguments of ${seen(call.tool)}`} /></div>`)}
      <div class="small"><button type="button" class="plain" aria-label=${`Fork here, after event ${turn.seq}`} onClick=${() => onFork(turn.seq)}>Fork here</button><button type="button" class="plain" aria-label=${`What changed since event ${turn.seq}`} onClick=${() => onDiff(turn.seq)}>What changed since</button></div></div></li>`;
}

function Earlier({ session, first, onMore }) {
  const [state, set] = useState({});
  const read = () => get(`/v1/console/sessions/${part(session)}/turns`, { before: first }).then((page) => { set({ over: !page.items.length }); onMore(page.items); }, (problem) => set({ problem }));
  return html`${state.over ? null : html`<div class="more"><button type="button" onClick=${read}>Earlier turns</button></div>`}<${Trouble} problem=${state.problem} />`;
}

export function Session({ given: [name], query }) {
  const at = query.at;
  const read = useRead(`/v1/console/sessions/${part(name)}`, { at });
  const [earlier, setEarlier] = useState([]);
  const [fork, setFork] = useState(null);
  const [diff, setDiff] = useState(null);
  const found = read.data;
  const turns = found ? [...earlier, ...found.turns] : [];
  const info = found?.session;
  return html`<${Page} title=${info?.title || name} crumb=${html`<a href="/sessions">Sessions</a> / ${say(name)}`} aside=${info && html`<${Pill} state=${info.status} />`} sub=${info?.goal && html`Goal: ${say(info.goal)}`}>
    <${Loading} read=${read} />
    ${at && found && html`<p class="caution">This is the session after event ${at}, folded from its log. <a href=${sessionAt(name)}>Back to now</a></p>`}
    ${fork !== null && html`<${SessionFork} session=${name} at=${fork} onClose=${() => setFork(null)} />`}
    ${diff !== null && html`<${SessionDiff} session=${name} seq=${diff} />`}
    ${query.other && html`<${SessionDiff} session=${name} other=${query.other} />`}
    ${found && html`<div class="split"><${Section} title="Turns">
      ${turns.length >= 100 && turns[0].seq > 1 && html`<${Earlier} session=${name} first=${turns[0].seq} onMore=${(items) => setEarlier((was) => [...items, ...was])} />`}
      ${turns.length ? html`<ol class="turns">${turns.map((turn) => html`<${TurnView} key=${turn.seq} turn=${turn} session=${name} onFork=${setFork} onDiff=${setDiff} />`)}</ol>` : html`<${Empty} title="Nothing was said yet" />`}
      ${found.pending && html`<p class="caution">${found.pending.kind === "answer" ? "The last turn of the user waits for an answer." : `${count(found.pending.calls.length, "call")} without a result.`}</p>`}
    <//><div>
      ${info && html`<${Box} title="About"><${Facts} of=${{
        name, creator: info.creator, events: info.last_seq, created: ago(info.created_at), labels: info.labels.join(", "), model: info.pins?.model,
        "forked from": found.origin && html`<a href=${found.origin.session ? sessionAt(found.origin.session, found.origin.seq) : "/sessions"}>${say(found.origin.session || found.origin.uid)}</a> after event ${found.origin.seq}${found.origin.session && html` · <a href=${`${sessionAt(found.origin.session)}?other=${part(name)}`}>compare</a>`}`,
        command: html`<code>perdure show ${seen(name)}</code>`,
      }} /><//>`}
      <${Slim} title="Tasks" of=${found.tasks} row=${(task) => html`<${Row} key=${task.id} state=${task.status} title=${say(task.title)} side=${`#${task.id}`} />`} />
      <${Slim} title="Decisions" of=${found.decisions} row=${(each) => html`<${Row} key=${each.seq} state=${each.status} title=${say(each.text)} about=${each.because && say(each.because)} side=${ago(each.at)} />`} />
      <${Slim} title="Effects" of=${found.effects} row=${(each) => html`<${Row} key=${each.id} href=${`/effects?text=${part(each.id)}`} state=${each.state} title=${html`<code>${seen(each.tool)}</code>`} side=${ago(each.at)} />`} />
      ${found.values.length > 0 && html`<${Box} title="Values"><${Facts} of=${Object.fromEntries(found.values.map((each) => [seen(each.name), html`<code class="wrap">${seen(JSON.stringify(each.value))}</code> <span class="soft small">v${each.version}</span>`]))} /><//>`}
      <${Slim} title="Runs" of=${found.runs} row=${runRow} />
    </div></div>`}
  <//>`;
}
