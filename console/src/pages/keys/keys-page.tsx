// Keys: which are refused most, and how one of them stands: on Redis and at every gateway, what refuses it and until when.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useLocation } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { termsOf } from "../../api/policy-terms.ts";
import { policiesQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { PolicyChoice } from "../../parts/policy-choice.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { CounterCard } from "./counter-card.tsx";
import { KeyForm } from "./key-form.tsx";
import "./keys.css";
import { linkTo } from "./keys-search.ts";
import { TopKeys } from "./top-keys.tsx";

const route = getRouteApi("/shell/keys");

export function KeysPage() {
  const t = useTranslations("keys");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(search.app);
  const kept = useLocation({ select: ({ state }) => state.countedKey });
  const ofApp = app === undefined ? {} : { app };
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
      </div>
      {app === undefined ? (
        <Loading />
      ) : (
        <>
          <section className="card" aria-label={t("which")}>
            <PolicyChoice
              app={app}
              policy={search.policy ?? ""}
              onChoose={(policy) => void navigate({ search: { ...ofApp, policy }, replace: true })}
            />
            {search.policy === undefined ? <Empty>{t("choose")}</Empty> : null}
          </section>
          {search.policy === undefined ? null : (
            <KeysOf key={`${app}/${search.policy}`} app={app} policy={search.policy} asked={search.key ?? kept} />
          )}
        </>
      )}
    </>
  );
}

function KeysOf({ app, policy, asked }: { app: string; policy: string; asked: readonly string[] | undefined }) {
  const t = useTranslations("keys");
  const navigate = route.useNavigate();
  const { data: policies, error, isPending, refetch } = useQuery(policiesQuery(app));
  if (isPending) return <Loading />;
  if (policies === undefined) return <Failed error={error} again={() => void refetch()} />;
  const found = policies.find(({ name }) => name === policy);
  if (found === undefined) return <Empty>{t("noPolicy", { policy })}</Empty>;
  const terms = termsOf(found.document);
  const look = (key: readonly string[]) => void navigate(linkTo(app, policy, terms.key, key, terms.secret));
  return (
    <>
      <KeyForm key={`form ${JSON.stringify(asked)}`} policy={terms} asked={asked} onLook={look} />
      {asked === undefined ? null : (
        <CounterCard key={`counter ${JSON.stringify(asked)}`} app={app} policy={terms} asked={asked} />
      )}
      <TopKeys app={app} policy={terms} onLook={look} />
    </>
  );
}
