// Finds prefixes of a path by walking along the path itself: no part of it is copied, and the cost is that of the longest prefix
// that matches, however many prefixes there are.

export interface PrefixTree<Value> {
  /** What this node adds to the prefix of the node above; empty at the root. */
  label: string;
  /** Keyed by the first unit of the children's labels, which differ. Undefined: there are none, as below most prefixes. */
  children: Record<number, PrefixTree<Value>> | undefined;
  /** Undefined: this prefix was not added, but two that were added begin with it. */
  value: Value | undefined;
}

export function emptyPrefixTree<Value>(): PrefixTree<Value> {
  return { label: "", children: undefined, value: undefined };
}

/** Returns the node of the prefix; makes it if there is none. */
export function prefixNode<Value>(root: PrefixTree<Value>, prefix: string): PrefixTree<Value> {
  let node = root;
  let at = 0;
  while (at < prefix.length) {
    const first = prefix.charCodeAt(at);
    const child = node.children?.[first];
    if (child === undefined) {
      const leaf: PrefixTree<Value> = { label: prefix.slice(at), children: undefined, value: undefined };
      node.children ??= {};
      node.children[first] = leaf;
      return leaf;
    }
    const shared = sharedLength(child.label, prefix, at);
    node = shared === child.label.length ? child : split(node, child, shared);
    at += shared;
  }
  return node;
}

/** Returns the node below `node` that the path goes through. @param reached how much of the path the prefix of `node` covers */
export function stepAlong<Value>(
  node: PrefixTree<Value>,
  path: string,
  reached: number,
): PrefixTree<Value> | undefined {
  const { children } = node;
  if (children === undefined || reached >= path.length) return undefined;
  const child = children[path.charCodeAt(reached)];
  if (child === undefined) return undefined;
  const { label } = child;
  const length = label.length;
  if (reached + length > path.length) return undefined;
  for (let i = 1; i < length; i++) {
    if (label.charCodeAt(i) !== path.charCodeAt(reached + i)) return undefined;
  }
  return child;
}

/** Removes the nodes that only this prefix needed. Call it when the value of the prefix is gone. */
export function prunePrefix<Value>(root: PrefixTree<Value>, prefix: string): void {
  pruneBelow(root, prefix, 0);
}

function pruneBelow<Value>(node: PrefixTree<Value>, prefix: string, at: number): void {
  if (at >= prefix.length) return;
  const first = prefix.charCodeAt(at);
  const { children } = node;
  const child = children?.[first];
  if (children === undefined || child === undefined) return;
  pruneBelow(child, prefix, at + child.label.length);
  if (child.value !== undefined) return;
  const only = onlyChild(child);
  if (only === undefined) return;
  if (only === "none") {
    delete children[first];
    return;
  }
  // A node without a value that leads to a single one is not needed either.
  only.label = child.label + only.label;
  children[first] = only;
}

/** Returns the single node below; undefined: there are several. */
function onlyChild<Value>({ children }: PrefixTree<Value>): PrefixTree<Value> | "none" | undefined {
  let found: PrefixTree<Value> | undefined;
  if (children === undefined) return "none";
  for (const first in children) {
    if (found !== undefined) return undefined;
    found = children[first] as PrefixTree<Value>;
  }
  return found ?? "none";
}

function split<Value>(above: PrefixTree<Value>, child: PrefixTree<Value>, at: number): PrefixTree<Value> {
  const label = child.label.slice(0, at);
  const children: Record<number, PrefixTree<Value>> = {};
  const middle: PrefixTree<Value> = { label, children, value: undefined };
  (above.children as Record<number, PrefixTree<Value>>)[label.charCodeAt(0)] = middle;
  child.label = child.label.slice(at);
  children[child.label.charCodeAt(0)] = child;
  return middle;
}

function sharedLength(label: string, prefix: string, at: number): number {
  const most = Math.min(label.length, prefix.length - at);
  let shared = 1;
  while (shared < most && label.charCodeAt(shared) === prefix.charCodeAt(at + shared)) shared += 1;
  return shared;
}
