// A client writes the name of a field, or a whole body, so that the service reads the victim's account, and adds a new account for Sluice each
// time. Shown with services behind a real nginx, most of them real; npm run spellings compares these and other servers with random requests.

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Program } from "../fixtures/servers/program.ts";
import { bodyModels } from "../spellings/body-models.ts";
import { formModels } from "../spellings/form-models.ts";

const quota = 5;
const attempts = 40;
const form = "application/x-www-form-urlencoded";

const counting = (name: string, key: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: [key],
  onMissingKey: "deny",
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

interface Service {
  readonly command: string;
  readonly argsAt: (port: number) => string[];
  /** Names that the service takes for `account`. */
  readonly names: readonly string[];
  /** Whether its list of fields and arguments has cookies, too. PHP without a php.ini, as its Docker images have it, has them. */
  readonly hasCookies: boolean;
}

const files = join(import.meta.dirname, "../fixtures/servers/log-in");
const services: Readonly<Record<string, Service>> = {
  PHP: {
    command: "php",
    argsAt: (port) => ["-n", "-S", `127.0.0.1:${port}`, join(files, "log-in.php")],
    names: ["%20account", "+account", "account%00", "account%00x", "account[]", "account[x]"],
    hasCookies: true,
  },
  Rack: {
    command: "rackup",
    argsAt: (port) => ["-s", "webrick", "-o", "127.0.0.1", "-p", `${port}`, "-E", "none", join(files, "log-in.ru")],
    names: ["[account]", "account]", "[[account", "]account"],
    hasCookies: false,
  },
};

/** Starts a service and a gateway before it, which counts by its account, for the tests of a group. */
function behindNginx(
  command: string,
  argsAt: Service["argsAt"],
  onStarted: (started: { readonly gateway: LoneGateway; readonly serviceUrl: string }) => void,
): void {
  let service: Program | undefined;
  let gateway: LoneGateway | undefined;
  beforeAll(async () => {
    const port = await freePort();
    const serviceUrl = `http://127.0.0.1:${port}`;
    service = await Program.start({
      command,
      args: argsAt(port),
      readyWhen: () =>
        ask(serviceUrl).then(
          ({ status }) => status === 200,
          () => false,
        ),
    });
    gateway = await LoneGateway.start({
      policies: [counting("form", "form:account"), counting("query", "query:account")],
      env: { SLUICE_UPSTREAM: serviceUrl },
    });
    onStarted({ gateway, serviceUrl });
  });
  afterAll(async () => {
    await gateway?.stop();
    await service?.stop();
  });
}

describe.each(Object.entries(services))("%s behind nginx", (_, { command, argsAt, names, hasCookies }) => {
  let gateway: LoneGateway;
  let serviceUrl: string;
  let decoys = 0;
  behindNginx(command, argsAt, (started) => {
    gateway = started.gateway;
    serviceUrl = started.serviceUrl;
  });

  /** @returns the account that the service was asked for; undefined if it was not asked */
  async function logIn(url: string, place: "form" | "query", pairs: string): Promise<string | undefined> {
    const { status, body } =
      place === "form"
        ? await ask(`${url}/form`, { method: "POST", body: pairs, headers: { "content-type": form } })
        : await ask(`${url}/query?${pairs}`);
    if (status !== 200) return undefined;
    const account = JSON.parse(body)[place];
    return typeof account === "object" && account !== null ? `${Object.values(account)[0]}` : account;
  }

  describe.each(["form", "query"] as const)("by a %s", (place) => {
    it.each(names)("is not asked for a victim that is named by %s", async (name) => {
      const pairs = () => {
        decoys += 1;
        return `account=r${decoys}&${name}=victim`;
      };
      // Without Sluice, the service is deceived.
      expect(await logIn(serviceUrl, place, pairs())).toBe("victim");
      let got = 0;
      for (let i = 0; i < attempts; i++) if ((await logIn(gateway.url, place, pairs())) === "victim") got += 1;
      expect(got).toBe(0);
    });

    it("gets the log-ins of honest clients", async () => {
      const got: unknown[] = [];
      for (let i = 0; i <= quota; i++) {
        got.push(
          await logIn(gateway.url, place, `ids[]=1&ids[]=2&user[name]=x&account=ann${i % 2 === 0 ? "&a.b=c" : ""}`),
        );
      }
      expect(got).toEqual([...Array<string>(quota).fill("ann"), undefined]);
    });
  });

  describe("by its one list of fields, arguments and cookies", () => {
    const inForm = (body: string, cookie?: string) => ({
      method: "POST",
      body,
      headers: { "content-type": form, ...(cookie === undefined ? {} : { cookie }) },
    });
    const inMultipart = () => ({
      method: "POST",
      body: '--b\r\nContent-Disposition: form-data; name="account"\r\n\r\nvictim\r\n--b--\r\n',
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    type Log = readonly [path: string, options: Parameters<typeof ask>[1]];
    const decoyed: readonly (readonly [string, boolean, (decoy: string) => Log])[] = [
      ["a cookie, beside a field", true, (decoy) => ["/form", inForm(`account=${decoy}`, "account=victim")]],
      ["a cookie, beside an argument", true, (decoy) => [`/form?account=${decoy}`, inForm("x=1", "account=victim")]],
      [
        "a cookie, beside an argument and no body",
        true,
        (decoy) => [`/form?account=${decoy}`, { headers: { cookie: "account=victim" } }],
      ],
      ["a cookie alone", true, () => ["/form", { headers: { cookie: "account=victim" } }]],
      ["a cookie beside a form without the field", true, () => ["/form", inForm("x=1", "account=victim")]],
      ["a form of another type, beside an argument", false, (decoy) => [`/form?account=${decoy}`, inMultipart()]],
    ];
    const plain: readonly (readonly [string, () => Log])[] = [
      ["an argument without a body", () => ["/form?account=victim2", {}]],
      ["a field", () => ["/form", inForm("account=victim2")]],
    ];
    const reads = async (url: string, [path, options]: Log) => {
      const { status, body } = await ask(url + path, options);
      return status === 200 ? JSON.parse(body).merged : undefined;
    };
    it.each(decoyed.filter(([, needsCookies]) => hasCookies || !needsCookies))(
      "is not asked for a victim in %s",
      async (_, _needsCookies, logOf) => {
        expect(await reads(serviceUrl, logOf("decoy"))).toBe("victim");
        let got = 0;
        for (let i = 0; i < attempts; i++) if ((await reads(gateway.url, logOf(`merged${i}`))) === "victim") got += 1;
        expect(got).toBe(0);
      },
    );

    it("is asked for an account as often as the quota says, wherever the account is", async () => {
      let got = 0;
      for (let i = 0; i < quota; i++) {
        for (const [where, logOf] of plain) {
          expect([where, await reads(serviceUrl, logOf())]).toEqual([where, "victim2"]);
          if ((await reads(gateway.url, logOf())) === "victim2") got += 1;
        }
      }
      expect(got).toBe(quota);
    });
  });
});

describe("a form of Django, which leaves out blanks, behind nginx", () => {
  let gateway: LoneGateway;
  let serviceUrl: string;
  behindNginx(
    "/usr/bin/python3",
    (port) => [join(files, "log-in.py"), `${port}`],
    (started) => {
      gateway = started.gateway;
      serviceUrl = started.serviceUrl;
    },
  );

  const asked = async (url: string, place: "form" | "query", written: string) => {
    const { status, body } =
      place === "form"
        ? await ask(`${url}/form`, {
            method: "POST",
            body: `account=${written}`,
            headers: { "content-type": form },
          })
        : await ask(`${url}/query?account=${written}`);
    return { status, account: status === 200 ? JSON.parse(body)[place] : undefined };
  };
  const blanks = ["+", "%20", "%09", "%0D%0A", "%0B", "%C2%A0", "%C2%85", "%E3%80%80", "%E2%80%83"];

  it.each(["form", "query"] as const)("is asked for a victim as often as the quota says, by a %s", async (place) => {
    let got = 0;
    for (const blank of blanks) {
      for (const written of [`${blank}victim`, `victim${blank}`, `${blank.repeat(3)}victim${blank}`]) {
        // Without Sluice, all of them are the victim.
        expect([written, await asked(serviceUrl, place, written)]).toMatchObject([written, { account: "victim" }]);
        if ((await asked(gateway.url, place, written)).account === "victim") got += 1;
      }
    }
    expect(got).toBe(quota);
  });

  it("is not asked at all for an account of blanks alone, if the policy says so", async () => {
    for (const blank of blanks) expect((await asked(gateway.url, "form", blank)).status).toBe(403);
  });
});

/**
 * Starts a service that answers with the account in a form, and a gateway before it, for the tests of a group.
 *
 * @returns their URLs, once the tests run
 */
function behindForms(read: (body: string, headers: IncomingHttpHeaders) => unknown) {
  const places = { serviceUrl: "", gatewayUrl: "" };
  const service = createServer((request, response) => {
    text(request).then((body) => response.end(`${read(body, request.headers) ?? "nobody"}`));
  });
  let gateway: LoneGateway | undefined;
  beforeAll(async () => {
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    places.serviceUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
    gateway = await LoneGateway.start({
      policies: [counting("form", "form:account")],
      env: { SLUICE_UPSTREAM: places.serviceUrl },
    });
    places.gatewayUrl = gateway.url;
  });
  afterAll(async () => {
    await gateway?.stop();
    service.close();
  });
  return places;
}

describe.each(Object.entries(bodyModels))(
  "%s, which takes some forms for something else, behind nginx",
  (name, read) => {
    const json = (decoy: string) => JSON.stringify({ account: "victim", x: `&account=${decoy}&` });
    const multipart = (decoy: string) =>
      `&account=${decoy}&\r\n--b\r\nContent-Disposition: form-data; name="account"\r\n\r\nvictim\r\n--b--\r\n`;
    const deceiving: Readonly<Record<string, readonly (readonly [string | undefined, (decoy: string) => string])[]>> = {
      "Laravel (model)": [
        [`${form}; a=/json`, json],
        [`${form}; a=+json`, json],
      ],
      "formidable (model)": [
        [`${form}; a=json`, json],
        [`${form}; a=multipart; boundary=b`, multipart],
      ],
      "h3 (model)": [
        [undefined, json],
        ["Application/X-WWW-Form-URLEncoded", json],
      ],
    };
    const places = behindForms((body, headers) => read(body, headers["content-type"] ?? "", "account"));
    const logIn = async (url: string, type: string | undefined, body: string) => {
      const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
      const { status, body: account } = await ask(`${url}/form`, { method: "POST", body, headers });
      return status === 200 ? account : status;
    };

    it.each(deceiving[name] ?? [])("is not asked for a victim by the type %s", async (type, bodyWith) => {
      expect(await logIn(places.serviceUrl, type, bodyWith("decoy"))).toBe("victim");
      const answers: unknown[] = [];
      for (let i = 0; i < attempts; i++) answers.push(await logIn(places.gatewayUrl, type, bodyWith(`body${i}`)));
      expect(answers).toEqual(Array(attempts).fill(400));
    });

    it("gets the log-ins of honest clients", async () => {
      const answers: unknown[] = [];
      for (let i = 0; i <= quota; i++) answers.push(await logIn(places.gatewayUrl, form, "account=ann&password=x"));
      expect(answers).toEqual([...Array<string>(quota).fill("ann"), 429]);
    });
  },
);

describe.each(Object.entries(formModels))(
  "%s, which finds the field of a form elsewhere, behind nginx",
  (name, read) => {
    type Sent = readonly [body: string, headers?: Readonly<Record<string, string>>];
    const deceiving: Readonly<Record<string, Readonly<Record<string, (decoy: string) => Sent>>>> = {
      "Netty (model)": {
        "a line end within the name": (decoy) => [`acc%0aount=victim&account=${decoy}`],
        "a tab before the name": (decoy) => [`%09account=victim&account=${decoy}`],
        "a blank behind the name": (decoy) => [`account+=victim&account=${decoy}`],
        "a line end within the value": (decoy) => [`account=victim\n${decoy}`],
      },
      "Ktor (model)": {
        "a tab before the name": (decoy) => [`\taccount=victim&account=${decoy}`],
        "a line end behind the name": (decoy) => [`account\n=victim&account=${decoy}`],
        "a blank of Unicode before the name": (decoy) => [`\u3000account=victim&account=${decoy}`],
      },
      "Play (model)": { "= within the value": (decoy) => [`account=victim=${decoy}`] },
      "Spring WebFlux (model)": {
        "a tab before the name": (decoy) => [`\taccount=victim&account=${decoy}`],
        "digits of another script": (decoy) => [`%\uff16\uff11ccount=victim&account=${decoy}`],
      },
      "Spring MVC's @ModelAttribute (model)": {
        "a default": (decoy) => [`!account=victim`, { cookie: `account=${decoy}` }],
        "a header": (decoy) => ["password=x", { account: "victim", cookie: `account=${decoy}` }],
      },
      "ASP.NET Core's Login(Model model) (model)": {
        "the name of the parameter": (decoy) => [`account=${decoy}&model.Account=victim`],
        "the name of the parameter as jQuery writes it": (decoy) => [`account=${decoy}&model[Account]=victim`],
      },
    };
    const places = behindForms((body, headers) => read(body, "account", headers));
    const logIn = async (url: string, [body, headers = {}]: Sent) => {
      const sent = { method: "POST", body, headers: { "content-type": form, ...headers } };
      const { status, body: account } = await ask(`${url}/form`, sent);
      return status === 200 ? account : status;
    };

    it.each(Object.entries(deceiving[name] ?? {}))("is not asked for a victim by %s", async (_, sentWith) => {
      expect(await logIn(places.serviceUrl, sentWith("decoy"))).toBe("victim");
      for (let i = 0; i < attempts; i++)
        expect(await logIn(places.gatewayUrl, sentWith(`form${i}`))).toBeOneOf([400, 403]);
    });

    it("gets the log-ins of honest clients", async () => {
      const answers: unknown[] = [];
      for (let i = 0; i <= quota; i++) answers.push(await logIn(places.gatewayUrl, ["account=ann&password=x"]));
      expect(answers).toEqual([...Array<string>(quota).fill("ann"), 429]);
    });
  },
);
