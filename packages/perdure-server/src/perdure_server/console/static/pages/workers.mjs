// Workers, what each does now, and what waits; and the health of the store.
import { html, useRead, Page, Section, Empty, Loading, Pill, Table, count, lasting, runAt, seen, ago, say, told } from "../base.mjs";
import { amounts } from "./now.mjs";

function Held({ run }) {
  return html`<li><a href=${runAt(run.run)}>${say(run.agent)} <code>${run.run.slice(0, 12)}</code></a> <span class="soft">${seen(run.doing)}, quiet for ${lasting(run.quiet_seconds * 1000)}</span>
    ${run.deaths > 0 && html` <${Pill} state="suspect" label=${count(run.deaths, "death")} />`}${run.cancelling && html` <${Pill} state="waiting" label="cancelling" />`}</li>`;
}

function Worker({ worker }) {
  const about = worker.about;
  return html`<li><div class="card-top"><${Pill} state=${worker.alive ? "alive" : "dead"} /><strong>${say(worker.actor)}</strong><span>on ${say(worker.host)}</span>
    ${about && html`<span>pid ${about.pid}${about.suspects ? ", for suspects" : ""}</span><span>${about.agents.map(seen).join(", ")}</span><span>${count(worker.runs.length, "run")} of ${about.concurrency}</span>`}${!about && html`<span>a program that drives runs itself</span>`}
    <span class="push">${worker.started_at && html`started ${ago(worker.started_at)}`}</span></div>
    ${about?.programs.length > 0 && html`<p class="small soft">programs ${about.programs.map((each) => each.slice(0, 12)).join(", ")}</p>`}
    ${worker.runs.length > 0 && html`<ul>${worker.runs.map((run) => html`<${Held} key=${run.run} run=${run} />`)}</ul>`}</li>`;
}

function families(workers) {
  const found = new Map();
  for (const each of workers) {
    const key = each.about?.supervisor ? `Supervisor ${each.about.supervisor} on ${each.host}` : "Without a supervisor";
    found.set(key, [...(found.get(key) || []), each]);
  }
  return [...found];
}

export function Workers() {
  const read = useRead("/v1/workers");
  const tree = read.data;
  return html`<${Page} title="Workers" sub=${tree && `${count(tree.workers.filter((each) => each.alive).length, "process", "processes")} alive.`}><${Loading} read=${read} />
    ${tree && !tree.workers.length && html`<${Empty} title="No worker is running">Start one: <code>perdure worker MODULE</code><//>`}
    ${tree && families(tree.workers).map(([name, workers]) => html`<${Section} key=${name} title=${seen(name)}><ul class="card tree">${workers.map((each) => html`<${Worker} key=${each.holder} worker=${each} />`)}</ul><//>`)}
    ${tree && tree.stranded.length > 0 && html`<${Section} title="Stranded"><ul class="card tree">${tree.stranded.map((each) => html`<li key=${each.run}><${Pill} state="stranded" /> <a href=${runAt(each.run)}>${say(each.agent)} <code>${each.run}</code></a> <span class="soft">pinned to program ${each.program.slice(0, 12)}, which no living worker has: start one with it, or <code>perdure pin ${each.run} --any</code></span></li>`)}</ul><//>`}
    ${tree && tree.queue.length > 0 && html`<${Section} title="Queue"><${Table} heads=${["Agent", "#Ready", "#Running", "#Waiting", "#Parked", "Oldest ready", "Notes"]}>
      ${tree.queue.map((each) => html`<tr key=${each.agent}><td class="long"><a href=${`/runs?agent=${encodeURIComponent(each.agent)}`}>${say(each.agent)}</a></td>${amounts(each)}<td class="soft">${each.oldest_ready_at && ago(each.oldest_ready_at)}</td><td class="long">${!each.known && "no living worker knows this agent"}</td></tr>`)}<//><//>`}
  <//>`;
}

export function Health() {
  const read = useRead("/v1/doctor", undefined, { live: false });
  const found = read.data;
  const wrong = found?.findings.filter((each) => each.severity !== "ok") || [];
  const order = { error: 0, warning: 1, ok: 2 };
  const sorted = found ? [...found.findings].sort((a, b) => order[a.severity] - order[b.severity]) : [];
  return html`<${Page} title="Health" sub=${found && (wrong.length ? `${count(wrong.length, "finding needs", "findings need")} a look.` : "Everything is as it should be.")} aside=${html`<button type="button" onClick=${read.again}>Check again</button>`}><${Loading} read=${read} />
    ${found && html`<ul class="card rows">${sorted.map((each) => html`<li key=${each.check + each.says}><div class="finding"><span><${Pill} state=${each.severity} /></span><strong>${seen(each.check)}</strong><span class="wrap">${told(each.says)}${each.fix && html`<br /><span class="soft">${"→ "}${told(each.fix)}</span>`}</span></div></li>`)}</ul>
      <p class="small soft more"><code>perdure doctor</code></p>`}
  <//>`;
}
