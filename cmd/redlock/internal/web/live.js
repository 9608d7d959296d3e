// Keeps an open page up to date: it gets the page again and again, puts the parts of it that change in their places, and changes
// only what differs, so that the focus, a selection and what was unfolded stay. No request stays open, as a browser makes few
// connections to a host for all of its tabs.
"use strict";
(() => {
  const body = document.body, live = document.getElementById("live");
  const pace = 1000; // ms from one answer to the next request
  const rest = 30000; // the same while nobody sees the page: often enough for the server to record what happens
  const patience = 7000; // ms that an answer may take: longer than the server waits for the nodes
  let timer, asking = false;

  const say = (stale, text) => {
    body.classList.toggle("stale", stale);
    if (live.textContent !== text) live.textContent = text;
  };

  const refresh = async () => {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(patience) });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (page.body.dataset.process !== body.dataset.process) {
        location.reload(); // another server: the forms of this page are of the one before
        return;
      }
      for (const part of document.querySelectorAll("[data-live]")) follow(part, page.getElementById(part.id));
      say(false, "Live");
    } catch {
      say(true, "Not live: reconnecting …");
    }
    asking = false;
    timer = setTimeout(refresh, document.hidden ? rest : pace);
  };

  // follow makes the children of an element those of another one.
  const follow = (to, from) => {
    let at = to.firstChild;
    for (const wanted of [...from.childNodes]) {
      const known = wanted.id && [...to.children].find((child) => child.id === wanted.id);
      if (known && known !== at) to.insertBefore(known, at);
      const old = known || at;
      if (old && old.nodeName === wanted.nodeName && (old.id || "") === (wanted.id || "")) {
        at = old.nextSibling;
        if (old.nodeType !== Node.ELEMENT_NODE) {
          if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
          continue;
        }
        for (const { name, value } of [...wanted.attributes]) {
          if (old.getAttribute(name) !== value) old.setAttribute(name, value);
        }
        for (const { name } of [...old.attributes]) {
          if (!wanted.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
        }
        follow(old, wanted);
      } else {
        to.insertBefore(wanted, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });
  refresh();
})();
