// A line for what may happen at every request: at most one a second and worker, with how many it stands for.

const pauseSeconds = 1;

let silentUntilSeconds = 0;
let suppressed = 0;

export function warnSparingly(message: string, detail: string | undefined): void {
  const now = ngx.now();
  if (now < silentUntilSeconds) {
    suppressed += 1;
    return;
  }
  const more = suppressed > 0 ? ` (and ${suppressed} times since the last line)` : "";
  silentUntilSeconds = now + pauseSeconds;
  suppressed = 0;
  ngx.log(ngx.WARN, "sluice: ", message, ": ", detail, more);
}
