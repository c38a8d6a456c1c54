// SPDX-License-Identifier: Apache-2.0
"use strict";

// The page draws events: of the running laboratory, or of a recording up to a position. The state is the sum of their differences,
// so that it shows nothing that no event reports.
const names = ["a", "b", "c"], registers = ["fenced", "bare"];
const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "boolean") e[key] = value; else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

function setText(e, text) {
  if (e.textContent !== text) e.textContent = text; // a screen reader reads each change of a live region
}

const kept = 2000; // events of the running laboratory
const live = { before: {}, events: [], received: 0, connected: false };
let info = { presets: [] };
let replay = null; // { preset, seed, events, at, playing, speed }

const seconds = (ms) => (ms / 1000).toFixed(1) + " s";

// What is shown: the events, and until when.
function shown() {
  if (replay) {
    const events = replay.events.filter((e) => e.at <= replay.at);
    return { before: replay.before, events, from: 0, now: replay.at, to: Math.max(replay.end, 1) };
  }
  const last = live.events.at(-1);
  const now = last ? last.at + (live.connected ? performance.now() - live.received : 0) : 0;
  const from = Math.max(now - 60000, 0);
  return { before: live.before, events: live.events, from, now, to: Math.max(now, from + 20000) };
}

const sum = (view) => Object.assign({}, view.before, ...view.events.map((e) => e.state || {}));

// Contenders

const actions = [
  { id: "pause", does: (s) => s.process === "paused" ? "resume" : "pause", text: { pause: "Pause", resume: "Resume" }, when: (s) => running(s) },
  { id: "kill", does: (s) => running(s) ? "kill" : "start", text: { kill: "Kill", start: "Start" }, when: () => true },
  { id: "partition", does: (s) => s.network === "partitioned" ? "heal" : "partition", text: { partition: "Partition", heal: "Heal" }, when: () => true },
  { id: "expire", does: () => "expire", text: { expire: "Expire session" }, when: (s) => running(s) },
  { id: "lose-reply", does: () => "lose-reply", text: { "lose-reply": "Lose next reply" }, when: (s) => active(s) },
  { id: "isolate", does: () => "isolate", text: { isolate: "Cut off its server" }, when: (s) => running(s) && s.server > 0 },
  { id: "leave", does: (s) => s.lock === "out" ? "join" : "leave", text: { join: "Join", leave: "Leave" }, when: (s) => active(s) },
];

const running = (s) => s.process === "running" || s.process === "paused";
const active = (s) => s.process === "running";

function stateOf(all, name) {
  const own = {};
  for (const [key, value] of Object.entries(all)) {
    if (key.startsWith(name + ".")) own[key.slice(name.length + 1)] = value;
  }
  return own;
}

function makeContender(name) {
  const buttons = element("div", { class: "buttons" });
  for (const a of actions) {
    const button = element("button", { type: "button", "data-action": a.id });
    button.addEventListener("click", () => act(button.dataset.does, name));
    buttons.append(button);
  }
  byId("contenders").append(element("section", { class: "card contender", id: "contender-" + name, "aria-labelledby": "name-" + name },
    element("h3", { id: "name-" + name }, element("b", { class: "name " + name }, name), " ", element("span", { class: "process" })),
    element("p", { class: "lock" }), element("p", { class: "where" }), buttons));
}

function beliefOf(s) {
  if (!running(s)) return "does not run";
  switch (s.lock) {
    case "holds": return "believes it holds the lock";
    case "waits": return "waits, and watches " + s.ahead;
    case "lost": return "was notified that the lock is lost";
    case "connecting": return "connects";
    default: return "does not queue";
  }
}

function drawContender(name, all) {
  const s = stateOf(all, name), card = byId("contender-" + name);
  card.dataset.process = s.process || "";
  card.dataset.lock = running(s) ? s.lock || "out" : "out";
  setText(card.querySelector(".process"), (s.process || "unknown") + (s.pid && running(s) ? ", process " + s.pid : ""));
  let belief = beliefOf(s);
  if (s.lock === "holds" && running(s)) belief += ", token " + s.token;
  if (s.process === "paused") belief += " (reported before the pause)";
  setText(card.querySelector(".lock"), belief);
  setText(card.querySelector(".where"), s.network === "partitioned" ? "partitioned from ZooKeeper"
    : !running(s) ? "–" : s.server ? "attached to server " + s.server + (all.isolated === s.server ? ", which is cut off" : "") : "attached to no server");
  for (const a of actions) {
    const button = card.querySelector('[data-action="' + a.id + '"]');
    button.dataset.does = a.does(s);
    setText(button, a.text[button.dataset.does]);
    button.setAttribute("aria-label", a.text[button.dataset.does] + ": " + name);
    button.disabled = !a.when(s);
  }
}

