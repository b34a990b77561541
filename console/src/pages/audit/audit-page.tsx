// Who did what: every change, every sign-in, and every counter that somebody looked at, the newest first.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { useSettled } from "../../parts/use-settled.ts";
import { visible } from "../../parts/visible.ts";
import { type Action, type AuditSearch, actions, periods, readAuditSearch } from "./audit-search.ts";

const route = getRouteApi("/shell/audit");
const pageSize = 100;

type Entry = Schemas["AuditPage"]["entries"][number];

export function AuditPage() {
  const t = useTranslations("audit");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const asked = useSettled(search);
  const { data, error, isPending, isPlaceholderData, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } =
    useInfiniteQuery({
      queryKey: ["audit", asked],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ pageParam, signal }) =>
        answerOf(
          api.GET("/api/v1/audit", {
            params: { query: { ...asked, limit: pageSize, ...(pageParam === undefined ? {} : { before: pageParam }) } },
            signal,
          }),
        ),
      getNextPageParam: ({ next }) => next,
      placeholderData: keepPreviousData,
    });
  const [shown, setShown] = useState<Entry>();
  const entries = data?.pages.flatMap((page) => page.entries) ?? [];
  // A page without an entry is not the last one as long as it says where to go on.
  const goesOn = hasNextPage && error === null && data?.pages.at(-1)?.entries.length === 0;
  useEffect(() => {
    if (goesOn && !isFetchingNextPage) void fetchNextPage();
  }, [goesOn, isFetchingNextPage, fetchNextPage]);
  const change = (to: Record<string, string>) =>
    void navigate({ search: readAuditSearch({ ...search, ...to }), replace: true });
  return (
    <>
      <h1>{t("title")}</h1>
      <Filters search={search} onChange={change} />
      {isPending || (goesOn && entries.length === 0) ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {data !== undefined && entries.length === 0 && !goesOn ? <Empty>{t("none")}</Empty> : null}
      {entries.length === 0 ? null : (
        <section className="card">
          <Table
            label={t("title")}
            columns={[t("when"), t("who"), t("action"), t("about"), t("from"), t("details")]}
            busy={isPlaceholderData || asked !== search}
          >
            {entries.map((entry) => (
              <Row key={entry.id} entry={entry} onShow={() => setShown(entry)} />
            ))}
          </Table>
          {hasNextPage ? (
            <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              {t("older")}
            </button>
          ) : null}
        </section>
      )}
      {shown === undefined ? null : <Details entry={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

function Filters({ search, onChange }: { search: AuditSearch; onChange: (to: Record<string, string>) => void }) {
  const t = useTranslations("audit");
  return (
    <search className="filters">
      {(["app", "who", "subject"] as const).map((field) => (
        <label key={field}>
          {t(field)}
          <input type="search" value={search[field] ?? ""} onChange={(e) => onChange({ [field]: e.target.value })} />
        </label>
      ))}
      <label>
        {t("action")}
        <select value={search.action ?? ""} onChange={(e) => onChange({ action: e.target.value })}>
          <option value="">{t("anyAction")}</option>
          {actions.map((action) => (
            <option key={action} value={action}>
              {t(`actions.${action}`)}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t("since")}
        <select value={search.since ?? ""} onChange={(e) => onChange({ since: e.target.value })}>
          <option value="">{t("always")}</option>
          {periods.map((period) => (
            <option key={period} value={period}>
              {t(`periods.${period}`)}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}

function Row({
  entry: { at, who, action, app, policy, subject, from, revision },
  onShow,
}: {
  entry: Entry;
  onShow: () => void;
}) {
  const t = useTranslations("audit");
  return (
    <tr>
      <td>
        <Moment at={at} />
      </td>
      <th scope="row">{visible(who)}</th>
      <td>{t(`actions.${action as Action}`)}</td>
      <td>
        {[app, policy, subject]
          .filter((one) => one !== undefined && one !== "")
          .map((one) => visible(one ?? ""))
          .join(" / ")}
        {revision === undefined ? null : (
          <>
            {" "}
            <Link to="/history/$revision" params={{ revision: String(revision) }}>
              {t("revision", { revision: String(revision) })}
            </Link>
          </>
        )}
      </td>
      <td>{from ?? ""}</td>
      <td>
        <button type="button" className="plain" onClick={onShow}>
          {t("show")}
        </button>
      </td>
    </tr>
  );
}

function Details({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  const t = useTranslations("audit");
  const documents = (["before", "after"] as const).filter((which) => (entry[which] ?? null) !== null);
  return (
    <Dialog title={t(`actions.${entry.action as Action}`)} onClose={onClose}>
      <p>
        {visible(entry.who)} · <Moment at={entry.at} />
      </p>
      {documents.length === 0 ? <p className="quiet">{t("noDocument")}</p> : null}
      {documents.map((which) => (
        <section key={which} aria-label={t(which)}>
          <h3>{t(which)}</h3>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
          <pre tabIndex={0}>{JSON.stringify(entry[which], undefined, 2)}</pre>
        </section>
      ))}
      <div className="actions">
        <button type="button" onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}
