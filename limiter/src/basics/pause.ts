// Work on ten thousand policies is done in short steps. Between two of them whoever does it may let others go first.

/** Called between steps. May yield: what it returns to has kept nothing that others could have changed. */
export type Pause = (this: void) => void;

/** For those who have nothing else to do meanwhile. */
export function noPause(): void {}
