// The gateways: which are connected, what they enforce, and how they are.

import { useQuery } from "@tanstack/react-query";
import { useFormatter, useNow, useTranslations } from "use-intl";
import { fleetQuery, type Gateway } from "../../api/queries.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";

export function GatewaysPage() {
  const t = useTranslations("gateways");
  const { data: fleet, error, isPending, refetch } = useQuery(fleetQuery);
  return (
    <>
      <h1>{t("title")}</h1>
      {isPending ? <Loading /> : null}
      {fleet === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {fleet?.gateways.length === 0 ? <Empty>{t("none")}</Empty> : null}
      {fleet !== undefined && fleet.gateways.length > 0 ? (
        <section className="card">
          <p className="quiet">{t("summary", { connected: fleet.connected, revision: fleet.revision })}</p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
          <section className="wide" tabIndex={0} aria-label={t("title")}>
            <table>
              <thead>
                <tr>
                  {(["id", "state", "revision", "redis", "workers", "version", "since"] as const).map((column) => (
                    <th key={column} scope="col">
                      {t(column)}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {fleet.gateways.map((gateway) => (
                  <Row key={gateway.id} gateway={gateway} />
                ))}
              </tbody>
            </table>
          </section>
        </section>
      ) : null}
    </>
  );
}

function Row({ gateway }: { gateway: Gateway }) {
  const t = useTranslations("gateways");
  const format = useFormatter();
  const now = useNow({ updateInterval: 10_000 });
  const since = gateway.connected ? gateway.connectedAt : (gateway.disconnectedAt ?? gateway.connectedAt);
  const state = gateway.connected ? (gateway.alarm ?? "connected") : "away";
  return (
    <tr>
      <th scope="row">{gateway.id}</th>
      <td>
        <span className={state === "connected" ? "good" : "bad"}>{t(`states.${state}`)}</span>
      </td>
      <td>
        {gateway.revision}
        {gateway.lag > 0 ? <span className="bad"> {t("behind", { count: gateway.lag })}</span> : null}
      </td>
      <td>{t(`redisStates.${gateway.redis?.state ?? "unused"}`)}</td>
      <td>{gateway.workers}</td>
      <td>{gateway.version}</td>
      <td>
        <time dateTime={since} title={format.dateTime(new Date(since), { dateStyle: "medium", timeStyle: "medium" })}>
          {format.relativeTime(new Date(since), now)}
        </time>
      </td>
    </tr>
  );
}
