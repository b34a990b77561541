// Stores and deletes a consumer, if it is still what the person saw. The list is read again afterwards; after a refusal too, because the
// list may show what others have changed since.

import { useQueryClient } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "../../api/client.ts";

/** How long the answer waits for gateways. */
const wait = "5s";

export type Consumer = Schemas["Consumer"];

/** Which plan a consumer has, and which limits of its own. */
export type Terms = Pick<Consumer, "plan" | "overrides">;

export interface ConsumerChanges {
  /** @param etag what is replaced; undefined: there must be no such consumer @returns also the etag of what is stored now */
  put(
    id: string,
    terms: Terms,
    etag: string | undefined,
  ): Promise<Schemas["ConsumerChange"] & { readonly etag: string }>;
  remove(id: string, etag: string): Promise<void>;
}

export function useConsumerChanges(app: string): ConsumerChanges {
  const cache = useQueryClient();
  const seen = () => cache.invalidateQueries({ queryKey: ["consumers", app] });
  const thenSeen = async <Answer>(asked: Promise<Answer>) => {
    try {
      const answer = await asked;
      await seen();
      return answer;
    } catch (refusal) {
      void seen();
      throw refusal;
    }
  };
  return {
    put: (id, terms, etag) => thenSeen(putConsumer(app, id, terms, etag)),
    remove: (id, etag) => thenSeen(deleteConsumer(app, id, etag)),
  };
}

async function putConsumer(app: string, id: string, { plan, overrides }: Terms, etag: string | undefined) {
  const asked = api.PUT("/api/v1/apps/{app}/consumers/{consumer}", {
    params: {
      path: { app, consumer: id },
      query: { wait },
      header: etag === undefined ? { "if-none-match": "*" } : { "if-match": etag },
    },
    body: { plan, ...(overrides === undefined ? {} : { overrides }) },
  });
  const change = await answerOf(asked);
  return { ...change, etag: (await asked).response.headers.get("etag") ?? "" };
}

async function deleteConsumer(app: string, id: string, etag: string): Promise<void> {
  await answerOf(
    api.DELETE("/api/v1/apps/{app}/consumers/{consumer}", {
      params: { path: { app, consumer: id }, query: { wait }, header: { "if-match": etag } },
    }),
  );
}
