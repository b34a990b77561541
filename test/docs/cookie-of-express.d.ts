/** Types for cookie 0.7, which has none of its own. */
declare module "cookie-of-express" {
  export function parse(cookies: string): Record<string, string | undefined>;
}
