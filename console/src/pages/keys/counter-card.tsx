// One key of a policy: what each limit has left, at every place that counts, what refuses the key, and what one can do about it.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import type { Schemas } from "../../api/client.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";
import { bansQuery, counterQuery } from "../../api/queries.ts";
import { Moment } from "../../parts/moment.tsx";
import { useRights } from "../../parts/rights.ts";
import { Sparkline } from "../../parts/sparkline.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { visible } from "../../parts/visible.ts";
import { BanDialog } from "../bans/ban-dialog.tsx";
import { bansOfKey } from "../bans/bans-of-key.ts";
import { UnbanDialog } from "../bans/unban-dialog.tsx";
import {
  type Counter,
  type Place,
  placesOf,
  type Reading,
  refusing,
  seriesName,
  withReading,
} from "./counter-state.ts";
import { ResetDialog } from "./reset-dialog.tsx";
import { TopUpDialog } from "./top-up-dialog.tsx";

const followEveryMs = 5_000;

export function CounterCard({
  app,
  policy: terms,
  asked,
}: {
  app: string;
  policy: PolicyTerms;
  asked: readonly string[];
}) {
  const t = useTranslations("keys");
  const { mayEdit } = useRights(app);
  const policy = terms.name;
  const [follows, setFollows] = useState(false);
  const [open, setOpen] = useState<"reset" | "top-up" | "ban" | Schemas["Ban"]>();
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  const { data, dataUpdatedAt, error, isPending, refetch } = useQuery({
    ...counterQuery(app, policy, asked),
    refetchInterval: follows ? followEveryMs : false,
  });
  const { data: bans } = useQuery(bansQuery(app));
  useEffect(() => {
    if (data !== undefined) setReadings((old) => withReading(old, data, dataUpdatedAt));
  }, [data, dataUpdatedAt]);
  const close = () => setOpen(undefined);
  const own = bansOfKey(bans ?? [], policy, data?.key ?? asked);
  return (
    <section className="card" aria-label={t("counter")}>
      <div className="heading">
        <h2>{t("counterOf", { key: shownKey(data?.key ?? asked, t("noParts")) })}</h2>
        <label className="choice">
          <input type="checkbox" checked={follows} onChange={(e) => setFollows(e.target.checked)} /> {t("follow")}
        </label>
      </div>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {data === undefined ? null : (
        <>
          <Why counter={data} policy={terms} bans={own} />
          {placesOf(data).map((place) => (
            <PlaceTable key={place.gateway ?? ""} place={place} readings={readings} />
          ))}
          {data.gateways.length === 0 && data.scope === "node" ? <p className="quiet">{t("noGateway")}</p> : null}
          <div className="actions">
            <button type="button" onClick={() => void refetch()}>
              {t("lookAgain")}
            </button>
            {mayEdit ? (
              <>
                <button type="button" onClick={() => setOpen("top-up")}>
                  {t("topUp")}
                </button>
                <button type="button" onClick={() => setOpen("reset")}>
                  {t("reset")}
                </button>
                {own[0] === undefined ? (
                  <button type="button" className="danger" onClick={() => setOpen("ban")}>
                    {t("ban")}
                  </button>
                ) : (
                  <button type="button" className="danger" onClick={() => setOpen(own[0])}>
                    {t("unban")}
                  </button>
                )}
              </>
            ) : null}
          </div>
        </>
      )}
      {open === "ban" ? <BanDialog app={app} banned={{ policy: terms, key: asked }} onClose={close} /> : null}
      {open === "reset" ? <ResetDialog app={app} policy={policy} asked={asked} onClose={close} /> : null}
      {open === "top-up" ? <TopUpDialog app={app} policy={terms} asked={asked} onClose={close} /> : null}
      {typeof open === "object" ? <UnbanDialog app={app} ban={open} onClose={close} /> : null}
    </section>
  );
}

export function shownKey(key: readonly string[], none: string): string {
  return key.length === 0 ? none : key.map((value) => (value === "" ? '""' : visible(value))).join(" · ");
}

function Why({
  counter,
  policy: { mode, limits: ofPolicy, cost },
  bans,
}: {
  counter: Counter;
  policy: PolicyTerms;
  bans: readonly Schemas["Ban"][];
}) {
  const t = useTranslations("keys");
  const format = useFormatter();
  const moment = (at: Date) => format.dateTime(at, { dateStyle: "medium", timeStyle: "medium" });
  const reasons = placesOf(counter).flatMap(({ gateway, limits }) =>
    refusing(limits, ofPolicy, cost).map(({ limit, atMostSeconds }) => {
      const where = gateway ?? "Redis";
      if (atMostSeconds === undefined) return t("refusedUntilFree", { limit, where });
      const at = new Date(Date.now() + atMostSeconds * 1_000);
      return t("refusedBy", { limit, where, until: moment(at) });
    }),
  );
  const banned = bans.map(({ until, reason }) =>
    reason === undefined || reason === ""
      ? t("bannedUntil", { until: moment(new Date(until)) })
      : t("bannedBecause", { until: moment(new Date(until)), reason: visible(reason) }),
  );
  const all = [...banned, ...reasons];
  if (mode === "off") return <p>{t("isOff")}</p>;
  if (all.length === 0) return <p className="good">{t("admitted")}</p>;
  return (
    <>
      <ul className="bad reasons">
        {all.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
      {mode === "shadow" ? <p>{t("isShadow")}</p> : null}
    </>
  );
}

const mostPlainSeconds = 120;

/** @param props.atMs when the counter was read */
function UntilNew({ seconds, atMs }: { seconds: number | null; atMs: number }) {
  const t = useTranslations("keys");
  if (seconds === null) return t("onlyByReset");
  if (seconds <= mostPlainSeconds) return t("inSeconds", { seconds });
  return <Moment at={new Date(atMs + seconds * 1_000).toISOString()} />;
}

function PlaceTable({ place: { gateway, state, limits }, readings }: { place: Place; readings: readonly Reading[] }) {
  const t = useTranslations("keys");
  const format = useFormatter();
  const where = gateway ?? "Redis";
  if (state !== "done") {
    return (
      <p>
        <strong>{where}</strong>: {t(`states.${state}`)}
      </p>
    );
  }
  return (
    <Table
      label={t("at", { where })}
      columns={[where, t("used"), t("remaining"), t("limit"), t("likeNew"), t("overTime")]}
    >
      {limits.map(({ name, used, remaining, limit, resetAfter }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>
            <meter value={used} max={Math.max(limit, 1)} high={limit * 0.9} aria-label={t("usedOf", { used, limit })} />{" "}
            {format.number(used)}
          </td>
          <td className={remaining <= 0 ? "bad" : undefined}>{format.number(remaining)}</td>
          <td>{format.number(limit)}</td>
          <td>
            <UntilNew seconds={resetAfter} atMs={readings.at(-1)?.atMs ?? Date.now()} />
          </td>
          <td>
            <Sparkline
              values={readings.map((reading) => reading.used.get(seriesName(gateway, name)) ?? 0)}
              most={Math.max(limit, 1)}
              label={t("readings", { count: readings.length })}
            />
          </td>
        </tr>
      ))}
    </Table>
  );
}
