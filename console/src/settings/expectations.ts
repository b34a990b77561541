// Translates what the validator says of a field.

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** @param table by the English text, in which "{}" stands for any @returns what translates a text; one that is not there stays English */
export function translatorOf(table: Readonly<Record<string, string>>): (text: string) => string {
  const patterns = Object.entries(table)
    // The longest text between the places says most exactly what it is.
    .sort(([a], [b]) => b.length - a.length)
    .map(([text, translation]) => ({
      pattern: new RegExp(`^${text.split("{}").map(escaped).join("(.+?)")}$`, "s"),
      parts: translation.split("{}"),
    }));
  const translate = (text: string): string => {
    const whole = Object.hasOwn(table, text) ? table[text] : undefined;
    if (whole !== undefined && !whole.includes("{}")) return whole;
    for (const { pattern, parts } of patterns) {
      const found = pattern.exec(text);
      if (found !== null) return parts.reduce((all, part, i) => `${all}${translate(found[i] ?? "")}${part}`);
    }
    const either = text.split(", or ");
    return either.length < 2 ? text : either.map(translate).join("；或 ");
  };
  return translate;
}
