// What was changed, by whom and when: revisions, the newest first.

import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { PastChart } from "../../parts/traffic/past-chart.tsx";
import { periods } from "../../parts/traffic/past-periods.ts";
import { PeriodChoice } from "../../parts/traffic/period-choice.tsx";
import { isShown, readHistorySearch } from "./history-search.ts";

const route = getRouteApi("/shell/history");
const pageSize = 200;
/** So many are looked through for a revision of the app before somebody asks for more. */
const mostPages = 20;

export function HistoryPage() {
  const t = useTranslations("history");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["revisions"],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam, signal }) =>
      answerOf(
        api.GET("/api/v1/revisions", {
          params: { query: { limit: pageSize, ...(pageParam === undefined ? {} : { before: pageParam }) } },
          signal,
        }),
      ),
    getNextPageParam: ({ next }) => next,
    refetchInterval: 5_000,
  });
  const all = data?.pages.flatMap(({ revisions }) => revisions) ?? [];
  const shown = all.filter((revision) => isShown(revision, { ...search, ...(app === undefined ? {} : { app }) }));
  // The newest may all be of other apps.
  const isSearching = data !== undefined && shown.length === 0 && hasNextPage && data.pages.length < mostPages;
  useEffect(() => {
    if (isSearching && !isFetchingNextPage) void fetchNextPage();
  }, [isSearching, isFetchingNextPage, fetchNextPage]);
  const period = search.period ?? "1h";
  const change = (to: Record<string, string>) =>
    void navigate({ search: readHistorySearch({ ...search, ...to }), replace: true });
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => change({ app: chosen })} />
      </div>
      <search className="filters">
        <label>
          {t("policy")}
          <input type="search" value={search.policy ?? ""} onChange={(e) => change({ policy: e.target.value })} />
        </label>
      </search>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {app === undefined ? null : (
        <section className="card" aria-label={t("traffic")}>
          <div className="heading">
            <h2>{t("traffic")}</h2>
            <PeriodChoice periods={periods} period={period} onChoose={(chosen) => change({ period: chosen })} />
          </div>
          <PastChart key={period} app={app} policy={undefined} period={period} revisions={shown} />
        </section>
      )}
      {data === undefined ? null : (
        <section className="card">
          {isSearching ? <Loading /> : null}
          {shown.length === 0 && !isSearching ? <Empty>{t("none")}</Empty> : null}
          <Table label={t("title")} columns={[t("revision"), t("what"), t("who"), t("when")]}>
            {shown.map(({ n, at, who, summary }) => (
              <tr key={n}>
                <th scope="row">
                  <Link to="/history/$revision" params={{ revision: String(n) }}>
                    {n}
                  </Link>
                </th>
                <td>{summary}</td>
                <td>{who}</td>
                <td>
                  <Moment at={at} />
                </td>
              </tr>
            ))}
          </Table>
          {hasNextPage ? (
            <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              {t("older")}
            </button>
          ) : null}
        </section>
      )}
    </>
  );
}
