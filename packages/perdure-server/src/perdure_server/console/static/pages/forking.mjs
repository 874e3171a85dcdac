// Forks with their forecast, and what differs between two points. Used by the pages of runs and sessions.
import { html, useState, useRead, post, part, go, Box, Pill, Table, Act, As, Trouble, Loading, count, typed, quoted, runAt, sessionAt, seen, say } from "../base.mjs";

const FATES = { "runs again": "good", "held for approval": "wait", "done a second time": "bad", "asked again": "wait", "awaited again": "wait", "parks the fork": "doubt", "stays with this run": "" };

// -- a run --

export function Fork({ run, place, onClose }) {
  const [acts, setActs] = useState(false);
  const [text, set] = useState("");
  const read = useRead(`/v1/console/runs/${part(run)}/forecast`, { place, allow_effects: acts ? "true" : "" });
  const [value, wrong] = typed(text);
  const forecast = read.data;
  const command = `perdure fork run:${run} --at ${place} --replace ${quoted(text.trim() || "JSON")}${acts ? " --allow-effects" : ""}`;
  return html`<${Box} title=${`Fork at event ${place}`}>
    <p class="soft">Another run continues from there, as if this place had given another result. This run stays as it is.</p>
    <${Loading} read=${read} />
    ${forecast && html`<div role="status"><p><strong>Forecast.</strong> ${count(forecast.kept, "recorded thing")} kept and not done again. ${forecast.again.length ? `${count(forecast.again.length, "thing")} after this point, if the program goes the same way:` : "Nothing was recorded after this point."}</p>
      <div class="fates">${Object.entries(forecast.fates).map(([fate, n]) => html`<span key=${fate} class=${`pill ${FATES[fate] || ""}`}>${n} × ${fate}</span>`)}</div>
      ${forecast.again.length > 0 && html`<details><summary>Each of them</summary><${Table} box="" heads=${["Event", "What", "Name", "In the fork"]}>${forecast.again.slice(0, 200).map((each) => html`<tr key=${each.seq}><td class="mono">${each.seq}</td><td>${each.kind}</td><td class="long">${say(each.name)}</td><td>${each.then}</td></tr>`)}<//></details>`}</div>`}
    <div class="acts"><label>The other result (JSON)<textarea value=${text} spellcheck="false" onInput=${(event) => set(event.target.value)}></textarea></label>
      <${Trouble} problem=${wrong} />
      <label class="check"><input type="checkbox" checked=${acts} onChange=${(event) => setActs(event.target.checked)} />Let it call external systems without asking anybody</label>
      <${Act} kind=${acts ? "harm" : "main"} label="Fork" command=${command} disabled=${value === undefined} run=${async () => { const made = await post(`/v1/runs/${part(run)}/forks`, { at: place, replace: value, allow_effects: acts }); go(runAt(made.id)); }} />
      <div><button type="button" class="plain" onClick=${onClose}>Close</button></div></div><${As} />
  <//>`;
}

export function RunDiff({ run, seq }) {
  const [open, set] = useState(false);
  const read = useRead(open ? `/v1/runs/${part(run)}/diff` : null, { at: seq });
  return html`<details class="card pad" onToggle=${(event) => set(event.target.open)}><summary>What changed since event ${seq}</summary>
    ${open && html`<${Loading} read=${read} />`}${open && read.data && html`<${Differences} of=${read.data} planes=${["about", "steps", "effects", "waits"]} />`}</details>`;
}

// -- differences --

const WORDS_MAX = 600;

