// One policy: how it goes, and the editor for who may change it.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { policyQuery } from "../../api/queries.ts";
import { useLastApp } from "../../parts/app-choice.tsx";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";
import { PolicyMode } from "../../parts/policy-mode.tsx";
import { RealmMissing } from "../../parts/realm-missing.tsx";
import { useRights } from "../../parts/rights.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { LiveTraffic } from "../../parts/traffic/live-traffic.tsx";
import { PolicyEditor, type Version, versionOf } from "./editor/policy-editor.tsx";
import { remove, store } from "./editor/policy-store.ts";
import { type Mode, modes } from "./policy-filter.ts";

const route = getRouteApi("/shell/policies/$app/$policy");

export function PolicyPage() {
  const t = useTranslations("policy");
  const { app, policy } = route.useParams();
  const { revision } = route.useSearch();
  const { data, error, isPending, refetch } = useQuery(policyQuery(app, policy));
  const { mayEdit } = useRights(app);
  useLastApp(app);
  const [isDeleting, setIsDeleting] = useState(false);
  const version = data === undefined ? undefined : versionOf(data);
  return (
    <>
      <p>
        <Link to="/policies" search={{ app }}>
          {t("back", { app })}
        </Link>
      </p>
      <div className="heading">
        <h1>{policy}</h1>
        {version === undefined ? null : <PolicyMode app={app} mode={modeIn(version)} />}
        {mayEdit && version !== undefined ? (
          <button type="button" className="danger" onClick={() => setIsDeleting(true)}>
            {t("delete")}
          </button>
        ) : null}
      </div>
      <RealmMissing app={app} />
      {isPending ? <Loading /> : null}
      {version === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {version === undefined ? null : <LiveTraffic app={app} policy={policy} />}
      {version === undefined ? null : (
        <PolicyEditor
          key={`${app}/${policy}`}
          app={app}
          inForce={version}
          beginning={version.document}
          mayEdit={mayEdit}
          {...(revision === undefined ? {} : { justStored: revision })}
        />
      )}
      {isDeleting && version !== undefined ? (
        <Deletion app={app} policy={policy} version={version} onClose={() => setIsDeleting(false)} />
      ) : null}
    </>
  );
}

function modeIn({ document }: Version): Mode {
  return modes.find((one) => one === document["mode"]) ?? "enforce";
}

function Deletion({
  app,
  policy,
  version: { document, etag },
  onClose,
}: {
  app: string;
  policy: string;
  version: Version;
  onClose: () => void;
}) {
  const t = useTranslations("policy");
  const tell = useTell();
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const seen = () => cache.invalidateQueries({ queryKey: ["policies", app], exact: true });
  const act = async () => {
    await remove(app, policy, etag);
    await navigate({ to: "/policies", search: { app }, ignoreBlocker: true });
    cache.removeQueries({ queryKey: ["policies", app, policy] });
    await seen();
    const undo = async () => {
      await store(app, policy, document, undefined);
      await seen();
    };
    tell({ text: t("deleted", { policy }), undo });
  };
  return (
    <Confirmation title={t("deleteTitle", { policy })} action={t("delete")} destructive act={act} onClose={onClose}>
      <p>{t("deleteMeans")}</p>
    </Confirmation>
  );
}
