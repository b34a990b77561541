// Finds missing Debian packages, and installs them where this is allowed. To check for a package, it looks for one file of
// it: this takes microseconds, where asking dpkg would take a second.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { debianModules, findNginx, findProgram } from "./nginx-binary.ts";
import { runStep, SetupError, say } from "./step.mjs";

interface SystemPackage {
  readonly name: string;
  /** A file that exists when the package is installed. */
  readonly file: string;
}

const libraryDir = process.arch === "arm64" ? "/usr/lib/aarch64-linux-gnu" : "/usr/lib/x86_64-linux-gnu";

/** The library that gives a program another clock: tests set the time instead of waiting. */
export const fakeClockLibrary = `${libraryDir}/faketime/libfaketime.so.1`;

const gatewayPackages: readonly SystemPackage[] = [
  { name: "nginx", file: "/usr/sbin/nginx" },
  { name: "libnginx-mod-http-lua", file: debianModules[1] ?? "" },
  { name: "lua-resty-core", file: "/usr/share/lua/5.1/resty/core.lua" },
  { name: "lua-resty-lrucache", file: "/usr/share/lua/5.1/resty/lrucache.lua" },
  { name: "lua-nginx-redis", file: "/usr/share/lua/5.1/nginx/redis.lua" },
  { name: "lua-nginx-websocket", file: "/usr/share/lua/5.1/nginx/websocket/client.lua" },
  { name: "lua-nginx-string", file: "/usr/share/lua/5.1/nginx/string.lua" },
  { name: "lua-cjson", file: `${libraryDir}/lua/5.1/cjson.so` },
];

/** Servers that read arguments, forms and cookies, each in its own way. */
const serversOfSpellings: readonly SystemPackage[] = [
  { name: "php-cgi", file: "/usr/bin/php-cgi" },
  { name: "php-cli", file: "/usr/bin/php" },
  { name: "ruby-rack", file: "/usr/bin/rackup" },
  { name: "python3-django", file: "/usr/lib/python3/dist-packages/django" },
  { name: "python3-werkzeug", file: "/usr/lib/python3/dist-packages/werkzeug" },
  { name: "python3-starlette", file: "/usr/lib/python3/dist-packages/starlette" },
  { name: "python3-multipart", file: "/usr/lib/python3/dist-packages/multipart" },
  { name: "libtomcat9-java", file: "/usr/share/java/tomcat9-coyote.jar" },
  { name: "libjetty9-java", file: "/usr/share/java/jetty9-server.jar" },
];

/** The Python client's interpreter, what builds and installs its wheel and checks its types, and servers that run its middlewares. */
const pythonPackages: readonly SystemPackage[] = [
  { name: "python3", file: "/usr/bin/python3" },
  { name: "python3-venv", file: "/usr/share/doc/python3-venv" },
  { name: "python3-build", file: "/usr/bin/pyproject-build" },
  { name: "python3-setuptools", file: "/usr/lib/python3/dist-packages/setuptools" },
  { name: "python3-wheel", file: "/usr/lib/python3/dist-packages/wheel" },
  { name: "mypy", file: "/usr/bin/mypy" },
  { name: "gunicorn", file: "/usr/bin/gunicorn" },
  { name: "python3-uvicorn", file: "/usr/lib/python3/dist-packages/uvicorn" },
];

const mavenPlugins = "/usr/share/maven-repo/org/apache/maven/plugins";

/** Maven and those of its plugins that build and install a jar: with them, it needs no network. */
const mavenPackages: readonly SystemPackage[] = [
  { name: "maven", file: "/usr/bin/mvn" },
  { name: "libmaven-compiler-plugin-java", file: `${mavenPlugins}/maven-compiler-plugin` },
  { name: "libmaven-install-plugin-java", file: `${mavenPlugins}/maven-install-plugin` },
  { name: "libmaven-jar-plugin-java", file: `${mavenPlugins}/maven-jar-plugin` },
  { name: "libmaven-resources-plugin-java", file: `${mavenPlugins}/maven-resources-plugin` },
  { name: "libsurefire-java", file: `${mavenPlugins}/maven-surefire-plugin` },
];

/**
 * What the tests need in addition to the gateway's packages: their own Redis and databases, the other runtimes, a load generator, a clock,
 * certificates, Prometheus.
 */
