// The console's pages by their URLs. control-plane/src/plugins/console.ts serves the console at each of them; a test compares.

import { createRootRoute, createRoute, createRouter, Outlet, redirect } from "@tanstack/react-router";
import { GatewaysPage } from "../pages/gateways/gateways-page.tsx";
import { OverviewPage } from "../pages/overview/overview-page.tsx";
import { PoliciesPage, readPoliciesSearch } from "../pages/policies/policies-page.tsx";
import { PolicyPage } from "../pages/policies/policy-page.tsx";
import { SignInPage } from "../pages/sign-in/sign-in-page.tsx";
import { Crashed, NotFound } from "../parts/states.tsx";
import { Shell } from "./shell.tsx";

export interface AppSearch {
  /** The app whose policies and traffic are shown. */
  readonly app?: string;
}

export function readAppSearch({ app }: Record<string, unknown>): AppSearch {
  return typeof app === "string" && app !== "" ? { app } : {};
}

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound, errorComponent: Crashed });
const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: ({ to }: Record<string, unknown>): { to?: string } => (isOwnPath(to) ? { to } : {}),
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
  validateSearch: readAppSearch,
  component: OverviewPage,
});
const policies = createRoute({
  getParentRoute: () => shell,
  path: "/policies",
  validateSearch: readPoliciesSearch,
  component: PoliciesPage,
});
const policy = createRoute({ getParentRoute: () => shell, path: "/policies/$app/$policy", component: PolicyPage });
const gateways = createRoute({ getParentRoute: () => shell, path: "/gateways", component: GatewaysPage });

const routeTree = root.addChildren([home, signIn, shell.addChildren([overview, policies, policy, gateways])]);

/** A sign-in leads back to a page of the console, and nowhere else. */
function isOwnPath(to: unknown): to is string {
  return typeof to === "string" && /^\/(?![/\\])/.test(to);
}

export function newRouter() {
  return createRouter({ routeTree, defaultPreload: false, scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
