// One gateway: what it enforces, what its operator should look at, what it refused and why, and how many decisions it has made.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useFormatter, useTranslations } from "use-intl";
import { fleetQuery, type Gateway } from "../../api/queries.ts";
import { Moment } from "../../parts/moment.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { visible } from "../../parts/visible.ts";
import { useExpectation } from "../../settings/language.tsx";

const route = getRouteApi("/shell/gateways/$gateway");

export function GatewayPage() {
  const t = useTranslations("gateways");
  const { gateway: id } = route.useParams();
  const { data: fleet, error, isPending, refetch } = useQuery(fleetQuery);
  const gateway = fleet?.gateways.find((one) => one.id === id);
  return (
    <>
      <p>
        <Link to="/gateways">{t("title")}</Link>
      </p>
      <h1>{visible(id)}</h1>
      {isPending ? <Loading /> : null}
      {fleet === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {fleet !== undefined && gateway === undefined ? <Empty>{t("gone")}</Empty> : null}
      {gateway === undefined ? null : <Details gateway={gateway} newest={fleet?.revision ?? 0} />}
    </>
  );
}

function Details({ gateway, newest }: { gateway: Gateway; newest: number }) {
  const t = useTranslations("gateways");
  const say = useExpectation();
  const format = useFormatter();
  const { connected, connectedAt, disconnectedAt, alarm, refused, revision, lag, redis, counters, warnings } = gateway;
  const plain = (n: number) => format.number(n, { useGrouping: false });
  const state = connected ? (alarm ?? "connected") : "away";
  return (
    <>
      <section className="card" aria-label={t("state")}>
        <p className={state === "connected" ? "good" : "bad"}>{t(`means.${state}`)}</p>
        <dl className="figures">
          <Figure label={t("since")}>
            <Moment at={connected ? connectedAt : (disconnectedAt ?? connectedAt)} />
          </Figure>
          <Figure label={t("revision")}>
            {plain(revision)} / {plain(newest)}
          </Figure>
          <Figure label={t("lag")}>{format.number(lag)}</Figure>
          <Figure label={t("redis")}>{t(`redisStates.${redis?.state ?? "unused"}`)}</Figure>
          <Figure label={t("workers")}>{format.number(gateway.workers)}</Figure>
          <Figure label={t("version")}>{gateway.version}</Figure>
          <Figure label={t("protocol")}>{gateway.protocol}</Figure>
        </dl>
      </section>
      {warnings.length === 0 ? null : (
        <section className="card" aria-label={t("warnings")}>
          <h2>{t("warnings")}</h2>
          <ul>
            {warnings.map((sentence) => (
              <li key={sentence}>{visible(sentence)}</li>
            ))}
          </ul>
        </section>
      )}
      {refused === null ? null : (
        <section className="card" aria-label={t("refused")}>
          <h2>{t("refused")}</h2>
          <p>
            {t("refusedRevision", { revision: plain(refused.revision) })} <Moment at={refused.at} />
          </p>
          {refused.errors.length === 0 ? (
            <p className="quiet">{t("refusalHidden")}</p>
          ) : (
            <ul>
              {refused.errors.map(({ policy = "", path, expected, got }) => (
                <li key={`${policy} ${path} ${expected}`}>
                  {t("fault", { policy, path, expected: say(expected), got: say(got) })}
                </li>
              ))}
            </ul>
          )}
        </section>
      )}
      <section className="card" aria-label={t("decisions")}>
        <h2>{t("decisions")}</h2>
        {Object.keys(counters).length === 0 ? (
          <p className="quiet">{t("noDecisions")}</p>
        ) : (
          <Table label={t("decisions")} columns={[t("result"), t("count")]}>
            {Object.entries(counters).map(([result, count]) => (
              <tr key={result}>
                <th scope="row" className="code">
                  {result}
                </th>
                <td>{format.number(count)}</td>
              </tr>
            ))}
          </Table>
        )}
      </section>
    </>
  );
}

function Figure({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}
