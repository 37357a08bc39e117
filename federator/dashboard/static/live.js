// Renews an open page when the server says that something on it has changed. Without this script the page renews
// itself now and then. A page that nobody looks at takes no connection.
"use strict";
const from = document.getElementById("main").dataset.live;
let events = null;
function follow() {
  if (events !== null) events.close();
  events = null;
  if (document.hidden) return;
  events = new EventSource(from);
  events.addEventListener("changed", () => htmx.trigger("#main", "changed"));
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) htmx.trigger("#main", "changed");
  follow();
});
follow();