const testPackages: readonly SystemPackage[] = [
  { name: "redis-server", file: "/usr/bin/redis-server" },
  { name: "mariadb-server-core", file: "/usr/sbin/mariadbd" },
  { name: "mariadb-client", file: "/usr/bin/my_print_defaults" },
  { name: "postgresql", file: "/usr/lib/postgresql" },
  { name: "pgbouncer", file: "/usr/sbin/pgbouncer" },
  { name: "sqlite3", file: "/usr/bin/sqlite3" },
  { name: "luajit2", file: "/usr/bin/luajit" },
  { name: "lua5.1", file: "/usr/bin/lua5.1" },
  { name: "chromium-headless-shell", file: "/usr/bin/chromium-headless-shell" },
  { name: "lua-busted", file: "/usr/bin/busted" },
  { name: "wrk", file: "/usr/bin/wrk" },
  { name: "libfaketime", file: fakeClockLibrary },
  { name: "curl", file: "/usr/bin/curl" },
  { name: "default-jdk-headless", file: "/usr/bin/javac" },
  { name: "ca-certificates", file: "/etc/ssl/certs/ca-certificates.crt" },
  { name: "golang-go", file: "/usr/bin/go" },
  ...pythonPackages,
  { name: "git", file: "/usr/bin/git" },
  ...mavenPackages,
  { name: "prometheus", file: "/usr/bin/prometheus" },
  ...serversOfSpellings,
];

/** Fonts with which screenshots look as on a usual desktop, and with Chinese. */
const screenshotPackages: readonly SystemPackage[] = [
  { name: "fonts-noto-core", file: "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf" },
  { name: "fonts-wqy-microhei", file: "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc" },
];

/** `ps`, with which Stryker ends its processes: minimal installations lack it. */
const mutationPackages: readonly SystemPackage[] = [{ name: "procps", file: "/usr/bin/ps" }];

/** What counts instructions. */
const instructionsPackages: readonly SystemPackage[] = [{ name: "valgrind", file: "/usr/bin/callgrind_control" }];

/** Network namespaces, and the firewall that drops packets in them. */
const faultsPackages: readonly SystemPackage[] = [
  { name: "iproute2", file: "/usr/bin/ip" },
  { name: "iptables", file: "/usr/sbin/iptables" },
];

const packagesFor = {
  run: [],
  test: testPackages,
  faults: [...testPackages, ...faultsPackages],
  instructions: [...testPackages, ...instructionsPackages],
  mutation: [...testPackages, ...mutationPackages],
  screenshots: [...testPackages, ...screenshotPackages],
} as const satisfies Record<string, readonly SystemPackage[]>;

/**
 * @param purpose `run`: what a gateway needs; `test`: also what the tests need; `faults`: also namespaces and a firewall; `instructions`: also valgrind; `mutation`: also procps; `screenshots`: also fonts
 * @param nginx SLUICE_NGINX, if it is set
 * @throws SetupError with the command to run, if this process may not install packages
 */
export async function requireSystemPackages(
  purpose: keyof typeof packagesFor,
  nginx: string | undefined,
): Promise<void> {
  // With OpenResty, or with a binary that the user named, Debian's packages of nginx are not needed.
  const debianNginx = nginx === undefined && findProgram("openresty") === undefined;
  const wanted = [...(debianNginx ? gatewayPackages : []), ...packagesFor[purpose]];
  const missing = wanted.filter(({ file }) => !existsSync(file)).map(({ name }) => name);
  if (missing.length === 0) return;

  const apt = findProgram("apt-get");
  if (apt === undefined) {
    const need = findNginx(nginx) === undefined ? "OpenResty, or nginx with ngx_lua, is missing here" : "missing here";
    throw new SetupError(`${need}; on Debian these packages would be installed: ${missing.join(" ")}`);
  }
  if (process.getuid?.() !== 0) {
    throw new SetupError(
      `Debian packages are missing and installing them needs root; run this, then start again:\n` +
        `  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing.join(" ")}`,
    );
  }
  await install(apt, missing);
}

async function install(apt: string, names: readonly string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", NEEDRESTART_SUSPEND: "1", LC_ALL: "C.UTF-8" };
  const update = await runStep("updating the Debian package lists", apt, ["update", "-qq"], { env });
  // If one third-party list cannot be reached, the update fails, but Debian's own lists may still have been updated.
  if (update.code !== 0) say("not every package list could be updated; trying all the same");

  const restore = keepServicesFromStarting();
  const lockWait = ["-o", "DPkg::Lock::Timeout=120"];
  const args = [...lockWait, "install", "-y", "-q", "--no-install-recommends", ...names];
  const options = { env, uninterruptible: true, beforeExit: restore };
  const done = await runStep(`installing Debian packages: ${names.join(" ")}`, apt, args, options).finally(restore);
  if (done.code !== 0) {
    throw new SetupError(`apt-get install failed (exit code ${done.code}):\n${done.output.trimEnd()}`);
  }
}

const policyFile = "/usr/sbin/policy-rc.d";
const policy =
  "#!/bin/sh\n# Made by Sluice while it installs packages: their services are not to be started. Safe to remove.\nexit 101\n";

/**
 * Packages start their services (nginx on port 80) unless this file forbids it. Returns the function that removes the file.
 */
function keepServicesFromStarting(): () => void {
  // If the file has our text, a run that was killed has left it, and it may be replaced and removed.
  if (existsSync(policyFile) && readFileSync(policyFile, "utf8") !== policy) return () => undefined;
  writeFileSync(policyFile, policy, { mode: 0o755 });
  return () => rmSync(policyFile, { force: true });
}
