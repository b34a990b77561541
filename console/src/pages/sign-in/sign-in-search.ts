// The URL of the sign-in page names the page of the console that was asked for.

export interface SignInSearch {
  readonly to?: string;
}

/** A sign-in leads back to a page of the console, and nowhere else. */
export function readSignInSearch({ to }: Record<string, unknown>): SignInSearch {
  return typeof to === "string" && ownPath.test(to) ? { to } : {};
}

/** Browsers leave out tabs and line ends, and take `\` for `/`: of `//host`, in any of these spellings, they read a host. */
const ownPath = /^\/(?!\/)[^\s\\\p{Cc}]*$/u;
