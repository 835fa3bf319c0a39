// <keywright-connections></keywright-connections> lists the connections of the user who is signed in. Its gateway is the origin of this script.
(() => {
  const gateway = new URL(document.currentScript.src).origin;
  const node = (name, text, className) => {
    const n = document.createElement(name);
    if (text) n.textContent = text;
    if (className) n.className = className;
    return n;
  };
  const style = `:host { display: block; font: inherit; }
ul { list-style: none; margin: 0; padding: 0; }
li { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; padding: .75em 0; border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
li:first-child { border-top: 0; }
div { flex: 1 1 11em; min-width: 0; overflow-wrap: anywhere; }
strong, small { display: block; }
button { font: inherit; padding: .375em .75em; cursor: pointer; }`;

  customElements.define('keywright-connections', class extends HTMLElement {
    connectedCallback() {
      if (!this.shadowRoot) this.attachShadow({ mode: 'open' });
      this.list();
    }

    disconnectedCallback() { clearInterval(this.timer); }

    async list() {
      let got;
      const headers = { Accept: 'application/json' }, lang = this.closest('[lang]')?.lang;
      if (lang) headers['Accept-Language'] = lang; // the words are those of the page around the element
      try {
        const r = await fetch(gateway + '/connect', { credentials: 'include', headers });
        if (r.ok) got = await r.json();
      } catch { /* the event says so */ }
      if (!got) {
        this.dispatchEvent(new Event('error'));
        return;
      }
      const ul = node('ul');
      for (const c of got.connections) {
        const li = node('li'), about = node('div'), connected = c.condition === 'connected';
        about.append(node('strong', c.name), node('small', [c.state, c.account].filter(Boolean).join(' · ')));
        li.append(about, this.button(connected ? got.words.change : got.words.connect, c, ''));
        if (c.condition !== 'not connected') li.append(this.button(got.words.disconnect, c, '/disconnect'));
        ul.append(li);
      }
      this.shadowRoot.replaceChildren(node('style', style), ul);
      this.dispatchEvent(new Event('load'));
    }

    // button opens a page of the gateway in a window, and lists again when the window is closed.
    button(text, connection, path) {
      const b = node('button', text);
      b.ariaLabel = text + ' ' + connection.name;
      b.type = 'button';
      b.onclick = () => {
        const w = window.open(gateway + '/connect/' + encodeURIComponent(connection.connector) + path, '', 'popup,width=560,height=720');
        clearInterval(this.timer);
        this.timer = setInterval(() => {
          if (w && !w.closed) return;
          clearInterval(this.timer);
          this.list();
        }, 500);
      };
      return b;
    }
  });
})();
