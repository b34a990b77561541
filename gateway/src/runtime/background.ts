// Work in the background, in a timer of nginx. nginx drops a timer that it cannot run, for want of a connection to spare
// (worker_connections) or because too many run (lua_max_running_timers), and tells its log alone. Whoever waits for what was
// to be done would wait for ever: so what has not begun after a while is begun anew, until it has.

type Work = (this: void) => void;

interface Errand {
  readonly work: Work;
  begun: boolean;
}

const lookEverySeconds = 0.1;

/** Since the last look, and between that and the one before. */
let recent: Errand[] = [];
let overdue: Errand[] = [];

/** For each worker's start. nginx begins the timers that repeat anew even where it could not run them. */
export function keepErrandsGoing(): void {
  ngx.timer.every(lookEverySeconds, () => {
    if (recent.length === 0 && overdue.length === 0) return;
    const late = overdue;
    overdue = recent;
    recent = [];
    for (const errand of late) {
      if (errand.begun) continue;
      begin(errand);
      recent.push(errand);
    }
  });
}

/** Runs this soon, and once. @returns what failed: it will not be run */
export function runSoon(work: Work): string | undefined {
  const errand: Errand = { work, begun: false };
  const failure = begin(errand);
  if (failure === undefined) recent.push(errand);
  return failure;
}

/**
 * Runs `step` until it says that it has done, each time in a timer of its own: what nginx takes for a connection that a timer
 * opens, some 200 bytes even where none comes about, it gives back when the timer has ended.
 *
 * @param step is to yield before it runs again. @returns whether it is to
 * @returns what failed: it will not be run
 */
export function runUntilDone(step: (this: void) => boolean): string | undefined {
  return runSoon(() => {
    // Where there is no other timer, in this one.
    while (step()) {
      if (runUntilDone(step) === undefined) return;
    }
  });
}

function begin(errand: Errand): string | undefined {
  const [started, failure] = ngx.timer.at(0, () => {
    if (errand.begun) return;
    errand.begun = true;
    errand.work();
  });
  return started === undefined ? (failure ?? "no timer") : undefined;
}
