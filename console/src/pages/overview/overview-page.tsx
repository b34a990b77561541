// What goes on now: what needs attention, an app's traffic, and the parts of the system.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useFormatter, useTranslations } from "use-intl";
import { fleetQuery, readinessQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { TrafficChart } from "../../parts/traffic/traffic-chart.tsx";
import { results } from "../../parts/traffic/traffic-window.ts";
import { useTraffic } from "../../parts/traffic/use-traffic.ts";
import { type Attention, attentionOf } from "./attention.ts";

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
      {app === undefined ? <Loading /> : <Traffic key={app} app={app} />}
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

function Traffic({ app }: { app: string }) {
  const t = useTranslations("traffic");
  const format = useFormatter();
  const { window, isLive } = useTraffic(app);
  const newest = [...window.values()].at(-1);
  return (
    <section aria-label={t("title")} className="card">
      <div className="heading">
        <h2>{t("title")}</h2>
        <span className={isLive ? "live" : "quiet"}>{isLive ? t("live") : t("connecting")}</span>
      </div>
      <dl className="figures">
        {results.map((result) => (
          <div key={result}>
            <dt>{t(result)}</dt>
            <dd data-result={result}>{t("perSecond", { count: format.number(newest?.[result] ?? 0) })}</dd>
          </div>
        ))}
      </dl>
      <TrafficChart window={window} />
    </section>
  );
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
