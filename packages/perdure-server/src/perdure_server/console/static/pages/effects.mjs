// Effects, searched and settled in bulk: first a plan with counts, then an outcome for each.
import { html, useState, post, part, Page, Empty, Loading, Pill, Json, Table, As, count, oops, quoted, streamAt, seen, say, ago } from "../base.mjs";
import { Filters, useRows, WRONG } from "./runs.mjs";

const STATES = ["planned", "dispatched", "in_doubt", "committed", "failed", "withdrawn", "undoing", "undone"];

function Detail({ effect }) {
  return html`<details><summary class="small">details</summary><${Json} value=${{ args: effect.args, result: effect.result, error: effect.error, key: effect.key, sent_key: effect.sent_key, place: effect.place, rule: effect.rule, settled_by: effect.settled_by }} label=${`effect ${seen(effect.id)}`} /></details>`;
}

// A plan outlives a reload of its tab: its rest stays until it is executed or closed.
const KEPT = "perdure.plan";
function kept() { try { return JSON.parse(sessionStorage.getItem(KEPT)); } catch { return null; } }
function keep(left) { left?.plan.length ? sessionStorage.setItem(KEPT, JSON.stringify(left)) : sessionStorage.removeItem(KEPT); }

// Settling many doubts: what matches now is the plan; each is settled by itself, and one that somebody else settled stays theirs.
function Bulk({ items }) {
  const doubts = items.filter((each) => each.state === "in_doubt");
  const [was] = useState(kept);
  const [verdict, setVerdict] = useState(was?.verdict || "failed");
  const [reason, setReason] = useState(was?.reason || "");
  const [plan, choose] = useState(was?.plan || null);
  const setPlan = (found) => { choose(found); keep(found && { verdict, reason, plan: found }); };
  const [done, setDone] = useState(null);
  if (!doubts.length && !plan) return null;
  async function execute() {
    const outcome = { settled: 0, "somebody was first": 0, refused: 0 };
    setDone({ ...outcome, left: plan.length });
    for (const [n, each] of plan.entries()) {
      try { await post(`/v1/effects/${part(each.id)}/settle`, { verdict: verdict === "failed" ? "declined" : verdict, reason }); outcome.settled++; }
      catch (problem) { if (problem.status === 409) outcome["somebody was first"]++; else { outcome.refused++; outcome.last = problem.message; } }
      keep({ verdict, reason, plan: plan.slice(n + 1) });
      setDone({ ...outcome, left: plan.length - n - 1 });
    }
  }
  return html`<details class="card pad" open=${!!was}><summary>Settle all doubts that match (${doubts.length})</summary><div class="acts">
    <label>Verdict<select value=${verdict} onChange=${(event) => { setVerdict(event.target.value); setPlan(null); setDone(null); }}><option value="failed">failed: they did not happen, and shall not</option><option value="absent">absent: they did not happen, try again</option></select></label>
    <label>Reason: how you know<input value=${reason} maxlength="2000" onInput=${(event) => setReason(event.target.value)} /></label>
    ${!plan && html`<div><button type="button" disabled=${!reason} onClick=${() => { setPlan(doubts.map(({ id, tool }) => ({ id, tool }))); setDone(null); }}>Plan</button></div>`}
    ${plan && !done && html`<p class="caution">Plan: ${count(plan.length, "effect")} of ${[...new Set(plan.map((each) => each.tool))].map(seen).join(", ")} will be settled as ${verdict}, one by one.</p>
      <div class="act"><button type="button" class="harm" onClick=${execute}>Execute the plan</button><span class="command"><code>perdure settle EFFECT ${verdict} --reason ${quoted(reason)}</code></span></div>
      <div><button type="button" class="plain" onClick=${() => setPlan(null)}>Close</button></div>`}
    ${done && html`<p class="done" role="status">${Object.entries(done).filter(([, n]) => n).map(([name, n]) => (name === "last" ? seen(n) : `${n} ${name}`)).join(", ") || "nothing left"}</p>`}
    </div><${As} /></details>`;
}

export function Effects({ query }) {
  const { read, items, button } = useRows("/v1/console/effects", query, ["state", "tool", "text", "since", "errors"]);
  return html`<${Page} title="Effects" sub="Calls to external systems: planned, sent, known to have happened, or in doubt. The newest first.">
    <${Filters} query=${query} fields=${[["state", "State", STATES], ["tool", "Tool"], ["text", "Key, argument or actor"], ["since", "Since", "24h"], WRONG]} /><${Loading} read=${read} />
    ${read.data && html`<${Bulk} items=${items} />`}
    ${read.data && (items.length ? html`<${Table} heads=${["State", "Tool", "Effect", "#Tries", "Error", "Actor", "When"]}>
      ${items.map((each) => html`<tr key=${each.id}><td>${each.state === "in_doubt" ? html`<a href=${`/inbox?id=${part(each.id)}`}><${Pill} state=${each.state} /></a>` : html`<${Pill} state=${each.state} />`}</td><td class="mono">${say(each.tool)}</td>
        <td><a class="mono" href=${streamAt(each.stream_kind, each.stream, each.seq)}>${say(each.id)}</a><${Detail} effect=${each} /></td><td class="number">${each.attempt}</td><td class="long">${say(oops(each.error))}</td><td>${say(each.actor)}</td><td class="soft">${ago(each.at)}</td></tr>`)}<//>${button}`
      : html`<${Empty} title="No effect matches">${read.data.next ? html`Not among the newest ${read.data.looked_through}. ${button}` : html`Change the filters. Agents call tools with <code>run.act(tool, …)</code>`}<//>`)}
  <//>`;
}