// Queue and registers

function drawHeal(all) {
  const button = byId("heal");
  button.hidden = !all.isolated || replay !== null;
  if (all.isolated) setText(button, "Heal server " + all.isolated);
  button.value = all.isolated || "";
}

function drawQueue(all) {
  const list = byId("queue"), rows = JSON.stringify(all.queue || []);
  if (list.dataset.rows === rows) return;
  list.dataset.rows = rows;
  list.replaceChildren(...(all.queue || []).map((p, i) => element("li", {},
    element("b", { class: "name " + (names.includes(p.owner) ? p.owner : "") }, p.owner), i ? "" : " first", element("span", { class: "token" }, "token " + p.token))));
  if (!list.children.length) list.append(element("li", { class: "empty" }, "empty"));
}

const titles = { fenced: "Fenced register", bare: "Bare register" };
const promises = { fenced: "checks the token of each write", bare: "accepts every write" };

function makeRegister(name) {
  const button = element("button", { type: "button" });
  button.addEventListener("click", () => act(button.dataset.does, name));
  byId(name).append(element("h3", { id: name + "-title" }, titles[name], " ", element("small", {}, promises[name])),
    element("p", { class: "value" }), element("p", { class: "verdict" }), element("div", { class: "buttons" }, button));
}

const times = (n) => n === 1 ? "1 stale write" : n + " stale writes";

function drawRegister(name, all) {
  const s = stateOf(all, name), card = byId(name), button = card.querySelector("button");
  setText(card.querySelector(".value"), s.value ? s.value + ", written with token " + s.token : "nothing written yet");
  const verdict = s.rejected ? times(s.rejected) + " rejected" : s.stale ? times(s.stale) + " accepted" : "no stale write so far";
  setText(card.querySelector(".verdict"), (s.away ? "AWAY: refuses connections. " : "") + verdict);
  card.dataset.verdict = s.away ? "away" : s.rejected ? "rejected" : s.stale ? "stale" : "";
  button.dataset.does = s.away ? "bring-back" : "take-away";
  setText(button, s.away ? "Bring back" : "Take away");
  button.setAttribute("aria-label", button.textContent + ": " + titles[name]);
}

// Timeline

