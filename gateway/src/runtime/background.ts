// Work in the background, in a timer of nginx. nginx drops a timer that it cannot run, for want of a connection to spare
// (worker_connections) or because too many run (lua_max_running_timers), and tells its log alone. Whoever waits for what was
// to be done would wait for ever: so what has not begun after a while is begun anew, until it has.

type Work = (this: void) => void;

interface BackgroundTask {
  readonly work: Work;
  begun: boolean;
}

const lookEverySeconds = 0.1;

/** Since the last look, and between that and the one before. */
let recent: BackgroundTask[] = [];
let overdue: BackgroundTask[] = [];

/** For each worker's start. nginx begins the timers that repeat anew even where it could not run them. */
export function keepTasksRunning(): void {
  ngx.timer.every(lookEverySeconds, () => {
    if (recent.length === 0 && overdue.length === 0) return;
    const late = overdue;
    overdue = recent;
    recent = [];
    for (const task of late) {
      if (task.begun) continue;
      begin(task);
      recent.push(task);
    }
  });
}

/** Runs this soon, and once. @returns what failed: it will not be run */
export function runSoon(work: Work): string | undefined {
  const task: BackgroundTask = { work, begun: false };
  const failure = begin(task);
  if (failure === undefined) recent.push(task);
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

function begin(task: BackgroundTask): string | undefined {
  const [started, failure] = ngx.timer.at(0, () => {
    if (task.begun) return;
    task.begun = true;
    task.work();
  });
  return started === undefined ? (failure ?? "no timer") : undefined;
}
