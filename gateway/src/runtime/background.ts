// Work that runs in the background, in an nginx timer. nginx drops a timer that it cannot run, because it has no free connection
// (worker_connections) or because too many timers run (lua_max_running_timers), and reports that in its log only. Code that waits
// for the work would wait for ever. So a task that has not begun after a while is started again, until it has begun.

import { noteDefect } from "./defects.ts";

type Work = (this: void) => void;

interface BackgroundTask {
  readonly work: Work;
  begun: boolean;
}

const lookEverySeconds = 0.1;
const brokeOff = "background work broke off, because Sluice failed";

/** Tasks started since the last check, and those started between that check and the one before it. */
let recent: BackgroundTask[] = [];
let overdue: BackgroundTask[] = [];

/** Called when a worker starts. nginx restarts repeating timers even if it could not run them. */
export function keepTasksRunning(): void {
  runEvery(lookEverySeconds, () => {
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

/** Runs the work again and again. A defect in it is noted, and does not end it. @param work learns whether the worker is about to end */
export function runEvery(seconds: number, work: (this: void, premature: boolean) => void): void {
  ngx.timer.every(seconds, (premature) => {
    const [done, failure] = pcall(work, premature);
    if (!done) noteDefect("timers", brokeOff, failure);
  });
}

/** Runs the work soon, and once. @returns the error message if the work will not run */
export function runSoon(work: Work): string | undefined {
  const task: BackgroundTask = { work, begun: false };
  const failure = begin(task);
  if (failure === undefined) recent.push(task);
  return failure;
}

/**
 * Runs `step` until it reports that it is done, each time in a timer of its own. For every connection that a timer opens, nginx
 * takes some 200 bytes, even if the connection fails, and frees them only when the timer ends.
 *
 * @param step must yield before it runs again. @returns whether to run it again
 * @returns the error message if it will not run
 */
export function runUntilDone(step: (this: void) => boolean): string | undefined {
  return runSoon(() => {
    // If no other timer can be started, the loop goes on in this one.
    while (step()) {
      if (runUntilDone(step) === undefined) return;
    }
  });
}

/**
 * Returns a function that has items handled in the background. Those that come meanwhile are handled together afterwards: one timer is enough
 * for all, however many requests have something to be done.
 *
 * @param handle must yield
 * @returns of that function: the error message if nobody will handle these items
 */
export function inOneTimer<Item>(
  handle: (this: void, items: readonly Item[]) => void,
): (this: void, items: readonly Item[]) => string | undefined {
  let waiting: Item[] = [];
  let running = false;
  const step = () => {
    const together = waiting;
    waiting = [];
    const [handled, failure] = pcall(handle, together);
    if (!handled) noteDefect("timers", brokeOff, failure);
    running = waiting.length > 0;
    return running;
  };
  return (items) => {
    for (const item of items) waiting.push(item);
    if (running) return undefined;
    const failure = runUntilDone(step);
    if (failure === undefined) running = true;
    else waiting = [];
    return failure;
  };
}

function begin(task: BackgroundTask): string | undefined {
  return runInTimer(() => {
    if (task.begun) return;
    task.begun = true;
    task.work();
  });
}

/** Runs the work in a timer, which nginx may drop. @returns the error message if there is no timer */
export function runInTimer(work: Work): string | undefined {
  const [started, failure] = ngx.timer.at(0, () => {
    const [done, defect] = pcall(work);
    if (!done) noteDefect("timers", brokeOff, defect);
  });
  return started === undefined ? (failure ?? "no timer") : undefined;
}