const svgName = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const e = document.createElementNS(svgName, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

const lanes = ["a", "b", "c", "fenced", "bare"];

function drawChart(view) {
  const box = byId("chart"), width = Math.max(box.clientWidth, 280), left = 58, right = 16, lane = 34, top = 8, height = top + lane * lanes.length + 22;
  const span = view.to - view.from, x = (at) => left + (width - left - right) * Math.min(Math.max((at - view.from) / span, 0), 1);
  const y = (name) => top + lane * (lanes.indexOf(name) + 0.5);
  const chart = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Timeline of contenders and registers; the list of events has the same content" });
  const pattern = svg("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { class: "stripe", width: 3, height: 6 }));
  chart.append(svg("defs", {}, pattern));
  for (const name of lanes) {
    chart.append(svg("line", { class: "lane", x1: left, x2: width - right, y1: y(name), y2: y(name) }));
    chart.append(svg("text", { class: "label " + name, x: left - 8, y: y(name) + 4, "text-anchor": "end" }, name));
  }
  const step = [1, 2, 5, 10, 20].find((s) => (width - left - right) / (span / 1000 / s) > 45) || 60;
  for (let t = Math.max(0, Math.ceil(view.from / 1000 / step) * step); t * 1000 <= view.to; t += step) {
    chart.append(svg("text", { class: "tick", x: x(t * 1000), y: height - 5, "text-anchor": "middle" }, t + " s"));
  }
  drawBars(chart, view, x, y);
  for (const e of view.events) {
    if (e.at < view.from) continue;
    const title = svg("title", {}, seconds(e.at) + " " + e.who + " " + e.text);
    if ((e.kind === "fault" || e.kind === "act") && e.text) {
      const row = names.includes(e.who) || registers.includes(e.who) ? [y(e.who) - lane / 2, y(e.who) + lane / 2] : [top, height - 22];
      chart.append(svg("line", { class: e.kind, x1: x(e.at), x2: x(e.at), y1: row[0], y2: row[1] }, title));
    } else if (e.kind === "write" || e.kind === "stale") {
      const writer = e.state[e.who + ".writer"];
      chart.append(svg("circle", { class: e.kind + " " + writer, cx: x(e.at), cy: y(e.who), r: e.kind === "stale" ? 7 : 4 }, title));
    } else if (e.kind === "rejected") {
      const r = 6, cx = x(e.at), cy = y(e.who);
      chart.append(svg("path", { class: "rejected", d: `M${cx - r} ${cy - r}L${cx + r} ${cy + r}M${cx + r} ${cy - r}L${cx - r} ${cy + r}` }, title));
    } else if (e.kind === "loss" && names.includes(e.who)) {
      chart.append(svg("path", { class: "notified", d: `M${x(e.at)} ${y(e.who) - 6}l6 -10h-12z` }, title));
    }
  }
  if (replay) chart.append(svg("line", { class: "now", x1: x(view.now), x2: x(view.now), y1: top, y2: height - 20 }));
  box.replaceChildren(chart);
}

// Bars last from one difference of the state to the next.
function drawBars(chart, view, x, y) {
  for (const name of names) {
    for (const key of ["network", "lock", "process"]) {
      let from = view.from, value = view.before[name + "." + key];
      const bar = (to) => {
        if (to <= view.from || to <= from) return;
        const at = Math.max(from, view.from), box = { x: x(at), width: Math.max(x(to) - x(at), 1) };
        if (key === "lock" && value === "holds") chart.append(svg("rect", { class: "holds " + name, y: y(name) - 11, height: 22, rx: 3, ...box }));
        if (key === "lock" && value === "waits") chart.append(svg("rect", { class: "waits " + name, y: y(name) - 3, height: 6, rx: 3, ...box }));
        if (key === "process" && value === "paused") chart.append(svg("rect", { class: "paused", y: y(name) - 13, height: 26, ...box }));
        if (key === "network" && value === "partitioned") chart.append(svg("rect", { class: "cut", y: y(name) - 15, height: 30, ...box }));
      };
      for (const e of view.events) {
        const next = e.state && e.state[name + "." + key];
        if (next === undefined || next === value) continue;
        bar(e.at);
        from = e.at;
        value = next;
      }
      bar(view.now);
    }
  }
}

// Events

let rows = { of: null, last: 0, first: null }; // first is the state before the events: another one after a reset

function drawLog(view) {
  const list = byId("log"), source = replay ? replay.events : live, newest = view.events.at(-1)?.id || 0;
  if (rows.of !== source || newest < rows.last || rows.first !== view.before) {
    rows = { of: source, last: 0, first: view.before };
    list.replaceChildren();
  }
  if (newest === rows.last) return;
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  for (const e of view.events) {
    if (e.id <= rows.last || !e.text) continue;
    list.append(element("li", { class: e.kind, "data-who": e.who }, element("time", {}, seconds(e.at)), element("b", { class: "name " + e.who }, e.who), element("span", {}, e.text)));
  }
  rows.last = newest;
  while (list.children.length > kept) list.firstChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

function draw() {
  const view = shown(), all = sum(view);
  document.body.dataset.known = view.events.length > 0; // nothing is shown before the first event
  for (const name of names) drawContender(name, all);
  for (const name of registers) drawRegister(name, all);
  drawQueue(all);
  drawHeal(all);
  drawChart(view);
  drawLog(view);
  if (document.body.dataset.mode === "live") {
    setText(byId("state"), live.connected ? (all.playing ? "Live: the preset " + all.playing + " runs." : "Live: changes appear without a reload.") : "Not live: connecting again.");
  }
}

// Actions

function problem(text) {
  setText(byId("problem"), text);
  byId("problem").hidden = !text;
}

async function post(url, body) {
  try {
    const answer = await fetch(url, { method: "POST", body });
    problem(answer.ok ? "" : (await answer.json()).error);
    return answer.ok;
  } catch (error) {
    problem("The laboratory does not answer: " + error.message);
    return false;
  }
}

const act = (does, who) => post("api/actions", JSON.stringify({ do: does, who }));

// Replay

async function open() {
  const parameters = new URLSearchParams(location.hash.slice(1)), name = parameters.get("preset"), seed = parameters.get("seed") || "1";
  problem("");
  rows = { of: null, last: 0, first: null };
  const preset = info.presets.find((p) => p.name === name);
  for (const link of document.querySelectorAll("#presets a")) {
    if (link.id === (name ? "preset-" + name : "live")) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  byId("player").hidden = !preset;
  document.body.dataset.mode = preset ? "replay" : name ? "unknown" : "live";
  setText(byId("title"), preset ? preset.title : name ? "No such preset" : "Live");
  byId("explains").replaceChildren(...(preset ? [preset.explains, " ", element("a", { href: preset.link }, "What the docs promise")]
    : name ? [] : ["Three processes contend for one lock. Disturb them, and see what each of them believes, what ZooKeeper has, and what the two registers accept."]));
  setText(byId("state"), "");
  if (preset) {
    byId("seed").replaceChildren(...preset.seeds.map((s) => element("option", { value: s }, String(s))));
    if (!preset.seeds.map(String).includes(seed)) byId("seed").append(element("option", { value: seed }, seed));
    byId("seed").value = seed;
  }
  const opened = replay = name ? { preset, seed, before: {}, events: [], at: 0, end: 0, playing: false } : null;
  draw();
  if (!opened) return;
  try {
    const answer = await fetch("api/presets/" + encodeURIComponent(name) + "?seed=" + encodeURIComponent(seed)), content = await answer.json();
    if (replay !== opened) return; // the address has changed meanwhile
    if (!answer.ok) return problem(content.error);
    Object.assign(replay, { events: content.events, end: content.events.at(-1).at, playing: true, speed: Number(byId("speed").value) });
    byId("position").max = replay.end;
    setText(byId("state"), "A recording in the fake time of zktest, seed " + seed + ". No process runs in it: a pause holds back what the contender sends, " +
      "receives, writes and reports, while the timers of its client go on. Run it live to stop a real process.");
    seek(0);
  } catch (error) {
    if (replay === opened) problem("The recording was not loaded: " + error.message);
  }
}

function seek(at) {
  replay.at = Math.min(at, replay.end);
  if (replay.at === replay.end) replay.playing = false;
  byId("position").value = replay.at;
  byId("position").setAttribute("aria-valuetext", seconds(replay.at));
  setText(byId("clock"), seconds(replay.at) + " of " + seconds(replay.end));
  setText(byId("toggle"), replay.playing ? "Pause replay" : replay.at === replay.end ? "Replay" : "Continue replay");
  draw();
}

byId("toggle").addEventListener("click", () => {
  replay.playing = !replay.playing;
  seek(replay.at === replay.end ? 0 : replay.at);
});
byId("position").addEventListener("input", () => {
  replay.playing = false;
  seek(Number(byId("position").value));
});
byId("speed").addEventListener("change", () => { replay.speed = Number(byId("speed").value); });
byId("seed").addEventListener("change", () => { location.hash = "preset=" + replay.preset.name + "&seed=" + byId("seed").value; });
byId("perform").addEventListener("click", async () => {
  if (await post("api/presets/" + replay.preset.name + "?seed=" + encodeURIComponent(replay.seed))) location.hash = "";
});
byId("heal").addEventListener("click", () => act("servers", "heal " + byId("heal").value));
byId("writes").addEventListener("change", () => { byId("log").dataset.writes = byId("writes").checked; });
byId("servers-form").addEventListener("submit", (event) => {
  event.preventDefault();
  act("servers", byId("fault").value);
});
addEventListener("hashchange", open);

let before = performance.now();
setInterval(() => {
  const now = performance.now(), passed = now - before;
  before = now;
  if (replay && replay.playing) seek(replay.at + passed * replay.speed);
  else if (!replay) draw();
}, 100);

async function begin() {
  names.forEach(makeContender);
  registers.forEach(makeRegister);
  info = await (await fetch("api/info")).json();
  for (const p of info.presets) byId("presets").append(element("li", {}, element("a", { href: "#preset=" + p.name + "&seed=1", id: "preset-" + p.name }, p.title)));
  setText(byId("commands"), "export LOCKKEEPER_SERVERS=" + info.servers.join(",") + "\nlockkeeper show " + info.path + "\nlockkeeper run --lock " + info.path + " -- sleep 10");
  byId("service").href = info.service;
  setText(byId("service"), info.service);
  await open();
  const events = new EventSource("api/events");
  events.addEventListener("message", (event) => {
    const b = JSON.parse(event.data);
    if (b.reset) Object.assign(live, { before: b.before || {}, events: [] });
    live.events.push(...b.events);
    for (const e of live.events.splice(0, Math.max(0, live.events.length - kept))) Object.assign(live.before, e.state);
    Object.assign(live, { received: performance.now(), connected: true });
  });
  events.addEventListener("error", () => { live.connected = false; });
}

begin();
