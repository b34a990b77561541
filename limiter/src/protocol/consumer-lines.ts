// The text of a push message with consumers, and of a block of them on a gateway's disk: each consumer on a line, so that a gateway stores
// a million of them without decoding any. Ids have no control characters, so tabs and line ends separate.
//
//   {"type":"consumers","epoch":"…","from":0,"to":2,"fresh":true,"more":false}
//   +shop:ann<tab>pro
//   +shop:bob<tab>free<tab>{"books-per-user":[{"name":"burst",…}]}
//   -shop:carl

/** The most bytes of an id, in UTF-8. */
export const mostIdBytes = 256;

/** How control planes begin such a message: it is recognised without decoding it. */
export const consumersBeginning = '{"type":"consumers",';

/** Separates what a line has. */
export const separator = "\t";

/** @param overrides as JSON; undefined: none */
export function lineOfConsumer(app: string, id: string, plan: string, overrides: string | undefined): string {
  const own = overrides === undefined ? "" : `${separator}${overrides}`;
  return `+${nameOfConsumer(app, id)}${separator}${plan}${own}\n`;
}

export function lineOfGoneConsumer(app: string, id: string): string {
  return `-${nameOfConsumer(app, id)}\n`;
}

/** Names of apps have no colon, so no two consumers have one name. */
export function nameOfConsumer(app: string, id: string): string {
  return `${app}:${id}`;
}
