// The policies of an app that refuse most, with what they did in the last hour.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useFormatter, useTranslations } from "use-intl";
import { busyQuery } from "../../api/queries.ts";
import { Sparkline } from "../../parts/sparkline.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";

const shownPolicies = 10;
const counts = ["refused", "shadowRefused", "admitted", "delayed", "degraded"] as const;

export function BusyPolicies({ app }: { app: string }) {
  const t = useTranslations("overview");
  const format = useFormatter();
  const { data, error, isPending, refetch } = useQuery(busyQuery(app, shownPolicies));
  return (
    <section aria-label={t("busy")} className="card">
      <h2>{t("busy")}</h2>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {data?.policies.length === 0 ? <Empty>{t("nothingDecided")}</Empty> : null}
      {data === undefined || data.policies.length === 0 ? null : (
        <Table
          label={t("busy")}
          columns={[t("policy"), t("refusals"), ...counts.map((what) => t(`counts.${what}`)), t("actions")]}
        >
          {data.policies.map((busy) => (
            <tr key={busy.policy}>
              <th scope="row">
                <Link to="/policies/$app/$policy" params={{ app, policy: busy.policy }}>
                  {busy.policy}
                </Link>
              </th>
              <td>
                <Sparkline values={busy.refusedByMinute} label={t("refusedOverTime", { count: busy.refused })} />
              </td>
              {counts.map((what) => (
                <td key={what}>{format.number(busy[what])}</td>
              ))}
              <td>
                <Link
                  to="/keys"
                  search={{ app, policy: busy.policy }}
                  aria-label={t("keysOf", { policy: busy.policy })}
                >
                  {t("keys")}
                </Link>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
