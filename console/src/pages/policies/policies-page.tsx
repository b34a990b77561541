// An app's policies, to search and to open. What is searched for is in the URL.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";
import { useTranslations } from "use-intl";
import { termsOf } from "../../api/policy-terms.ts";
import { type BusyPolicy, busyQuery, type ListedPolicy, policiesQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Moment } from "../../parts/moment.tsx";
import { PolicyMode } from "../../parts/policy-mode.tsx";
import { useHasNoRealm } from "../../parts/realm-missing.tsx";
import { useRights } from "../../parts/rights.ts";
import { Sparkline } from "../../parts/sparkline.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { AppRealm } from "./app-realm.tsx";
import { filtered, modeOf, modes, type PolicyFilter, readPoliciesSearch } from "./policy-filter.ts";

const route = getRouteApi("/shell/policies");
const rowsAtOnce = 100;
/** Refusals of more policies are not shown. */
const mostBusy = 1_000;

export function PoliciesPage() {
  const t = useTranslations("policies");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const { mayEdit } = useRights(app);
  const change = (to: Record<string, string | undefined>) =>
    void navigate({ search: readPoliciesSearch({ ...search, ...to }), replace: true });
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => change({ app: chosen })} />
        {mayEdit ? (
          <Link className="button main" to="/policies/new" search={app === undefined ? {} : { app }}>
            {t("new")}
          </Link>
        ) : null}
      </div>
      {app === undefined ? null : <AppRealm key={app} app={app} />}
      <search className="filters">
        <label>
          {t("search")}
          <input type="search" value={search.q ?? ""} onChange={(e) => change({ q: e.target.value })} />
        </label>
        <label>
          {t("mode")}
          <select value={search.mode ?? ""} onChange={(e) => change({ mode: e.target.value })}>
            <option value="">{t("anyMode")}</option>
            {modes.map((mode) => (
              <option key={mode} value={mode}>
                {t(`modes.${mode}`)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("owner")}
          <input type="search" value={search.owner ?? ""} onChange={(e) => change({ owner: e.target.value })} />
        </label>
      </search>
      {app === undefined ? <Loading /> : <Policies app={app} filter={search} />}
    </>
  );
}

function Policies({ app, filter }: { app: string; filter: PolicyFilter }) {
  const t = useTranslations("policies");
  const { data: policies, error, isPending, refetch } = useQuery(policiesQuery(app));
  const { data: busy } = useQuery(busyQuery(app, mostBusy));
  const busyByName = new Map(busy?.policies.map((one) => [one.policy, one]));
  const [shown, setShown] = useState(rowsAtOnce);
  const deferred = useDeferredValue(filter);
  if (isPending) return <Loading />;
  if (policies === undefined) return <Failed error={error} again={() => void refetch()} />;
  if (policies.length === 0) return <Empty>{t("none", { app })}</Empty>;
  const found = filtered(policies, deferred);
  if (found.length === 0) return <Empty>{t("noneFound", { count: policies.length })}</Empty>;
  return (
    <section className="card">
      <p className="quiet" role="status">
        {t("found", { found: found.length, all: policies.length })}
      </p>
      <Table
        label={t("title")}
        columns={(["name", "mode", "refusals", "matches", "limits", "owner", "changed"] as const).map((column) =>
          t(column),
        )}
      >
        {found.slice(0, shown).map((policy) => (
          <Row key={policy.name} app={app} policy={policy} busy={busyByName.get(policy.name)} />
        ))}
      </Table>
      {found.length > shown ? (
        <button type="button" onClick={() => setShown(shown + rowsAtOnce)}>
          {t("more", { count: Math.min(rowsAtOnce, found.length - shown) })}
        </button>
      ) : null}
    </section>
  );
}

function Row({ app, policy, busy }: { app: string; policy: ListedPolicy; busy: BusyPolicy | undefined }) {
  const t = useTranslations("policies");
  const { match } = policy.document;
  const { limits } = termsOf(policy.document);
  const hasNoRealm = useHasNoRealm(app);
  const matches = [...(match?.hosts ?? []), ...(match?.paths ?? [])];
  return (
    <tr>
      <th scope="row">
        <Link to="/policies/$app/$policy" params={{ app, policy: policy.name }}>
          {policy.name}
        </Link>
      </th>
      <td>
        <PolicyMode app={app} mode={modeOf(policy)} />
      </td>
      <td>
        {busy === undefined || busy.refused === 0 ? null : (
          <Sparkline values={busy.refusedByMinute} label={t("refused", { count: busy.refused })} />
        )}
      </td>
      <td className="code">
        {hasNoRealm ? t("nothing") : matches.length === 0 ? t("everything") : matches.slice(0, 3).join(" ")}
      </td>
      <td className="code">
        {limits.map(({ quota, window }) => (window === undefined ? quota : `${quota}/${window}`)).join(" · ")}
      </td>
      <td>{policy.owner ?? t("nobody")}</td>
      <td>
        <Moment at={policy.updatedAt} />
      </td>
    </tr>
  );
}
