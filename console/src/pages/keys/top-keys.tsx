// The keys of a policy that are refused most, each with a ban in two clicks.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";
import { useRights } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { BanDialog } from "../bans/ban-dialog.tsx";
import { shownKey } from "./counter-card.tsx";
import { hasCredential } from "./keys-search.ts";

const windows = ["minute", "hour"] as const;
const results = ["refused", "admitted"] as const;
const shownKeys = 20;
const askEveryMs = 5_000;

type Counted = Schemas["TopKeys"]["refused"][number];

export function TopKeys({
  app,
  policy: terms,
  onLook,
}: {
  app: string;
  policy: PolicyTerms;
  onLook: (key: readonly string[]) => void;
}) {
  const t = useTranslations("keys");
  const format = useFormatter();
  const { mayEdit } = useRights(app);
  const [window, setWindow] = useState<(typeof windows)[number]>("hour");
  const [result, setResult] = useState<(typeof results)[number]>("refused");
  const [banned, setBanned] = useState<readonly string[]>();
  const policy = terms.name;
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["top", app, policy, window],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/apps/{app}/top", {
          params: { path: { app }, query: { policy, window, limit: shownKeys } },
          signal,
        }),
      ),
    refetchInterval: askEveryMs,
  });
  const keys = data?.[result] ?? [];
  return (
    <section className="card" aria-label={t("top")}>
      <h2>{t("top")}</h2>
      <div className="filters">
        <label>
          {t("counted")}
          <select value={result} onChange={(e) => setResult(e.target.value as typeof result)}>
            {results.map((one) => (
              <option key={one} value={one}>
                {t(`results.${one}`)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("of")}
          <select value={window} onChange={(e) => setWindow(e.target.value as typeof window)}>
            {windows.map((one) => (
              <option key={one} value={one}>
                {t(`windows.${one}`)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {data !== undefined && keys.length === 0 ? <Empty>{t("noKeys")}</Empty> : null}
      {data === undefined ? null : (
        <p className="quiet">
          {t("since", { since: format.dateTime(new Date(data.since), { dateStyle: "medium", timeStyle: "medium" }) })}{" "}
          {data.complete ? null : t("incomplete")}
        </p>
      )}
      {keys.length === 0 ? null : (
        <>
          <Table label={t("top")} columns={[t("key"), t("requests"), t("actions")]}>
            {keys.map((counted) => (
              <Row
                key={JSON.stringify(counted.key ?? counted.hash)}
                counted={counted}
                // Only those who may change the policy see a credential, and its counter.
                onLook={mayEdit || !hasCredential(terms.key, counted.key ?? [], terms.secret) ? onLook : undefined}
                onBan={mayEdit && terms.key.length > 0 ? setBanned : undefined}
              />
            ))}
          </Table>
          <p className="quiet">{t("range", { most: data?.othersAtMost[result] ?? 0 })}</p>
        </>
      )}
      {banned === undefined ? null : (
        <BanDialog app={app} banned={{ policy: terms, key: banned }} onClose={() => setBanned(undefined)} />
      )}
    </section>
  );
}

function Row({
  counted: { key, hash = "", atLeast, atMost },
  onLook,
  onBan,
}: {
  counted: Counted;
  onLook: ((key: readonly string[]) => void) | undefined;
  onBan: ((key: readonly string[]) => void) | undefined;
}) {
  const t = useTranslations("keys");
  const format = useFormatter();
  const name = key === undefined ? t("hidden", { hash: hash.slice(0, 12) }) : shownKey(key, t("noParts"));
  return (
    <tr>
      <th scope="row" className="code">
        {name}
      </th>
      <td>
        {atLeast === atMost
          ? format.number(atLeast)
          : t("between", { least: format.number(atLeast), most: format.number(atMost) })}
      </td>
      <td>
        {key === undefined ? null : (
          <>
            {onLook === undefined ? null : (
              <button type="button" aria-label={t("lookAt", { key: name })} onClick={() => onLook(key)}>
                {t("look")}
              </button>
            )}{" "}
            {onBan === undefined ? null : (
              <button
                type="button"
                className="danger"
                aria-label={t("banKey", { key: name })}
                onClick={() => onBan(key)}
              >
                {t("ban")}
              </button>
            )}
          </>
        )}
      </td>
    </tr>
  );
}
