// Chooses the app that a page shows. The choice is in the page's URL.

import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useId } from "react";
import { useTranslations } from "use-intl";
import { appsQuery, busyAppsQuery } from "../api/queries.ts";
import { keep, kept } from "../settings/kept.ts";

/** Refusals of this minute and of the one before it happen now. */
const minutesOfNow = 2;

/**
 * The app of pages that are not asked for any: the one that was used last in this browser, else the one that refuses most when the console is
 * opened, else the first. It does not change by itself while somebody looks at it. Null: there is no app.
 */
const firstAppQuery = queryOptions({
  queryKey: ["first-app"],
  queryFn: async ({ client }): Promise<string | null> => {
    const names = (await client.fetchQuery(appsQuery)).map(({ name }) => name);
    const last = kept("app");
    if (last !== undefined && names.includes(last)) return last;
    const { apps } = await client.fetchQuery(busyAppsQuery).catch(() => ({ apps: [] }));
    const busiest = apps.find(({ app, refused }) => refused > 0 && names.includes(app));
    return busiest?.app ?? names[0] ?? null;
  },
  staleTime: "static",
});

/** @returns the app that is asked for, or another one; undefined while apps are not known, or if there is none */
export function useChosenApp(asked: string | undefined): string | undefined {
  const { data: first } = useQuery({ ...firstAppQuery, enabled: asked === undefined });
  useLastApp(asked);
  return asked ?? first ?? undefined;
}

/** Notes which app somebody uses, if it is there. @param app undefined: nobody has chosen one */
export function useLastApp(app: string | undefined): void {
  const cache = useQueryClient();
  const { data: apps = [] } = useQuery(appsQuery);
  const used = apps.find(({ name }) => name === app)?.name;
  useEffect(() => {
    if (used === undefined) return;
    keep("app", used);
    cache.setQueryData(firstAppQuery.queryKey, used);
  }, [cache, used]);
}

export function AppChoice({ app, onChoose }: { app: string | undefined; onChoose: (app: string) => void }) {
  const t = useTranslations("apps");
  const id = useId();
  const { data: apps = [] } = useQuery(appsQuery);
  const { data: busy } = useQuery(busyAppsQuery);
  const refusedNow = new Map(
    busy?.apps.map((one) => [one.app, one.refusedByMinute.slice(-minutesOfNow).reduce((sum, count) => sum + count, 0)]),
  );
  const names = apps.map(({ name }) => name);
  if (app !== undefined && !names.includes(app)) names.push(app);
  return (
    <label className="choice" htmlFor={id}>
      {t("app")}
      <select id={id} value={app ?? ""} onChange={(e) => onChoose(e.target.value)}>
        {names.map((name) => {
          const count = refusedNow.get(name) ?? 0;
          return (
            <option key={name} value={name}>
              {count === 0 ? name : t("refusing", { app: name, count })}
            </option>
          );
        })}
      </select>
    </label>
  );
}
