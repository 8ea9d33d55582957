// Sign in, listen, draw. The page only reads: whatever changes something is a command.

import * as sections from "./sections.js";
import { quiet } from "./elements.js";

const ITEMS = 100;
const at = (id) => document.getElementById(id);
let events = null;
let shown = [];
let catalogue = null;
let latest = null;

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.status === 401) { showDoor(); throw new Error("signed out"); }
  if (!answer.ok) throw new Error((await answer.json()).detail ?? `status ${answer.status}`);
  return answer.json();
}

function live(kind, word) {
  at("live").className = `live ${kind}`;
  at("live-word").textContent = word;
}

function showDoor() {
  events?.close();
  events = null;
  at("door").hidden = false;
  for (const id of ["board", "who", "sections"]) at(id).hidden = true;
  at("token").focus();
}

function draw(overview) {
  sections.showFigures(overview);
  sections.showRound(overview);
  sections.showPrivacy(overview);
  // What takes focus or a scroll position is drawn anew only when it has changed.
  keep("history", overview.rounds, () => { sections.showHistory(overview); sections.showRefusals(overview); });
  keep("common", overview.releases, () => sections.showCommon(overview));
  keep("quality", overview.quality, () => sections.showQuality(overview));
  keep("devices", [overview.devices, overview.privacy.spent], () => sections.showDevices(overview));
  keep("catalogue", overview.catalogue, () => { sections.showCatalogue(overview); });
  if (catalogue !== overview.catalogue.version) { catalogue = overview.catalogue.version; findItems(); }
  at("foot").textContent =
    `Task ${overview.task.slice(0, 8)} · method ${overview.method} · fedrap ${overview.program}`;
}

const drawn = new Map();
function keep(name, value, show) {
  const text = JSON.stringify(value);
  if (drawn.get(name) === text) return;
  drawn.set(name, text);
  const tables = [...document.querySelectorAll(`#${name} .body .scroll`)].map((box) => box.scrollTop);
  show();
  document.querySelectorAll(`#${name} .body .scroll`).forEach((box, index) => { box.scrollTop = tables[index] ?? 0; });
}

function listen() {
  events = new EventSource("events");
  events.onopen = () => live("on", "live");
  events.onmessage = (message) => {
    live("on", "live");
    latest = JSON.parse(message.data);
    draw(latest);
    document.body.dataset.drawn = "yes";
  };
  events.onerror = () => {
    live("off", "reconnecting");
    // A session that is over answers 401, which an EventSource does not tell.
    if (events?.readyState === EventSource.CLOSED) ask("session").then(listen, () => {});
  };
}

async function findItems(more = false) {
  const search = encodeURIComponent(at("search").value.trim());
  const after = more && shown.length ? shown.at(-1).row + 1 : 0;
  const found = await ask(`admin/v1/items?start=${after}&limit=${ITEMS}&search=${search}`);
  shown = more ? [...shown, ...found.items] : found.items;
  at("items").replaceChildren(shown.length ? sections.itemTable(shown) : quiet("No item is like that."));
  at("more").hidden = found.items.length < ITEMS;
}

async function enter() {
  const person = await ask("session");
  at("door").hidden = true;
  for (const id of ["board", "who", "sections"]) at(id).hidden = false;
  at("person").textContent = `${person.name}, ${person.role}`;
  drawn.clear();
  catalogue = null;
  listen();
}

at("door").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("wrong").textContent = "";
  const answer = await fetch("session", {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: at("token").value.trim() }),
  });
  if (answer.ok) { at("token").value = ""; await enter(); } else {
    at("wrong").textContent = answer.status === 401 ? "Nobody has this token." : "The coordinator did not answer as expected. Try again.";
  }
});
at("leave").addEventListener("click", async () => {
  await fetch("session", { method: "DELETE", credentials: "same-origin" });
  showDoor();
});
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { drawn.clear(); if (latest && events) draw(latest); }, 150);
});
let typing = 0;
at("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => findItems().catch(() => {}), 200);
});
at("more").addEventListener("click", () => findItems(true).catch(() => {}));
enter().catch(() => {});