// Words that both have, in order: the longest common sequence, as long as the texts are short enough to be looked at.
export function wordDiff(before, after) {
  const one = before.split(/(\s+)/);
  const two = after.split(/(\s+)/);
  if (one.length > WORDS_MAX || two.length > WORDS_MAX) return [["del", before], ["ins", after]];
  const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(two.length + 1));
  for (let i = one.length - 1; i >= 0; i--) for (let j = two.length - 1; j >= 0; j--) table[i][j] = one[i] === two[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const parts = [];
  const put = (kind, word) => { if (parts.at(-1)?.[0] === kind) parts.at(-1)[1] += word; else parts.push([kind, word]); };
  let [i, j] = [0, 0];
  while (i < one.length || j < two.length) {
    if (i < one.length && j < two.length && one[i] === two[j]) { put("span", one[i++]); j++; }
    else if (j < two.length && (i >= one.length || table[i][j + 1] >= table[i + 1][j])) put("ins", two[j++]);
    else put("del", one[i++]);
  }
  return parts;
}

const said = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, 1));

export function Words({ before, after }) {
  return html`<span class="wrap">${wordDiff(said(before), said(after)).map(([Mark, words], n) => html`<${Mark} key=${n}>${seen(words)}<//>`)}</span>`;
}

export function Differences({ of, planes }) {
  const shown = planes.filter((plane) => of[plane]?.length);
  if (!shown.length && !of.turns_added?.length && !of.turns_removed?.length) return html`<p class="soft">Nothing differs.</p>`;
  return html`${shown.map((plane) => html`<div key=${plane} class="panel"><h3>${plane}</h3><ul>${of[plane].slice(0, 200).map((each, n) => html`<li key=${n}><${Pill} state=${each.how} /> <strong>${say(each.name)}</strong> <${Words} before=${each.before} after=${each.after} /></li>`)}</ul></div>`)}
    ${[["turns_removed", "here", "del"], ["turns_added", "there", "ins"]].map(([side, where, Mark]) => of[side]?.length > 0 && html`<div key=${side} class="panel"><h3>said only ${where}</h3><ul>${of[side].map((turn) => html`<li key=${turn.seq}><${Mark}>${turn.role}: ${seen(said(turn.content))}<//></li>`)}</ul></div>`)}`;
}

// -- a session --

export function SessionFork({ session, at, onClose }) {
  const [name, set] = useState("");
  const read = useRead(`/v1/console/sessions/${part(session)}/forecast`, { at });
  const forecast = read.data;
  return html`<${Box} title=${`Fork after event ${at}`}>
    <${Loading} read=${read} />
    ${forecast && html`<div role="status"><p><strong>Forecast.</strong> The fork shares everything up to event ${at}. It does not know ${count(forecast.turns_after, "turn")} and ${count(forecast.effects_after.length, "effect")} of later.</p>
      ${forecast.effects_after.length > 0 && html`<p class="caution">These took effect after this point. The fork does not know them: acting again there does them a second time.</p>
        <ul class="fates">${forecast.effects_after.map((each) => html`<li key=${each.id}><${Pill} state=${each.state} /> <code>${seen(each.tool)}</code> <span class="soft">${each.kind}</span></li>`)}</ul>`}
      ${forecast.stay.length > 0 && html`<p>${count(forecast.stay.length, "effect")} under way at that point: they stay the parent's.</p>`}</div>`}
    <div class="acts"><label>Name of the fork<input value=${name} maxlength="200" onInput=${(event) => set(event.target.value)} /></label>
      <${Act} kind="main" label="Fork" disabled=${!name} command=${`perdure fork ${quoted(session)} --at ${at} --name ${quoted(name || "NAME")}`} run=${async () => { await post(`/v1/sessions/${part(session)}/forks`, { at, name }); go(sessionAt(name)); }} />
      <div><button type="button" class="plain" onClick=${onClose}>Close</button></div></div><${As} />
  <//>`;
}

export function SessionDiff({ session, seq, other }) {
  const read = useRead(`/v1/sessions/${part(session)}/diff`, { at: seq, other });
  return html`<${Box} title=${other ? `Difference to ${other}` : `What changed since event ${seq}`}><${Loading} read=${read} />
    ${read.data && html`<${Differences} of=${read.data} planes=${["about", "values", "tasks", "decisions", "checkpoints", "artifacts"]} />`}<//>`;
}
