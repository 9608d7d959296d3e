// Keeps an open page up to date. The server renders all that is shown; this puts the fragments that it sends in their places,
// and changes only what differs, so that the focus, a selection and what was unfolded stay.
"use strict";
(() => {
  const body = document.body, live = document.getElementById("live");
  const patience = 5000; // ms without an event, of which there is one each second at least
  let source, watchdog;

  const say = (stale, text) => {
    body.classList.toggle("stale", stale);
    if (live.textContent !== text) live.textContent = text;
  };

  const lost = () => {
    say(true, "Not live: reconnecting …");
    source.close();
    clearTimeout(watchdog);
    watchdog = setTimeout(connect, 1000);
  };

  const connect = () => {
    source = new EventSource(body.dataset.events);
    source.onerror = lost;
    source.onmessage = (event) => {
      clearTimeout(watchdog);
      watchdog = setTimeout(lost, patience);
      const fragments = JSON.parse(event.data);
      if (fragments.process && fragments.process !== body.dataset.process) {
        location.reload(); // another server: the forms of this page are of the one before
        return;
      }
      delete fragments.process;
      for (const [id, html] of Object.entries(fragments)) {
        const parsed = new DOMParser().parseFromString(html, "text/html");
        follow(document.getElementById(id), parsed.body);
      }
      say(false, "Live");
    };
    watchdog = setTimeout(lost, patience);
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

  connect();
})();
