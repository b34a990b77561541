// What the counters of a request's key would say: each limit, on Redis or at each gateway. Asked for by a button, as it is audited.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { type StoredPolicy, termsOf } from "../../api/policy-terms.ts";
import { consumerQuery, counterQuery } from "../../api/queries.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import type { Trial } from "../../trial/trial.ts";
import { placesOf } from "../keys/counter-state.ts";
import { linkTo } from "../keys/keys-search.ts";

export function CounterAnswer({
  app,
  document,
  trial: { key, cost, isOverridden, plan, consumer },
}: {
  app: string;
  document: StoredPolicy;
  trial: Extract<Trial, { outcome: "counts" }>;
}) {
  const t = useTranslations("trial");
  const format = useFormatter();
  const [isAsked, setIsAsked] = useState(false);
  const terms = termsOf(document);
  const isKnown = key.every((value) => value !== undefined);
  const values = key.map((value) => value ?? "");
  const { data, error, isFetching, refetch } = useQuery({
    ...counterQuery(app, terms.name, values, plan),
    enabled: isAsked && isKnown,
  });
  return (
    <>
      <p>
        {key.length === 0
          ? t("shared")
          : t("keyIs", { key: terms.key.map((part, i) => `${part} = ${key[i] ?? "?"}`).join(", ") })}{" "}
        {t("costs", { cost })} {isOverridden ? t("overridden") : null}
        {plan === undefined ? null : t("inPlan", { plan })}
        {consumer === undefined ? null : <PlanOfConsumer app={app} document={document} id={consumer} />}
      </p>
      {isKnown ? null : <p className="quiet">{t("unknown")}</p>}
      {isKnown && data === undefined ? (
        <div>
          <button type="button" disabled={isFetching} onClick={() => setIsAsked(true)}>
            {t("ask")}
          </button>{" "}
          <span className="quiet">{t("audited")}</span>
        </div>
      ) : null}
      {isFetching ? <Loading /> : null}
      {error === null ? null : <Failed error={error} again={() => void refetch()} />}
      {data === undefined ? null : (
        <Table label={t("counters")} columns={[t("where"), t("limit"), t("remaining"), t("says")]}>
          {placesOf(data).flatMap(({ gateway, limits }) =>
            limits.map(({ name, remaining, limit }) => (
              <tr key={`${gateway} ${name}`}>
                <th scope="row">{gateway ?? "Redis"}</th>
                <td>{name}</td>
                <td>{t("of", { remaining: format.number(remaining), limit: format.number(limit) })}</td>
                <td className={remaining < cost ? "bad" : "good"}>{t(remaining < cost ? "refuses" : "admits")}</td>
              </tr>
            )),
          )}
        </Table>
      )}
      {isKnown ? (
        <p>
          <Link {...linkTo(app, terms.name, terms.key, values, terms.secret)}>{t("toKey")}</Link>
        </p>
      ) : null}
    </>
  );
}

/** Which plan a consumer has, and whether it has limits of its own for the policy. */
function PlanOfConsumer({
  app,
  document: { name, plans = {}, defaultPlan = "" },
  id,
}: {
  app: string;
  document: StoredPolicy;
  id: string;
}) {
  const t = useTranslations("trial");
  const { data: consumer } = useQuery(consumerQuery(app, id));
  if (consumer === undefined) return null;
  if (consumer === null) return t("noConsumer", { id, plan: defaultPlan });
  const plan = Object.hasOwn(plans, consumer.plan) ? consumer.plan : defaultPlan;
  return t(Object.hasOwn(consumer.overrides ?? {}, name) ? "ofConsumerOwn" : "ofConsumer", { id, plan });
}
