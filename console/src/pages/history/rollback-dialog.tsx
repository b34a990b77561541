// Asks before a roll-back, and shows what it would change.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { DiffView } from "../../parts/diff/diff-view.tsx";
import { useTell } from "../../parts/notices.tsx";
import { Failed, Loading } from "../../parts/states.tsx";

export interface Target {
  readonly app: string;
  /** undefined: all policies and templates of the app. */
  readonly policy: string | undefined;
  readonly to: number;
}

/** How long the answer waits for gateways. */
const wait = "5s";

export function RollbackDialog({ target, onClose }: { target: Target; onClose: () => void }) {
  const t = useTranslations("history");
  const tell = useTell();
  const cache = useQueryClient();
  const [isStale, setIsStale] = useState(false);
  const key = ["rollback", target];
  const rehearsal = useQuery({
    queryKey: key,
    queryFn: () => rollBack(target, { dryRun: true }),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
  const seen = () => cache.invalidateQueries();
  const act = async () => {
    // What somebody changed while this dialog was read must be read, too, before it is taken back.
    const now = await rollBack(target, { dryRun: true });
    const isStale = JSON.stringify(now.changes) !== JSON.stringify(rehearsal.data?.changes);
    setIsStale(isStale);
    if (isStale) {
      cache.setQueryData(key, now);
      return false;
    }
    const { revision, applied } = await rollBack(target, { wait });
    await seen();
    // There was nothing to change.
    if (revision === undefined) return true;
    // Before the roll-back, it was as of the revision before it. What somebody has changed since would be lost.
    const undo = async () => {
      const { changes = [] } = await rollBack({ ...target, to: revision }, { dryRun: true });
      if (changes.length > 0) throw new Error("changed since");
      await rollBack({ ...target, to: revision - 1 }, { wait });
      await seen();
    };
    const counts = { have: applied?.acked ?? 0, of: applied?.gateways ?? 0 };
    tell({ text: t("rolledBack", { revision: String(revision), ...counts }), undo });
    return true;
  };
  const { data, error, isPending, refetch } = rehearsal;
  return (
    <Confirmation
      title={t("rollbackTitle", { what: target.policy ?? target.app, revision: String(target.to) })}
      action={t("rollBack")}
      destructive
      isReady={rehearsal.data !== undefined}
      act={act}
      onClose={onClose}
    >
      <p>{t("rollbackMeans")}</p>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {isStale ? <p role="alert">{t("changedMeanwhile")}</p> : null}
      {data === undefined ? null : <DiffView changes={data.changes ?? []} />}
    </Confirmation>
  );
}

function rollBack({ app, policy, to }: Target, query: { dryRun: true } | { wait: string }) {
  return answerOf(
    api.POST("/api/v1/revisions/{revision}/rollback", {
      params: { path: { revision: to }, query },
      body: { app, ...(policy === undefined ? {} : { policy }) },
    }),
  );
}
