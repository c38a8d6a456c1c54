// SPDX-License-Identifier: Apache-2.0
"use strict";

// The rows of the page follow the event stream. The server escapes them, and the policy of the page runs no script in them.
const rows = document.getElementById("rows");
const state = document.getElementById("state");

function show(text) {
  if (state.textContent !== text) state.textContent = text; // a screen reader reads each change
}

if (rows) {
  const events = new EventSource(rows.dataset.stream);
  events.addEventListener("rows", (event) => {
    const focused = rows.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    rows.innerHTML = JSON.parse(event.data);
    for (const link of rows.querySelectorAll("a")) {
      if (link.getAttribute("href") === focused) link.focus();
    }
    show("Live: changes appear without a reload.");
  });
  events.addEventListener("error", () => {
    show(events.readyState === EventSource.CLOSED ? "Not live: reload to refresh." : "Not live: connecting again.");
  });
}
