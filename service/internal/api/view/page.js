// SPDX-License-Identifier: Apache-2.0
"use strict";

// The rows of the page follow the event stream. The server escapes them, and the policy of the page runs no script in them.
const rows = document.getElementById("rows");
const state = document.getElementById("state");

function show(text) {
  if (state.textContent !== text) state.textContent = text; // a screen reader reads each change
}

// Times are ages by the clock of the service, and exact on hover, in the zone of the reader.
const ahead = Date.now() - Number(document.body.dataset.now);

function age(seconds) {
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  if (days) return days + " d " + hours + " h";
  if (hours) return hours + " h " + minutes + " min";
  if (minutes) return minutes + " min " + (seconds % 60) + " s";
  return seconds + " s";
}

function showAges() {
  for (const time of document.querySelectorAll("time")) {
    const then = new Date(time.dateTime), seconds = Math.round((Date.now() - ahead - then) / 1000);
    const text = seconds < 0 ? "in " + age(-seconds) : age(seconds);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  }
}

showAges();
setInterval(showAges, 1000);

if (rows) {
  const events = new EventSource(rows.dataset.stream);
  events.addEventListener("rows", (event) => {
    const focused = rows.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    rows.innerHTML = JSON.parse(event.data);
    showAges();
    for (const link of rows.querySelectorAll("a")) {
      if (link.getAttribute("href") === focused) link.focus();
    }
    show("Live: changes appear without a reload.");
  });
  events.addEventListener("error", () => {
    show(events.readyState === EventSource.CLOSED ? "Not live: reload to refresh." : "Not live: connecting again.");
  });
}
