// Try it: a request that one makes up, which policies it meets, why it does not meet the others, and what their counters would say.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import {
  appsQuery,
  type ListedApp,
  type ListedPolicy,
  policiesQuery,
  type Template,
  templatesQuery,
} from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Field } from "../../parts/field.tsx";
import { RealmMissing, useHasNoRealm } from "../../parts/realm-missing.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { curlOf } from "../../trial/curl.ts";
import { type Header, type MadeUpRequest, normalPath, parseHeaders } from "../../trial/request.ts";
import type { Surroundings } from "../../trial/trial.ts";
import { CounterAnswer } from "./counter-answer.tsx";
import { readTrialSearch, type TrialSearch } from "./trial-search.ts";
import { useNetworkLists } from "./use-network-lists.ts";
import { type Tried, useTried } from "./use-tried.ts";

const route = getRouteApi("/shell/try");
const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
/** Policies that are not met, in the list: more can be found by their name. */
const mostPassedBy = 50;

/** Always the same ones, until there are others. */
const noPolicies: readonly ListedPolicy[] = [];
const noTemplates: readonly Template[] = [];

export function TrialPage() {
  const t = useTranslations("trial");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const [headers, setHeaders] = useState("");
  const [form, setForm] = useState("");
  const [gateway, setGateway] = useState("http://127.0.0.1:8080");
  const change = (to: TrialSearch) => void navigate({ search: readTrialSearch({ ...search, ...to }), replace: true });
  const { method = "GET", host = "", path = "/", address = "203.0.113.7" } = search;
  const parsed = parseHeaders(headers);
  const wrong = "wrong" in parsed ? parsed.wrong : undefined;
  const request: MadeUpRequest = {
    method,
    host: host.toLowerCase(),
    target: path,
    headers: withFormType("wrong" in parsed ? [] : parsed, form),
    body: form,
    address,
  };
  const isPathValid = normalPath(path) !== undefined;
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => change({ app: chosen })} />
      </div>
      <section className="card" aria-label={t("request")}>
        <p className="quiet">{t("how")}</p>
        <div className="fields">
          <Field label={t("method")}>
            {(input) => (
              <select {...input} value={method} onChange={(e) => change({ method: e.target.value })}>
                {methods.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label={t("path")} fault={isPathValid ? undefined : t("pathWrong")}>
            {(input) => (
              <input {...input} value={path} spellCheck={false} onChange={(e) => change({ path: e.target.value })} />
            )}
          </Field>
          <Field label={t("host")}>
            {(input) => (
              <input {...input} value={host} spellCheck={false} onChange={(e) => change({ host: e.target.value })} />
            )}
          </Field>
          <Field label={t("address")}>
            {(input) => (
              <input
                {...input}
                value={address}
                spellCheck={false}
                onChange={(e) => change({ address: e.target.value })}
              />
            )}
          </Field>
        </div>
        <Field
          label={t("headers")}
          help={t("headersHelp")}
          fault={wrong === undefined ? undefined : t("headerWrong", { line: wrong })}
        >
          {(input) => (
            <textarea
              {...input}
              className="code"
              rows={3}
              spellCheck={false}
              value={headers}
              onChange={(e) => setHeaders(e.target.value)}
            />
          )}
        </Field>
        <Field label={t("form")} help={t("formHelp")}>
          {(input) => (
            <input
              {...input}
              className="code"
              value={form}
              spellCheck={false}
              onChange={(e) => setForm(e.target.value)}
            />
          )}
        </Field>
      </section>
      {app === undefined ? <Loading /> : <Result key={app} app={app} request={isPathValid ? request : undefined} />}
      <section className="card" aria-label={t("curl")}>
        <h2>{t("curl")}</h2>
        <Field label={t("gateway")} help={t("gatewayHelp")}>
          {(input) => (
            <input {...input} value={gateway} spellCheck={false} onChange={(e) => setGateway(e.target.value)} />
          )}
        </Field>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
        <pre tabIndex={0}>{curlOf(request, gateway)}</pre>
      </section>
    </>
  );
}

/** As browsers send a form. */
function withFormType(headers: readonly Header[], form: string): readonly Header[] {
  if (form === "" || headers.some(({ name }) => name === "content-type")) return headers;
  return [...headers, { name: "content-type", value: "application/x-www-form-urlencoded" }];
}

function Result({ app, request }: { app: string; request: MadeUpRequest | undefined }) {
  const t = useTranslations("trial");
  const { data: policies, error, isPending, refetch } = useQuery(policiesQuery(app));
  const { data: templates = noTemplates } = useQuery(templatesQuery(app));
  const { data: apps } = useQuery(appsQuery);
  const hasNoRealm = useHasNoRealm(app);
  const ofApps = useMemo(() => exemptionsFor(app, apps ?? []), [app, apps]);
  const lists = useNetworkLists(app, policies ?? noPolicies, ofApps);
  const world = useMemo(
    () => ({ policies: policies ?? noPolicies, templates, around: { app, hasNoRealm, ofApps, lists } }),
    [policies, templates, app, hasNoRealm, ofApps, lists],
  );
  const tried = useTried(world, request);
  const [filter, setFilter] = useState("");
  if (isPending) return <Loading />;
  if (policies === undefined) return <Failed error={error} again={() => void refetch()} />;
  if (tried === undefined) return <Loading />;
  const met = tried.filter(({ trial }) => trial.outcome !== "passed-by");
  const passedBy = tried.filter(({ trial, name }) => trial.outcome === "passed-by" && name.includes(filter));
  return (
    <>
      <RealmMissing app={app} />
      <section className="card" aria-label={t("met")}>
        <h2 aria-live="polite">{t("metCount", { count: met.length })}</h2>
        {met.length === 0 ? <Empty>{t("noneMet")}</Empty> : null}
        {met.map((one) => (
          <Met key={one.name} app={app} tried={one} />
        ))}
      </section>
      <section className="card" aria-label={t("others")}>
        <div className="heading">
          <h2>{t("others")}</h2>
          <label className="choice">
            {t("filter")}
            <input type="search" value={filter} onChange={(e) => setFilter(e.target.value)} />
          </label>
        </div>
        {passedBy.length === 0 ? <Empty>{t("noOthers")}</Empty> : null}
        {passedBy.length === 0 ? null : (
          <Table label={t("others")} columns={[t("policy"), t("why")]}>
            {passedBy.slice(0, mostPassedBy).map(({ name, trial }) => (
              <tr key={name}>
                <th scope="row">
                  <Link to="/policies/$app/$policy" params={{ app, policy: name }}>
                    {name}
                  </Link>
                </th>
                <td>{trial.outcome === "passed-by" ? t(`reasons.${trial.why}`, { what: trial.what }) : null}</td>
              </tr>
            ))}
          </Table>
        )}
        {passedBy.length > mostPassedBy ? (
          <p className="quiet">{t("more", { count: passedBy.length - mostPassedBy })}</p>
        ) : null}
      </section>
    </>
  );
}

function Met({ app, tried: { name, document, trial } }: { app: string; tried: Tried }) {
  const t = useTranslations("trial");
  const modes = useTranslations("policies");
  return (
    <section className="met" aria-label={name}>
      <h3>
        <Link to="/policies/$app/$policy" params={{ app, policy: name }}>
          {name}
        </Link>{" "}
        {trial.outcome === "counts" ? (
          <span className={`mode ${trial.mode}`}>{modes(`modes.${trial.mode}`)}</span>
        ) : null}
      </h3>
      {trial.outcome === "denied" ? (
        <p className="bad">{t(`denials.${trial.why}`, { what: trial.what })}</p>
      ) : trial.outcome === "counts" ? (
        <CounterAnswer app={app} document={document} trial={trial} />
      ) : null}
    </section>
  );
}

/** Those of app `default` hold for all apps. Whoever may not read that app does not see them here. */
function exemptionsFor(app: string, apps: readonly Pick<ListedApp, "name" | "exempt">[]): Surroundings["ofApps"] {
  return apps.flatMap(({ name, exempt }) =>
    (name === app || name === "default") && exempt !== null ? [{ app: name, exempt }] : [],
  );
}
