// One revision: what it changed, and how to go back.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { DiffView } from "../../parts/diff/diff-view.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useRights } from "../../parts/rights.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { visible } from "../../parts/visible.ts";
import { RollbackDialog, type Target } from "./rollback-dialog.tsx";

const route = getRouteApi("/shell/history/$revision");

export function RevisionPage() {
  const t = useTranslations("history");
  const n = Number(route.useParams().revision);
  const details = useQuery({
    queryKey: ["revisions", n],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/revisions/{revision}", { params: { path: { revision: n } }, signal })),
  });
  const { data: diff } = useQuery({
    queryKey: ["revisions", n, "diff"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/revisions/{from}/diff/{to}", { params: { path: { from: n - 1, to: n } }, signal })),
  });
  const { data: revision, error, isPending, refetch } = details;
  const { mayEdit } = useRights(revision?.app);
  const [target, setTarget] = useState<Target>();
  return (
    <>
      <p>
        <Link to="/history" search={revision?.app === undefined ? {} : { app: revision.app }}>
          {t("back")}
        </Link>
      </p>
      <h1>{t("revisionTitle", { revision: String(n) })}</h1>
      {isPending ? <Loading /> : null}
      {revision === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {revision === undefined ? null : (
        <section className="card" aria-label={t("what")}>
          <p>{revision.summary}</p>
          <p className="quiet">
            {visible(revision.who)} · <Moment at={revision.at} />
          </p>
          {diff === undefined ? <Loading /> : <DiffView changes={diff.changes} />}
          {mayEdit && revision.app !== undefined ? (
            <div className="actions">
              {revision.policy === undefined ? null : (
                <button
                  type="button"
                  onClick={() => setTarget({ app: revision.app ?? "", policy: revision.policy, to: n - 1 })}
                >
                  {t("undoPolicy", { policy: revision.policy })}
                </button>
              )}
              {revision.policy === undefined ? null : (
                <button
                  type="button"
                  onClick={() => setTarget({ app: revision.app ?? "", policy: revision.policy, to: n })}
                >
                  {t("policyAsOf", { policy: revision.policy })}
                </button>
              )}
              <button type="button" onClick={() => setTarget({ app: revision.app ?? "", policy: undefined, to: n })}>
                {t("appAsOf", { app: revision.app })}
              </button>
            </div>
          ) : null}
        </section>
      )}
      {target === undefined ? null : <RollbackDialog target={target} onClose={() => setTarget(undefined)} />}
    </>
  );
}
