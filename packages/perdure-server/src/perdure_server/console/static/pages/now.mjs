// Now: what needs a person, the oldest first; then how the work goes.
import { html, useRead, Page, Section, Empty, Loading, Row, Slim, Until, Table, count, lasting, storeNow, runAt, streamAt, say, ago } from "../base.mjs";

function target(need) {
  if (["ask", "approval", "doubt"].includes(need.kind)) return `/inbox?id=${encodeURIComponent(need.id)}`;
  const [kind, ...name] = need.where.split(":");
  return streamAt(kind, name.join(":"));
}

function Need({ need }) {
  return html`<${Row} href=${target(need)} state=${need.kind} label=${need.kind === "doubt" ? "in doubt" : undefined} title=${say(need.title)} about=${need.about && say(need.about)} side=${html`${ago(need.since)}${need.until && html`<br /><${Until} at=${need.until} />`}`} />`;
}

export const runRow = (run) => html`<${Row} key=${run.id} href=${runAt(run.id)} state=${run.abandoned ? "abandoned" : run.status} title=${say(run.agent)} side=${ago(run.created_at)}
  about=${html`<code>${run.id}</code>${run.key && html` · ${say(run.key)}`}${(run.error || run.reason) && html` · ${say(run.error || run.reason)}`}`} />`;

export const STATES = ["Ready", "Running", "Waiting", "Parked"];
export const amounts = (each, states = STATES) => states.map((state) => html`<td key=${state} class="number">${each[state.toLowerCase()] || html`<span class="soft">–</span>`}</td>`);

function Queue({ queue }) {
  if (!queue.length) return html`<p class="soft">No run is open.</p>`;
  const states = STATES.filter((state) => queue.some((each) => each[state.toLowerCase()]));
  return html`<${Table} box="card tight" heads=${["Agent", ...states.map((state) => `#${state}`)]}>
    ${queue.map((each) => html`<tr key=${each.agent}><td class="long"><a href=${`/runs?agent=${encodeURIComponent(each.agent)}`}>${say(each.agent)}</a>${!each.known && each.ready > 0 && html`<div class="small soft">no living worker knows it</div>`}</td>${amounts(each, states)}</tr>`)}<//>`;
}

export function Now() {
  const read = useRead("/v1/console/now");
  const now = read.data;
  const oldest = now?.needs[0];
  const sub = now && (oldest
    ? `${count(now.needs.length, "thing needs", "things need")} a person. The oldest has waited for ${lasting(storeNow() - Date.parse(oldest.since))}.`
    : "Nothing needs a person.");
  return html`<${Page} title="Now" sub=${sub}><${Loading} read=${read} />
    ${now && html`<div class="split">
      <${Section} title="Needs a person">
        ${now.needs.length ? html`<ul class="card rows">${now.needs.map((need) => html`<${Need} key=${need.kind + need.id} need=${need} />`)}</ul>` : html`<${Empty} title="All quiet">No question, no doubt, nothing parked.<//>`}
        ${now.more && html`<p class="soft more">There are more: the <a href="/inbox">inbox</a> and the <a href="/runs?errors=1">runs that failed or are parked</a> have them.</p>`}
      <//>
      <div>
        <${Section} title="Work">
          <dl class="numbers"><div><dt>Workers alive</dt><dd>${now.workers.alive}</dd></div>
            ${STATES.slice(0, 3).map((state) => html`<div key=${state}><dt>${state}</dt><dd>${now.queue.reduce((sum, each) => sum + each[state.toLowerCase()], 0)}</dd></div>`)}</dl>
        <//>
        <${Section} title="By agent"><${Queue} queue=${now.queue} /><//>
        <${Slim} title="Latest runs" of=${now.recent} row=${runRow} />
      </div>
    </div>`}
  <//>`;
}
