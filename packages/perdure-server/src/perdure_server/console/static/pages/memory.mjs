// Memories with their provenance: why we believe this.
import { html, useState, get, Page, Empty, Loading, Pill, Facts, Trouble, count, sessionAt, streamAt, seen, say, ago } from "../base.mjs";
import { Filters, useRows } from "./runs.mjs";

const KINDS = ["fact", "preference", "workflow", "snippet", "lesson", "failed_approach", "rule", "correction", "vocabulary", "map", "document"];

function Source({ each }) {
  if (!each.stream) return html`<li class="soft">event ${each.seq} of a stream that is not here</li>`;
  const href = streamAt(each.stream_kind, each.stream, each.seq);
  const name = html`${each.stream_kind} ${say(each.stream)} #${each.seq}`;
  return html`<li>${href ? html`<a href=${href}>${name}</a>` : name} <span class="soft">${each.kind}</span>${each.text && html`<div class="said wrap">${say(each.text)}</div>`}</li>`;
}

function Provenance({ memory }) {
  const [state, set] = useState({});
  const read = (event) => event.target.open && !state.data && get("/v1/console/provenance", { scope: memory.scope, scope_kind: memory.scope_kind, seq: memory.seq }).then((data) => set({ data }), (problem) => set({ problem }));
  return html`<details onToggle=${read}><summary class="small">Why we believe this</summary><${Trouble} problem=${state.problem} />
    ${state.data && html`<${Facts} of=${{
      "said in": state.data.sources.length ? html`<ul>${state.data.sources.map((each, n) => html`<${Source} key=${n} each=${each} />`)}</ul>` : null,
      sources: memory.sources.join(", "), checks: memory.checks.length ? html`<ul>${memory.checks.map((each, n) => html`<li key=${n}><code class="wrap">${seen(JSON.stringify(each))}</code></li>`)}</ul>` : "none: nothing says whether it still holds",
      confidence: memory.confidence, valid: memory.valid_from || memory.valid_to ? `${memory.valid_from || "ever"} – ${memory.valid_to || "open"}` : null, confirmed: memory.confirmed_at && ago(memory.confirmed_at),
      "used": memory.uses ? count(memory.uses, "time") : null, supersedes: memory.supersedes, "superseded by": memory.superseded_by, note: memory.note, about: memory.about.join(", "),
      command: html`<code>perdure memories --json</code>`,
    }} />`}</details>`;
}

export function Memory({ query }) {
  const { read, items, button } = useRows("/v1/console/memories", query, ["kind", "status", "about", "q"]);
  return html`<${Page} title="Memory" sub="Knowledge that outlives a run, its sources, and whether it still holds.">
    <${Filters} query=${query} fields=${[["q", "Search"], ["kind", "Kind", KINDS], ["status", "Status", ["superseded", "forgotten", "all"], "live"], ["about", "About"]]} />
    <${Loading} read=${read} />
    ${read.data && (items.length ? items.map((each) => html`<article class="card pad" key=${`${each.scope}${each.seq}`}><div class="card-top"><${Pill} state=${each.kind} />${each.status !== "live" && html`<${Pill} state=${each.status} />`}<span>${each.scope_kind === "session" ? html`<a href=${sessionAt(each.scope, each.seq)}>${say(each.scope)}</a>` : say(each.scope)} #${each.seq}</span><span class="push">by ${say(each.actor)}, ${ago(each.at)}</span></div>
      <p class="question wrap">${say(each.text)}</p>${each.why && html`<p class="small soft">${say(each.why)}</p>`}<${Provenance} memory=${each} /></article>`) : html`<${Empty} title="No memory matches">Agents write them with <code>session.remember(…)</code>, people with <code>perdure remember</code>.<//>`)}${button}
  <//>`;
}
