// Pages opened from a disk may not start workers. There, the search's worker runs in a hidden frame of the same page.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow), { once: true }));
      IFrameWorker.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.srcdoc =
        "<script>postMessage = (data) => parent.IFrameWorker.answer(data)</script>" + `<script src="${address}"></script>`;
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
