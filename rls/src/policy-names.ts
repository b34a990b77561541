// The names of policies: which texts can be one, and which name stands for the keys of a descriptor. The rule is the limiter's: a-z, 0-9
// and -, beginning with a letter or digit, at most 63 long. This service asks a gateway over the network, and imports nothing of it.

const name = "[a-z0-9][a-z0-9-]{0,62}";
const reference = new RegExp(`^(${name}/)?${name}$`);

/** @returns whether a policy can have this name, or this is APP/POLICY for one that another app shares */
export function isPolicyReference(text: string): boolean {
  return reference.test(text);
}

/**
 * Joins the words by "-". Capital letters become small ones, and every other character that names do not have becomes "-".
 *
 * @returns undefined: no policy can have so long a name, or there is no letter or digit to begin with
 */
export function policyNameOf(words: readonly string[]): string | undefined {
  const joined = words.join("-");
  // A name that is too long is not cut: two descriptors would have the same one.
  if (joined.length > 63) return undefined;
  const text = joined.toLowerCase().replace(/[^a-z0-9]/gu, "-");
  return isPolicyReference(text) ? text : undefined;
}
