// Reads and writes a list of networks as a whole, as the control plane keeps it.

import { answerOf, api, type Schemas } from "../../api/client.ts";

/** How long the answer waits for gateways. */
const wait = "5s";

/**
 * @param text may have no network: the list is then empty
 * @param etag what is replaced; undefined: there must be no list of this name
 * @returns also the etag of what is stored now
 */
export async function putList(
  app: string,
  name: string,
  text: string,
  etag: string | undefined,
  isRehearsal = false,
): Promise<Schemas["Change"] & { readonly etag: string }> {
  const asked = api.PUT("/api/v1/apps/{app}/networks/{networks}", {
    params: {
      path: { app, networks: name },
      query: isRehearsal ? { dryRun: true, allowEmpty: true } : { wait, allowEmpty: true },
      header: etag === undefined ? { "if-none-match": "*" } : { "if-match": etag },
    },
    headers: { "content-type": "text/plain" },
    body: text,
    bodySerializer: (body: unknown) => String(body),
  });
  const change = await answerOf(asked);
  return { ...change, etag: (await asked).response.headers.get("etag") ?? "" };
}

export async function networksOf(app: string, name: string): Promise<readonly string[]> {
  const asked = api.GET("/api/v1/apps/{app}/networks/{networks}", { params: { path: { app, networks: name } } });
  return (await answerOf(asked)).networks;
}

export function deleteList(app: string, name: string, etag: string): Promise<Schemas["Change"]> {
  return answerOf(
    api.DELETE("/api/v1/apps/{app}/networks/{networks}", {
      params: { path: { app, networks: name }, query: { wait }, header: { "if-match": etag } },
    }),
  );
}
