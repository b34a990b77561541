// A new policy: where to begin, then the editor.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { libraryQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { RealmMissing } from "../../parts/realm-missing.tsx";
import { useRights } from "../../parts/rights.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { useSuppliedWords } from "../../parts/supplied-words.ts";
import { PolicyEditor } from "./editor/policy-editor.tsx";
import { type Starter, starterDocuments, starters } from "./editor/starters.ts";

const route = getRouteApi("/shell/policies/new");

export function NewPolicyPage() {
  const t = useTranslations("newPolicy");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const { mayEdit } = useRights(app);
  const { template, from = "perAddress" } = search;
  const words = useSuppliedWords();
  const { data: library, error, refetch } = useQuery(libraryQuery);
  const supplied = library?.filter(({ kind }) => kind === "policy") ?? [];
  const chosen = supplied.find(({ name }) => name === template);
  // A name that is not in the library begins with nothing of it.
  const isKnown = template === undefined || library !== undefined;
  const beginning = chosen?.document ?? starterDocuments[from];
  const begin = (choice: { from: Starter } | { template: string }) =>
    void navigate({ search: { ...(search.app === undefined ? {} : { app: search.app }), ...choice }, replace: true });
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { ...search, app: chosen } })} />
      </div>
      {app === undefined ? null : <RealmMissing app={app} />}
      <section className="card" aria-label={t("begin")}>
        <h2>{t("begin")}</h2>
        <ul className="starters">
          {starters.map((starter) => (
            <li key={starter}>
              <button
                type="button"
                aria-pressed={chosen === undefined && starter === from}
                onClick={() => begin({ from: starter })}
              >
                <strong>{t(`starters.${starter}.name`)}</strong>
                <span>{t(`starters.${starter}.means`)}</span>
              </button>
            </li>
          ))}
        </ul>
        <h3>{t("library")}</h3>
        {error === null ? null : <Failed error={error} again={() => void refetch()} />}
        <ul className="starters">
          {supplied.map((one) => (
            <li key={one.name}>
              <button type="button" aria-pressed={one === chosen} onClick={() => begin({ template: one.name })}>
                <strong>{words(one).title}</strong>
                <span>{one.name}</span>
              </button>
            </li>
          ))}
        </ul>
        {chosen === undefined ? null : words(chosen).paragraphs.map((paragraph) => <p key={paragraph}>{paragraph}</p>)}
      </section>
      {app === undefined || !(isKnown || error !== null) ? (
        <Loading />
      ) : (
        <PolicyEditor
          key={`${app} ${chosen?.name ?? from}`}
          app={app}
          inForce={undefined}
          beginning={{ name: "", ...beginning }}
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
