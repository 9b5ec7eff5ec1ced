/* Search without a server: browsers refuse web workers on file:// pages, so there the search runs in a hidden frame.
   Only what the theme's search needs: Worker(url), postMessage, onmessage and "message" events. */
(function () {
  if (location.protocol !== "file:") return;
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.onmessage = null;
      const frame = (this.frame = document.createElement("iframe"));
      frame.hidden = true;
      frame.title = "search";
      this.ready = new Promise((resolve) => {
        const start = () => {
          document.body.appendChild(frame);
          const inside = frame.contentWindow;
          inside.IFrameWorker = IFrameWorker;
          inside.postMessage = (data) => {
            const event = new MessageEvent("message", { data });
            if (this.onmessage) this.onmessage(event);
            this.dispatchEvent(event);
          };
          inside.importScripts = (...urls) =>
            urls.reduce((before, src) => before.then(() => add(inside, src)), Promise.resolve());
          add(inside, url).then(() => resolve(inside));
        };
        if (document.body) start();
        else document.addEventListener("DOMContentLoaded", start);
      });
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  }
  function add(inside, src) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = src;
      script.onload = resolve;
      script.onerror = reject;
      inside.document.documentElement.appendChild(script);
    });
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
