// Browsers start no web worker from a page on disk, and the theme searches in one. On such pages (only there) a hidden
// frame takes its place: the worker's script runs in it, and messages are handed over between the two windows.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe")
    #waiting = []
    #ready = false

    constructor(url) {
      super()
      this.#frame.hidden = true
      this.#frame.title = "search"
      document.body.append(this.#frame)
      const inside = this.#frame.contentWindow
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => load(inside, next)), Promise.resolve())
      load(inside, url).then(() => {
        this.#ready = true
        this.#waiting.forEach((data) => this.#deliver(data))
      })
    }

    postMessage(data) {
      if (this.#ready) this.#deliver(data)
      else this.#waiting.push(data)
    }

    terminate() {
      this.#frame.remove()
    }

    #deliver(data) {
      const inside = this.#frame.contentWindow
      inside.dispatchEvent(new inside.MessageEvent("message", { data }))
    }
  }

  function load(inside, url) {
    return new Promise((done, failed) => {
      const script = inside.document.createElement("script")
      script.src = new URL(url, location).href
      script.onload = done
      script.onerror = failed
      inside.document.body.append(script)
    })
  }
}
