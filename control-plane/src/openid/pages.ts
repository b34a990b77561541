// The two pages that somebody may see at the end of a sign-in, as they come from the provider's site.

/** Without scripts, styles and frames. */
export const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
} as const;

/**
 * Goes on to a path. A redirect would not do: the browser counts it as a part of the way from the provider's site, and sends no
 * cookie that is SameSite=Strict.
 */
export function goOnPage(path: string): string {
  const safe = escaped(path);
  return page("Signed in", `<p>You are signed in. <a href="${safe}">Go on</a>.</p>`, `0; url=${safe}`);
}

export function failurePage(title: string, detail: string, again: string): string {
  return page(title, `<p>${escaped(detail)}</p><p><a href="${escaped(again)}">Sign in again</a></p>`);
}

function page(title: string, content: string, refresh?: string): string {
  const going = refresh === undefined ? "" : `<meta http-equiv="refresh" content="${refresh}">`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">${going}<title>${escaped(title)}</title></head><body><h1>${escaped(title)}</h1>${content}</body></html>\n`;
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? "");
}
