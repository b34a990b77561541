// Work on ten thousand policies is done in short steps. Between two of them the worker may let other requests go first.

/** Called between steps. It may yield, so its callers keep nothing across it that others could have changed. */
export type Pause = (this: void) => void;

/** For callers that have nothing else to do meanwhile. */
export function noPause(): void {}
