// Changes that wait: somebody else is the only writer meanwhile, as another control plane on the same database may be.

import type { FastifyInstance } from "fastify";
import { write } from "../../../control-plane/src/storage/write.ts";
import type { Running } from "../../fixtures/servers/control-plane-under-test.ts";
import { until } from "../../fixtures/until.ts";

/**
 * Keeps everybody from writing until the returned function is called.
 * @param meanwhile is in force from then on
 */
export async function holdWriting(
  { app }: Running,
  meanwhile: (transaction: Parameters<Parameters<typeof write>[1]>[0]) => Promise<unknown>,
): Promise<() => Promise<void>> {
  let held = () => {};
  const isHeld = new Promise<void>((resolve) => {
    held = resolve;
  });
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const holding = write(app.database, async (transaction) => {
    await meanwhile(transaction);
    held();
    await released;
  });
  await isHeld;
  return async () => {
    release();
    await holding;
  };
}

/** Notes by which values rows were looked for. @returns a function that waits until there was a statement with the value */
export function lookUps({ storageObserver }: FastifyInstance): (value: string) => Promise<void> {
  const seen = new Set<unknown>();
  storageObserver.add({
    statement: ({ query }) => {
      for (const value of query.parameters) seen.add(value);
    },
    transaction: () => () => undefined,
    waited: () => undefined,
    failed: () => undefined,
  });
  return (value) => until(`a statement asks for ${value}`, () => seen.has(value));
}
