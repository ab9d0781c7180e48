// The search runs in a web worker, which browsers refuse to a page opened from disk. There, an iframe replaces it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      this.loaded = new Promise((loaded) => frame.addEventListener("load", () => loaded(inside)));
      inside.document.write(
        `<script>postMessage = (data) => parent.postMessage(data, "*")</script><script src="${url}"></script>`,
      );
      inside.document.close();
      addEventListener("message", (event) => {
        if (event.source === inside) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
    }
    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
