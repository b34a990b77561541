// A new policy: where to begin, then the editor.

import { getRouteApi } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { useRights } from "../../parts/rights.ts";
import { Loading } from "../../parts/states.tsx";
import { PolicyEditor } from "./editor/policy-editor.tsx";
import { starterDocuments, starters } from "./editor/starters.ts";

const route = getRouteApi("/shell/policies/new");

export function NewPolicyPage() {
  const t = useTranslations("newPolicy");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const { mayEdit } = useRights(app);
  const { from = "perAddress" } = search;
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { ...search, app: chosen } })} />
      </div>
      <section className="card" aria-label={t("begin")}>
        <h2>{t("begin")}</h2>
        <ul className="starters">
          {starters.map((starter) => (
            <li key={starter}>
              <button
                type="button"
                aria-pressed={starter === from}
                onClick={() => void navigate({ search: { ...search, from: starter }, replace: true })}
              >
                <strong>{t(`starters.${starter}.name`)}</strong>
                <span>{t(`starters.${starter}.means`)}</span>
              </button>
            </li>
          ))}
        </ul>
      </section>
      {app === undefined ? (
        <Loading />
      ) : (
        <PolicyEditor
          key={`${app} ${from}`}
          app={app}
          inForce={undefined}
          beginning={{ name: "", ...starterDocuments[from] }}
          mayEdit={mayEdit}
          onCreated={(policy, revision) =>
            void navigate({
              to: "/policies/$app/$policy",
              params: { app, policy },
              search: { revision },
              ignoreBlocker: true,
            })
          }
        />
      )}
    </>
  );
}
