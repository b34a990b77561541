// Paths as policies write them, held against nginx's $uri: "/api/books" exactly, "/api/books/*" as a prefix.

export interface PathPattern {
  readonly text: string;
  readonly isPrefix: boolean;
}

export function pathPattern(text: string): PathPattern {
  const isPrefix = text.endsWith("*");
  return { text: isPrefix ? text.slice(0, text.length - 1) : text, isPrefix };
}

/** @param path in normal form: decoded, slashes merged, dots resolved */
export function matchesPath(patterns: readonly PathPattern[], path: string): boolean {
  for (const pattern of patterns) {
    if (pattern.isPrefix ? path.startsWith(pattern.text) : path === pattern.text) return true;
  }
  return false;
}
