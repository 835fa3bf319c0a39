// Live figures: every few seconds, the parts of the page with data-live are fetched again. The page is complete without this.
"use strict";
(() => {
  const every = 4000;
  const button = document.getElementById("live");
  let paused = false;

  // path returns the position of an element below part, so that the one in its place can get the focus.
  const path = (part, element) => {
    const steps = [];
    for (; element !== part; element = element.parentElement) {
      steps.unshift([...element.parentElement.children].indexOf(element));
    }
    return steps;
  };

  const replace = (part, next) => {
    if (part.innerHTML === next.innerHTML) {
      return;
    }
    const focused = part !== document.activeElement && part.contains(document.activeElement) ? path(part, document.activeElement) : null;
    const open = [...part.querySelectorAll("details[open]")].map((d) => d.id);
    const left = part.scrollLeft;
    part.replaceChildren(...next.childNodes);
    part.scrollLeft = left;
    for (const id of open) {
      const details = id && document.getElementById(id);
      if (details) {
        details.open = true;
      }
    }
    if (focused) {
      const same = focused.reduce((element, i) => element && element.children[i], part);
      if (same) {
        same.focus({ preventScroll: true });
      }
    }
  };

  const update = async () => {
    const parts = document.querySelectorAll("[data-live]");
    if (paused || document.hidden || parts.length === 0 || !document.getSelection().isCollapsed) {
      return;
    }
    let next;
    try {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) {
        throw new Error(answer.status);
      }
      next = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      button.textContent = "No connection";
      return;
    }
    if (paused) {
      return;
    }
    button.textContent = "Pause updates";
    for (const part of parts) {
      const found = next.getElementById(part.id);
      if (found) {
        replace(part, found);
      }
    }
  };

  if (!document.querySelector("main [data-live]")) {
    return;
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    update();
  });
  setInterval(update, every);
})();
