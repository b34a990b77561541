// Texts that were made of others and are kept, because to make them anew takes longer than to look them up. What policies name
// changes as they do: where there are more than a bound, all are forgotten, and those still in use are made once more.

export interface Memo<Key extends string | number> {
  /** To be looked up by whoever asks; what is not there is made and noted. */
  kept: Record<Key, string | undefined>;
  count: number;
  readonly most: number;
}

export function newMemo<Key extends string | number>(most: number): Memo<Key> {
  return { kept: {} as Record<Key, string | undefined>, count: 0, most };
}

/** @returns the text */
export function keep<Key extends string | number>(memo: Memo<Key>, key: Key, text: string): string {
  if (memo.count >= memo.most) {
    memo.kept = {} as Record<Key, string | undefined>;
    memo.count = 0;
  }
  memo.kept[key] = text;
  memo.count += 1;
  return text;
}
