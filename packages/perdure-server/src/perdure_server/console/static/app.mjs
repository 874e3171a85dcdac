// The frame around the pages: navigation, the state of the connection, and which page an address means.
import { html, render, useState, useEffect, useRef, useRead, address, link, listen, me, signedOut, get, post, seen, Trouble } from "./base.mjs";
import { Now } from "./pages/now.mjs";
import { Inbox } from "./pages/inbox.mjs";
import { Runs } from "./pages/runs.mjs";
import { Run } from "./pages/run.mjs";
import { Sessions, Session } from "./pages/sessions.mjs";
import { Effects } from "./pages/effects.mjs";
import { Workers, Health } from "./pages/workers.mjs";
import { Audit } from "./pages/audit.mjs";
import { Memory } from "./pages/memory.mjs";
import { Settings } from "./pages/settings.mjs";

const NAV = [
  ["/", "Now"], ["/inbox", "Inbox"], ["/runs", "Runs"], ["/sessions", "Sessions"], ["/effects", "Effects"],
  ["/workers", "Workers"], ["/health", "Health"], ["/audit", "Audit"], ["/memory", "Memory"], ["/settings", "Settings"],
];
const PAGES = [
  [/^\/$/, Now], [/^\/inbox$/, Inbox], [/^\/runs$/, Runs], [/^\/runs\/([^/]+)$/, Run], [/^\/sessions$/, Sessions],
  [/^\/sessions\/([^/]+)$/, Session], [/^\/effects$/, Effects], [/^\/workers$/, Workers], [/^\/health$/, Health], [/^\/audit$/, Audit], [/^\/memory$/, Memory], [/^\/settings$/, Settings],
];

function meant(path) {
  for (const [pattern, page] of PAGES) {
    const found = path.match(pattern);
    if (!found) continue;
    try { return [page, found.slice(1).map(decodeURIComponent)]; } catch { return [Nowhere, []]; }
  }
  return [Nowhere, []];
}

function Nowhere() {
  return html`<h1 tabindex="-1">There is no such page</h1><p class="soft">Start at <a href="/">Now</a>.</p>`;
}

function SignedOut() {
  const [token, set] = useState("");
  const [problem, fail] = useState(null);
  const enter = (event) => { event.preventDefault(); post("/enter", { token }).then(() => location.assign("/"), fail); };
  return html`<main id="main"><form class="card pad sign-in" onSubmit=${enter}><h1>Sign in</h1>
    <p class="soft">A link of <code>perdure console</code> works once. With <code>perdure serve</code>, use a token: <code>perdure token create</code> makes one.</p>
    <label>Token<input type="password" autocomplete="off" value=${token} onInput=${(event) => set(event.target.value)} /></label><button class="main" disabled=${!token}>Sign in</button><${Trouble} problem=${problem} /></form></main>`;
}

const LINK = { live: "live", joining: "joining…", lost: "no answer" };

function Frame() {
  const [path] = address.value.split("?");
  const [page, given] = meant(path);
  const query = Object.fromEntries(new URLSearchParams(address.value.split("?")[1] || ""));
  const waiting = useRead("/v1/console/counts");
  const total = waiting.data ? waiting.data.asks + waiting.data.doubts : 0;
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) document.querySelector("h1")?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
  if (signedOut.value) return html`<${SignedOut} />`;
  const Shown = page;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>To the content</a>
    ${link.value === "lost" && html`<div class="lost-line" role="alert">The server does not answer. This is its last answer; the page continues by itself when it is back.</div>`}
    <div class="frame">
      <header class="side">
        <a class="brand" href="/"><img src="/assets/mark.svg" alt="" />Perdure</a>
        <nav class="nav" aria-label="Pages">${NAV.map(([href, name]) => html`
          <a key=${href} href=${href} aria-current=${href === path || (href !== "/" && path.startsWith(`${href}/`)) ? "page" : undefined}>${name}
            ${name === "Inbox" && total > 0 && html`<span class="count"><span class="unseen">waiting: </span>${total >= 100 ? "100+" : total}</span>`}</a>`)}
        </nav>
        <div class="foot">
          <span class="link"><span class=${`dot ${link.value}`}></span>${LINK[link.value]}</span>
          <span>${me.value && html`as <strong>${seen(me.value.actor)}</strong>${me.value.tenant !== "default" && html` in ${seen(me.value.tenant)}`}`}</span>
          <button type="button" class="plain" onClick=${() => post("/leave").then(() => { signedOut.value = true; })}>Sign out</button>
        </div>
      </header>
      <main id="main"><${Shown} key=${path} given=${given} query=${query} /></main>
    </div>`;
}

get("/v1/whoami").then((found) => { me.value = found; listen(); }, () => { if (!signedOut.value) { listen(); } });
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${Frame} />`, root);
