// Changes an app's settings, says how many gateways have them, and offers to undo that.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../api/client.ts";
import { useExpectation } from "../settings/language.tsx";
import { useTell } from "./notices.tsx";

/** How long the answer waits for gateways. */
const wait = "5s";

/** An absent setting stays as it is; null removes it. */
export type AppChange = Partial<Pick<Schemas["App"], "realm" | "exempt">>;

/** Of how many gateways how many have a change. */
export interface Taken {
  readonly have: number;
  readonly of: number;
}

/** @param etag of the settings that are changed; a later one is not taken, because the person has not seen what it is of @returns stores a change; `undoing` undoes it, and undefined: nothing can */
export function useAppChange(
  app: string,
  etag: string,
): (change: AppChange, undoing: AppChange | undefined, textOf: (taken: Taken) => string) => Promise<void> {
  const t = useTranslations("refusal");
  const say = useExpectation();
  const tell = useTell();
  const cache = useQueryClient();
  const [seen] = useState(etag);
  const put = async (body: AppChange, before: string) => {
    const asked = api.PUT("/api/v1/apps/{app}", {
      params: { path: { app }, query: { wait }, header: { "if-match": before } },
      body,
    });
    const { applied, warnings = [] } = await answerOf(asked);
    await cache.invalidateQueries({ queryKey: ["apps"] });
    return { applied, warnings, etag: (await asked).response.headers.get("etag") ?? "" };
  };
  return async (change, undoing, textOf) => {
    const stored = await put(change, seen);
    const { acked: have = 0, gateways: of = 0 } = stored.applied ?? {};
    const warnings = stored.warnings.map(
      ({ path, expected, got }) => ` ${t("field", { path, expected: say(expected), got: say(got) })}`,
    );
    const undo = undoing === undefined ? {} : { undo: () => put(undoing, stored.etag) };
    tell({ text: textOf({ have, of }) + warnings.join(""), ...undo });
  };
}
