// What is around every page for somebody who is signed in: where to go, who one is, and whether the control plane answers.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import {
  Activity,
  Ban,
  Files,
  FlaskConical,
  History,
  IdCard,
  KeyRound,
  ListChecks,
  type LucideIcon,
  Menu,
  Network,
  ScrollText,
  Server,
  Ticket,
  Users,
} from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, noteSignOut, RequestError, whenSessionEnds } from "../api/client.ts";
import { sessionQuery } from "../api/queries.ts";
import { useTell } from "../parts/notices.tsx";
import { ownsSomething } from "../parts/rights.ts";
import { Failed, Loading } from "../parts/states.tsx";
import { type Language, languages, useLanguage } from "../settings/language.tsx";
import { type Theme, themes, useTheme } from "../settings/theme.tsx";
import { SessionEnded } from "./session-ended.tsx";

/** In groups, as somebody looks for them. Who owns no app does not see what only owners may open. */
const groups = [
  {
    word: "watch",
    places: [
      { to: "/overview", word: "overview", Icon: Activity },
      { to: "/keys", word: "keys", Icon: KeyRound },
      { to: "/try", word: "trial", Icon: FlaskConical },
      { to: "/gateways", word: "gateways", Icon: Server },
    ],
  },
  {
    word: "change",
    places: [
      { to: "/policies", word: "policies", Icon: ListChecks },
      { to: "/templates", word: "templates", Icon: Files },
      { to: "/bans", word: "bans", Icon: Ban },
      { to: "/networks", word: "networks", Icon: Network },
      { to: "/consumers", word: "consumers", Icon: IdCard },
      { to: "/history", word: "history", Icon: History },
    ],
  },
  {
    word: "people",
    places: [
      { to: "/audit", word: "audit", Icon: ScrollText, forOwners: true },
      { to: "/members", word: "members", Icon: Users, forOwners: true },
      { to: "/tokens", word: "tokens", Icon: Ticket },
    ],
  },
] as const satisfies readonly Group[];

interface Group {
  readonly word: string;
  readonly places: readonly {
    readonly to: string;
    readonly word: string;
    readonly Icon: LucideIcon;
    readonly forOwners?: true;
  }[];
}

export function Shell() {
  const t = useTranslations("shell");
  const cache = useQueryClient();
  const { data: session, error, isPending, refetch } = useQuery(sessionQuery);
  const [isLater, setIsLater] = useState(false);
  const hasEnded = error instanceof RequestError && error.status === 401;
  useTitle();
  useEffect(() => {
    whenSessionEnds(() => void cache.invalidateQueries({ queryKey: sessionQuery.queryKey }));
    return () => whenSessionEnds(() => undefined);
  }, [cache]);
  useEffect(() => {
    if (!hasEnded) setIsLater(false);
  }, [hasEnded]);
  if (session === undefined) {
    if (isPending) return <Loading />;
    if (hasEnded) return <ToSignIn />;
    return (
      <main className="alone">
        <Failed error={error} again={() => void refetch()} />
      </main>
    );
  }
  return (
    <>
      <a className="skip" href="#main">
        {t("skip")}
      </a>
      <header className="top">
        <Link to="/overview" className="brand">
          <img src="/icon.svg" alt="" width={24} height={24} /> Sluice
        </Link>
        <Who who={session.who} isSession={session.csrfToken !== undefined} />
      </header>
      <div className="body">
        <Places owns={ownsSomething(session)} />
        <main id="main" tabIndex={-1} className={hasEnded ? "ended" : undefined}>
          {error === null ? null : (
            <p className="offline" role="status">
              {hasEnded ? t("ended") : t("offline")}{" "}
              {hasEnded ? (
                <button type="button" onClick={() => setIsLater(false)}>
                  {t("signInAgain")}
                </button>
              ) : null}
            </p>
          )}
          <Outlet />
        </main>
      </div>
      {hasEnded && !isLater ? <SessionEnded onLater={() => setIsLater(true)} /> : null}
    </>
  );
}

/** The browser's tab says which page it has. */
function useTitle(): void {
  const t = useTranslations("shell");
  const room = useRouterState({ select: ({ location }) => location.pathname.split("/")[1] });
  const place = groups.flatMap(({ places }) => places as Group["places"]).find(({ to }) => to === `/${room}`);
  const word = place === undefined ? undefined : t(place.word as "overview");
  useEffect(() => {
    document.title = word === undefined ? "Sluice" : `${word} · Sluice`;
    return () => {
      document.title = "Sluice";
    };
  }, [word]);
}

/** On a narrow page they open by a button. */
function Places({ owns }: { owns: boolean }) {
  const t = useTranslations("shell");
  const [isOpen, setIsOpen] = useState(false);
  return (
    <nav aria-label={t("pages")} className={isOpen ? "places open" : "places"}>
      <button type="button" className="menu" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
        <Menu size={16} aria-hidden /> {t("menu")}
      </button>
      <div className="groups">
        {groups.map((group) => (
          <ul key={group.word} aria-label={t(`groups.${group.word}`)}>
            {(group.places as Group["places"])
              .filter(({ forOwners }) => forOwners === undefined || owns)
              .map(({ to, word, Icon }) => (
                <li key={to}>
                  <Link
                    to={to}
                    search={(old: { app?: string }) => (old.app === undefined ? {} : { app: old.app })}
                    onClick={() => setIsOpen(false)}
                  >
                    <Icon size={16} aria-hidden /> {t(word as "overview")}
                  </Link>
                </li>
              ))}
          </ul>
        ))}
      </div>
    </nav>
  );
}

/** Afterwards, the page that was asked for is shown. */
function ToSignIn() {
  const navigate = useNavigate();
  const router = useRouter();
  useEffect(() => {
    void navigate({ to: "/sign-in", search: { to: router.state.location.href }, replace: true });
  }, [navigate, router]);
  return null;
}

function Who({ who, isSession }: { who: string; isSession: boolean }) {
  const t = useTranslations("shell");
  const navigate = useNavigate();
  const router = useRouter();
  const tell = useTell();
  const [language, setLanguage] = useLanguage();
  const [theme, setTheme] = useTheme();
  const signOut = async () => {
    // Whoever has something that is not stored yet may want to stay.
    await navigate({ to: "/sign-in" });
    if (router.state.location.pathname !== "/sign-in") return;
    try {
      await answerOf(api.DELETE("/api/v1/session"));
    } catch (error) {
      if (!(error instanceof RequestError && error.status === 401)) {
        tell({ text: t("stillSignedIn") });
        return;
      }
    }
    noteSignOut();
  };
  return (
    <div className="who">
      <span title={t("signedInAs", { who })}>{who}</span>
      <select aria-label={t("language")} value={language} onChange={(e) => setLanguage(e.target.value as Language)}>
        {languages.map((one) => (
          <option key={one} value={one} lang={one === "zh" ? "zh-Hans" : "en"}>
            {one === "zh" ? "中文" : "English"}
          </option>
        ))}
      </select>
      <select aria-label={t("theme")} value={theme} onChange={(e) => setTheme(e.target.value as Theme)}>
        {themes.map((one) => (
          <option key={one} value={one}>
            {t(`themes.${one}`)}
          </option>
        ))}
      </select>
      {isSession ? (
        <button type="button" onClick={() => void signOut()}>
          {t("signOut")}
        </button>
      ) : null}
    </div>
  );
}
