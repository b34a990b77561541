// The gateways: which are connected, what they enforce, and how they are.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { fleetQuery, type Gateway } from "../../api/queries.ts";
import { Moment } from "../../parts/moment.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { visible } from "../../parts/visible.ts";

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
          <Table
            label={t("title")}
            columns={(["id", "state", "revision", "redis", "workers", "version", "since"] as const).map((column) =>
              t(column),
            )}
          >
            {fleet.gateways.map((gateway) => (
              <Row key={gateway.id} gateway={gateway} />
            ))}
          </Table>
        </section>
      ) : null}
    </>
  );
}

function Row({ gateway }: { gateway: Gateway }) {
  const t = useTranslations("gateways");
  const since = gateway.connected ? gateway.connectedAt : (gateway.disconnectedAt ?? gateway.connectedAt);
  const state = gateway.connected ? (gateway.alarm ?? "connected") : "away";
  return (
    <tr>
      <th scope="row">
        <Link to="/gateways/$gateway" params={{ gateway: gateway.id }}>
          {visible(gateway.id)}
        </Link>
      </th>
      <td>
        <span className={state === "connected" ? "good" : "bad"}>{t(`states.${state}`)}</span>
        {gateway.warnings.length > 0 ? (
          <span className="quiet"> {t("warned", { count: gateway.warnings.length })}</span>
        ) : null}
      </td>
      <td>
        {gateway.revision}
        {gateway.lag > 0 ? <span className="bad"> {t("behind", { count: gateway.lag })}</span> : null}
      </td>
      <td>{t(`redisStates.${gateway.redis?.state ?? "unused"}`)}</td>
      <td>{gateway.workers}</td>
      <td>{gateway.version}</td>
      <td>
        <Moment at={since} />
      </td>
    </tr>
  );
}
