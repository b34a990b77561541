// What goes on now: what needs attention, an app's traffic, and the parts of the system.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useFormatter, useTranslations } from "use-intl";
import { fleetQuery, readinessQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { LiveTraffic } from "../../parts/traffic/live-traffic.tsx";
import { type Attention, attentionOf } from "./attention.ts";
import { BusyPolicies } from "./busy-policies.tsx";

const route = getRouteApi("/shell/overview");

export function OverviewPage() {
  const t = useTranslations("overview");
  const { app: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(asked);
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
      </div>
      <Attentions />
      {app === undefined ? (
        <Loading />
      ) : (
        <>
          <LiveTraffic key={app} app={app} />
          <BusyPolicies app={app} />
        </>
      )}
      <Parts />
    </>
  );
}

function Attentions() {
  const t = useTranslations("overview");
  const { data: readiness, error } = useQuery(readinessQuery);
  const { data: fleet } = useQuery(fleetQuery);
  const found = attentionOf(readiness, fleet);
  return (
    <section aria-label={t("attention")} className="attention" aria-live="polite">
      {error === null ? null : <p className="bad">{t("noAnswer")}</p>}
      {error === null && found.length === 0 && fleet !== undefined ? <p className="good">{t("allWell")}</p> : null}
      {found.map((one) => (
        <Problem key={one.kind === "alarm" ? one.alarm : one.kind} attention={one} />
      ))}
    </section>
  );
}

function Problem({ attention }: { attention: Attention }) {
  const t = useTranslations("attention");
  const format = useFormatter();
  const gateways = "gateways" in attention ? format.list(attention.gateways.slice(0, 5)) : "";
  const words = () => {
    switch (attention.kind) {
      case "storage":
        return t(`storage.${attention.state}`);
      case "alarm":
        return t(`alarm.${attention.alarm}`, { gateways, count: attention.gateways.length });
      case "gatewayRedis":
        return t("gatewayRedis", { gateways, count: attention.gateways.length });
      default:
        return t(attention.kind);
    }
  };
  return <p className="bad">{words()}</p>;
}

function Parts() {
  const t = useTranslations("overview");
  const { data: readiness } = useQuery(readinessQuery);
  const { data: fleet, error, isPending, refetch } = useQuery(fleetQuery);
  if (isPending) return <Loading />;
  if (fleet === undefined) return <Failed error={error} again={() => void refetch()} />;
  return (
    <section aria-label={t("parts")} className="card">
      <h2>{t("parts")}</h2>
      <dl className="figures">
        <div>
          <dt>{t("gateways")}</dt>
          <dd>
            <Link to="/gateways">{t("connected", { count: fleet.connected })}</Link>
          </dd>
        </div>
        <div>
          <dt>{t("revision")}</dt>
          <dd>{fleet.revision}</dd>
        </div>
        <div>
          <dt>Redis</dt>
          <dd>{t(`redis.${fleet.redis.state}`)}</dd>
        </div>
        <div>
          <dt>{t("database")}</dt>
          <dd>{t(`storage.${readiness?.storage ?? "unreachable"}`)}</dd>
        </div>
      </dl>
      {fleet.gateways.length === 0 ? <Empty>{t("noGatewayYet")}</Empty> : null}
    </section>
  );
}
