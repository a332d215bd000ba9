"use strict";
// A link to a run opens it; printing opens all.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) {
    for (let place = target; place; place = place.parentElement) {
      if (place instanceof HTMLDetailsElement) place.open = true;
    }
    target.scrollIntoView();
  }
}
addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", reveal);
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});
