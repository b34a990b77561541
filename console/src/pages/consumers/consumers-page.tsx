// The consumers of an app, a page at a time: there may be a million. They are found by the beginning of their ids, and by their plan.

import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { consumersQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useRights } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { useSettled } from "../../parts/use-settled.ts";
import { visible } from "../../parts/visible.ts";
import { ConsumerDialog } from "./consumer-dialog.tsx";
import { DeleteConsumerDialog } from "./delete-consumer-dialog.tsx";
import type { Consumer } from "./use-consumer-changes.ts";

const route = getRouteApi("/shell/consumers");

type Open = { readonly action: "add" } | { readonly action: "change" | "delete"; readonly consumer: Consumer };

export function ConsumersPage() {
  const t = useTranslations("consumers");
  const { app: asked, prefix = "", plan = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(asked);
  const { mayEdit } = useRights(app);
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const [appOfHidden, setAppOfHidden] = useState<string>();
  const fields = appOfHidden === app && prefix === "" ? (["plan"] as const) : (["prefix", "plan"] as const);
  const search = (change: { prefix?: string; plan?: string }) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
        {mayEdit ? (
          <button type="button" className="main" onClick={() => setOpen({ action: "add" })}>
            {t("add")}
          </button>
        ) : null}
      </div>
      <search className="filters">
        {fields.map((field) => (
          <label key={field}>
            {t(field)}
            <input
              type="search"
              value={field === "prefix" ? prefix : plan}
              spellCheck={false}
              onChange={(e) => search({ [field]: e.target.value })}
            />
          </label>
        ))}
      </search>
      {app === undefined ? (
        <Loading />
      ) : (
        <Consumers
          key={app}
          app={app}
          prefix={prefix}
          plan={plan}
          mayEdit={mayEdit}
          onHidden={setAppOfHidden}
          onOpen={setOpen}
        />
      )}
      {app !== undefined && open?.action === "add" ? (
        <ConsumerDialog app={app} consumer={undefined} onClose={close} />
      ) : null}
      {app !== undefined && open?.action === "change" ? (
        <ConsumerDialog app={app} consumer={open.consumer} onClose={close} />
      ) : null}
      {app !== undefined && open?.action === "delete" ? (
        <DeleteConsumerDialog app={app} consumer={open.consumer} onClose={close} />
      ) : null}
    </>
  );
}

interface Shown {
  readonly app: string;
  readonly prefix: string;
  readonly plan: string;
  readonly mayEdit: boolean;
  /** Is called if the ids of the app's consumers are hidden, so that nobody can search for them. */
  onHidden(app: string): void;
  /** Opens a dialog, which stays if the list is read again without its consumer. */
  onOpen(open: Open): void;
}

function Consumers({ app, prefix, plan, mayEdit, onHidden, onOpen }: Shown) {
  const t = useTranslations("consumers");
  const settled = useSettled(`${prefix}\n${plan}`);
  const [settledPrefix = "", settledPlan = ""] = settled.split("\n");
  const asked = useInfiniteQuery(consumersQuery(app, settledPrefix, settledPlan));
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = asked;
  const areIdsHidden = data?.pages[0]?.idsHidden === true;
  useEffect(() => {
    if (areIdsHidden) onHidden(app);
  }, [areIdsHidden, app, onHidden]);
  if (isPending) return <Loading />;
  if (data === undefined) return <Failed error={error} again={() => void refetch()} />;
  const consumers = data.pages.flatMap((page) => page.consumers);
  const count = data.pages.at(-1)?.count ?? 0;
  if (consumers.length === 0) return <Empty>{count === 0 ? t("none", { app }) : t("noneFound", { count })}</Empty>;
  return (
    <section className="card">
      <p className="quiet">{t("count", { count })}</p>
      {areIdsHidden ? <p className="quiet">{t("idsHidden")}</p> : null}
      <Table
        label={t("title")}
        busy={settled !== `${prefix}\n${plan}`}
        columns={[t("id"), t("plan"), t("own"), t("changed"), t("actions")]}
      >
        {consumers.map((consumer) => (
          <tr key={consumer.id}>
            <th scope="row" className="code">
              {visible(consumer.id)}
            </th>
            <td>{consumer.plan}</td>
            <td>{Object.keys(consumer.overrides ?? {}).join(", ")}</td>
            <td>
              <Moment at={consumer.changedAt} />
            </td>
            <td>
              {mayEdit ? (
                <>
                  <button
                    type="button"
                    aria-label={t("changeOne", { id: visible(consumer.id) })}
                    onClick={() => onOpen({ action: "change", consumer })}
                  >
                    {t("change")}
                  </button>{" "}
                  <button
                    type="button"
                    className="danger"
                    aria-label={t("deleteOne", { id: visible(consumer.id) })}
                    onClick={() => onOpen({ action: "delete", consumer })}
                  >
                    {t("delete")}
                  </button>
                </>
              ) : null}
            </td>
          </tr>
        ))}
      </Table>
      {hasNextPage ? (
        <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {t("more")}
        </button>
      ) : null}
    </section>
  );
}
