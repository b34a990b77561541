// The console's pages by their URLs. control-plane/src/plugins/console.ts serves the console at each of them; a test compares.

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { readAuditSearch } from "../pages/audit/audit-search.ts";
import { readConsumersSearch } from "../pages/consumers/consumers-search.ts";
import { readHistorySearch } from "../pages/history/history-search.ts";
import { readKeysSearch } from "../pages/keys/keys-search.ts";
import { readPoliciesSearch } from "../pages/policies/policy-filter.ts";
import { readNewPolicySearch, readPolicySearch } from "../pages/policies/policy-search.ts";
import { SignInPage } from "../pages/sign-in/sign-in-page.tsx";
import { readSignInSearch } from "../pages/sign-in/sign-in-search.ts";
import { readTrialSearch } from "../pages/trial/trial-search.ts";
import { Notices } from "../parts/notices.tsx";
import { Crashed, NotFound } from "../parts/states.tsx";
import { Shell } from "./shell.tsx";

export interface AppSearch {
  /** The app whose policies and traffic are shown. */
  readonly app?: string;
}

export function readAppSearch({ app }: Record<string, unknown>): AppSearch {
  return typeof app === "string" && app !== "" ? { app } : {};
}

const root = createRootRoute({ component: Root, notFoundComponent: NotFound, errorComponent: Crashed });
const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: only(readSignInSearch),
  component: SignInPage,
});
const shell = createRoute({ getParentRoute: () => root, id: "shell", component: Shell });
const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/overview" });
  },
});
const overview = createRoute({
  getParentRoute: () => shell,
  path: "/overview",
  validateSearch: only(readAppSearch),
  component: lazyRouteComponent(() => import("../pages/overview/overview-page.tsx"), "OverviewPage"),
});
const policies = createRoute({
  getParentRoute: () => shell,
  path: "/policies",
  validateSearch: only(readPoliciesSearch),
  component: lazyRouteComponent(() => import("../pages/policies/policies-page.tsx"), "PoliciesPage"),
});
const policy = createRoute({
  getParentRoute: () => shell,
  path: "/policies/$app/$policy",
  validateSearch: only(readPolicySearch),
  component: lazyRouteComponent(() => import("../pages/policies/policy-page.tsx"), "PolicyPage"),
});
const newPolicy = createRoute({
  getParentRoute: () => shell,
  path: "/policies/new",
  validateSearch: only(readNewPolicySearch),
  component: lazyRouteComponent(() => import("../pages/policies/new-policy-page.tsx"), "NewPolicyPage"),
});
const keys = createRoute({
  getParentRoute: () => shell,
  path: "/keys",
  validateSearch: only(readKeysSearch),
  component: lazyRouteComponent(() => import("../pages/keys/keys-page.tsx"), "KeysPage"),
});
const bans = createRoute({
  getParentRoute: () => shell,
  path: "/bans",
  validateSearch: only(readAppSearch),
  component: lazyRouteComponent(() => import("../pages/bans/bans-page.tsx"), "BansPage"),
});
const networks = createRoute({
  getParentRoute: () => shell,
  path: "/networks",
  validateSearch: only(readAppSearch),
  component: lazyRouteComponent(() => import("../pages/networks/networks-page.tsx"), "NetworksPage"),
});
const consumers = createRoute({
  getParentRoute: () => shell,
  path: "/consumers",
  validateSearch: only(readConsumersSearch),
  component: lazyRouteComponent(() => import("../pages/consumers/consumers-page.tsx"), "ConsumersPage"),
});
const history = createRoute({
  getParentRoute: () => shell,
  path: "/history",
  validateSearch: only(readHistorySearch),
  component: lazyRouteComponent(() => import("../pages/history/history-page.tsx"), "HistoryPage"),
});
const revision = createRoute({
  getParentRoute: () => shell,
  path: "/history/$revision",
  component: lazyRouteComponent(() => import("../pages/history/revision-page.tsx"), "RevisionPage"),
});
const trial = createRoute({
  getParentRoute: () => shell,
  path: "/try",
  validateSearch: only(readTrialSearch),
  component: lazyRouteComponent(() => import("../pages/trial/trial-page.tsx"), "TrialPage"),
});
const gateways = createRoute({
  getParentRoute: () => shell,
  path: "/gateways",
  component: lazyRouteComponent(() => import("../pages/gateways/gateways-page.tsx"), "GatewaysPage"),
});
const gateway = createRoute({
  getParentRoute: () => shell,
  path: "/gateways/$gateway",
  component: lazyRouteComponent(() => import("../pages/gateways/gateway-page.tsx"), "GatewayPage"),
});
const templates = createRoute({
  getParentRoute: () => shell,
  path: "/templates",
  validateSearch: only(readAppSearch),
  component: lazyRouteComponent(() => import("../pages/templates/templates-page.tsx"), "TemplatesPage"),
});
const audit = createRoute({
  getParentRoute: () => shell,
  path: "/audit",
  validateSearch: only(readAuditSearch),
  component: lazyRouteComponent(() => import("../pages/audit/audit-page.tsx"), "AuditPage"),
});
const members = createRoute({
  getParentRoute: () => shell,
  path: "/members",
  component: lazyRouteComponent(() => import("../pages/members/members-page.tsx"), "MembersPage"),
});
const tokens = createRoute({
  getParentRoute: () => shell,
  path: "/tokens",
  component: lazyRouteComponent(() => import("../pages/tokens/tokens-page.tsx"), "TokensPage"),
});

const routeTree = root.addChildren([
  home,
  signIn,
  shell.addChildren([
    overview,
    keys,
    trial,
    gateways,
    gateway,
    policies,
    newPolicy,
    policy,
    templates,
    bans,
    networks,
    consumers,
    history,
    revision,
    audit,
    members,
    tokens,
  ]),
]);

function Root() {
  return (
    <Notices>
      <Outlet />
    </Notices>
  );
}

/** The router gives a page also what the URL says and `read` leaves out, unless its value is undefined. */
function only<Search extends object>(read: (said: Record<string, unknown>) => Search) {
  return (said: Record<string, unknown>): Search => {
    const nothing = Object.fromEntries(Object.keys(said).map((name) => [name, undefined]));
    return { ...nothing, ...read(said) };
  };
}

export function newRouter() {
  return createRouter({ routeTree, defaultPreload: false, scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
