// A script is one straight body that does what its functions did. Every source here also runs as it was compiled, and `run`
// throws if the two differ in their reply or in their calls of Redis.

import { describe, expect, test } from "vitest";
import { headerOf } from "../../gateway/build/flatten.ts";
import { flattened, run } from "./fixture.ts";

/** @returns the source of `script` with this body, after functions that it may call */
const script = (functions: string, body: string) =>
  `${functions}\nexport function script(keys: string[], argv: string[]): unknown {\n${body}\n}\n`;

const rank = `
function rank(n: number): string {
  if (n > 10) return "high";
  if (n > 5) { redis.call("SEEN", n); return "middle"; }
  redis.call("LOW", n);
  return "low";
}`;

const divide = `
interface Quotient { quotient: number; remainder: number }
function divide(a: number, b: number): Quotient {
  if (a < b) return { quotient: 0, remainder: a };
  const remainder = a % b;
  return { quotient: (a - remainder) / b, remainder };
}`;

describe("a function is inlined", () => {
  test("with every return that leaves it early", () => {
    const { reply, calls, script: lua } = run(script(rank, "return [rank(12), rank(7), rank(1)];"));
    expect(reply).toBe('{"high","middle","low"}');
    expect(calls).toEqual(['"SEEN" 7', '"LOW" 1']);
    expect(lua).not.toMatch(/\bfunction\b/);
  });

  test("when only some paths through a branch return", () => {
    const some = `function some(n: number): number {
      let sum = n;
      if (n > 1) { if (n > 5) return -n; sum += 10; } else if (n > 0) { sum += 20; } else { sum += 30; }
      redis.call("SUM", sum);
      return sum;
    }`;
    const { reply } = run(script(some, "return [some(7), some(3), some(1), some(0)];"));
    expect(reply).toBe("{-7,13,21,30}");
  });

  test("when it returns from inside its loops, and its caller's loops go on", () => {
    const find = `function find(wanted: number): number {
      for (let i = 0; i < 4; i++) {
        for (let j = 0; j < 4; j++) {
          if (j > i) break;
          if (j === 2) continue;
          if (i * 4 + j === wanted) return i * 10 + j;
        }
      }
      return -1;
    }`;
    const { reply } = run(
      script(
        find,
        "let all = 0; for (let n = 0; n < 16; n++) { if (n === 3) continue; all = all * 2 + find(n); } return all;",
      ),
    );
    expect(reply).toMatch(/^-?\d+$/);
  });

  test("inside another's arguments", () => {
    const { reply, calls } = run(
      script(
        `function next(n: number): number { redis.call("NEXT", n); return n + 1; }`,
        "return next(next(1) * next(5));",
      ),
    );
    expect(reply).toBe("13");
    expect(calls).toEqual(['"NEXT" 1', '"NEXT" 5', '"NEXT" 12']);
  });

  test("from another module, which has a private function of the same name", () => {
    const { reply } = run({
      "main.ts": `import { twice } from "./other.ts";
        function own(n: number): number { if (n > 3) return n; return n + 100; }
        export function script(): unknown { return [own(1), twice(1)]; }`,
      "other.ts": `const by = 2;
        function own(n: number): number { if (n > 3) return n; return n * by; }
        export function twice(n: number): number { return own(n) + own(9); }`,
    });
    expect(reply).toBe("{101,11}");
  });

  test("with several return values, where they are destructured", () => {
    const two = `function two(n: number): LuaMultiReturn<[number, number]> { if (n > 3) return $multi(n, 1); return $multi(0, n); }`;
    const body =
      "const [a, b] = two(tonumber(argv[0]) as number); let c = 0; let d = 0; [c, d] = two(2); return [a, b, c, d];";
    expect(run(script(two, body)).reply).toBe("{7,1,0,2}");
  });

  test("with a function as argument, and with switch, for of and continue", () => {
    const functions = `
      function each(n: number, f: (this: void, i: number) => void): void { for (let i = 0; i < n; i++) f(i); }
      function pick(k: string, n: number): number { switch (k) { case "a": return n; case "b": n += 2; break; default: n *= 3; } return n + 1; }
      function sum(xs: number[]): number { let all = 0; for (const x of xs) { if (x === 2) continue; all += x; } return all; }`;
    const body = `let all = 0; each(3, (i) => { if (i === 1) return; all += i * 2; });
      return [all, pick("a", 1), pick("b", 1), pick(argv[2] as string, 1), sum([1, 2, 3, 4])];`;
    expect(run(script(functions, body)).reply).toBe("{4,1,4,4,8}");
  });

  test("without a return value, if only its effect counts", () => {
    const { calls } = run(
      script(`function set(n: number): void { if (n < 3) return; redis.call("SET", n); }`, "set(2); set(3); return 0;"),
    );
    expect(calls).toEqual(['"SET" 3']);
  });
});

describe("a variable of an inlined function", () => {
  test("is distinct from the caller's of the same name", () => {
    const add = `function add(a: number, b: number): number { const sum = a + b; let rest = sum; while (rest > 3) rest -= 3; return rest; }`;
    const { reply } = run(
      script(
        add,
        "const sum = 5; let rest = 1; const b = 2; const a = add(b, sum); rest += a; return [a, b, sum, rest, add(rest, add(a, b))];",
      ),
    );
    expect(reply).toBe("{1,2,5,2,2}");
  });

  test("is a new one in every iteration of a loop", () => {
    const count = `function count(n: number): number { let found; if (n > 1) found = n; return found ?? 0; }`;
    expect(run(script(count, "let all = ''; for (let i = 3; i > 0; i--) all += count(i); return all;")).reply).toBe(
      '"320"',
    );
  });

  test("that is assigned leaves the argument unchanged", () => {
    const lower = `function lower(n: number): number { n -= 1; if (n > 2) return n; return n * 2; }`;
    expect(run(script(lower, "const n = 2; return [lower(n), lower(5), n];")).reply).toBe("{2,4,2}");
  });

  test("has a plain name, with a number if it would hide another", () => {
    const half = `function half(n: number): number { const rest = n % 2; redis.call("A", rest, rest); return (n - rest) / 2; }`;
    const lua = flattened(script(half, "const rest = tonumber(argv[0]) as number; return [half(rest), rest];"));
    expect(lua).toMatch(/local rest = tonumber\(ARGV\[1\]\)/);
    expect(lua).toMatch(/local rest_2 = rest % 2/);
    expect(lua).not.toContain("@");
  });
});

describe("arguments are evaluated once and in order", () => {
  const functions = `
    function ask(n: number): number { return redis.call("ASK", n); }
    function both(a: number, b: number): number { return b * 100 + a * 10 + a; }`;

  test("when the function reads them in another order, and twice", () => {
    const { reply, calls } = run(script(functions, "return both(ask(1), ask(2));"));
    expect(reply).toBe("211");
    expect(calls).toEqual(['"ASK" 1', '"ASK" 2']);
  });

  test("before the body changes what they were read from", () => {
    const bump = `interface Cell { n: number } function bump(c: Cell): number { c.n += 1; redis.call("N", c.n); return c.n; }`;
    const body =
      "const c = { n: 1 }; const kept = [c]; const a = c.n + bump(c) * 10; const b = [c.n, bump(c), c.n]; return [a, b, kept];";
    expect(run(script(bump, body)).reply).toBe("{21,{2,3,3},{{n=3}}}");
  });

  test("although nothing reads the result", () => {
    expect(run(script(functions, "both(ask(1), ask(2)); return 0;")).calls).toEqual(['"ASK" 1', '"ASK" 2']);
  });
});

describe("a call that is evaluated conditionally", () => {
  const noisy = `${rank} function yes(n: number): boolean { redis.call("YES", n); if (n > 9) return false; return true; }`;

  test("is made only then: &&, || and ?:", () => {
    const { reply, calls } = run(
      script(
        noisy,
        `const n = tonumber(argv[0]) as number;
         return [n > 9 && yes(1), n < 9 && yes(2), n > 9 || yes(30), n < 9 || yes(4), n > 9 ? rank(20) : rank(6)];`,
      ),
    );
    expect(reply).toBe('{false,true,false,true,"middle"}');
    expect(calls).toEqual(['"YES" 2', '"YES" 30', '"SEEN" 6']);
  });

  test("is made in every iteration in a loop's condition", () => {
    const { calls } = run(
      script(noisy, "let n = 8; while (yes(n) && n < 12) n++; do { n--; } while (yes(n) === false); return n;"),
    );
    expect(calls.map((call) => call.slice(6))).toEqual(["8", "9", "10", "9"]);
  });

  test("is made in an else-if only when the first condition is false", () => {
    const { calls } = run(
      script(
        noisy,
        "for (let i = 0; i < 2; i++) { if (i === 0) redis.call('A'); else if (yes(i)) redis.call('B'); else redis.call('C'); } return 0;",
      ),
    );
    expect(calls).toEqual(['"A"', '"YES" 1', '"B"']);
  });

  test("is replaced by its expression if the function is only that", () => {
    const lua = flattened(
      script(
        "function over(a: number, b: number): boolean { return a > b * 2; }",
        "const n = tonumber(argv[0]) as number; return n > 3 && over(n + 1, n - 2) ? 1 : 0;",
      ),
    );
    expect(lua).toContain("n > 3 and n + 1 > (n - 2) * 2 and 1 or 0");
  });

  test("may have false or nil as its value", () => {
    const maybe =
      "function maybe(n: number): boolean | undefined { redis.call('M', n); if (n > 5) return undefined; return n > 2; }";
    expect(
      run(
        script(
          maybe,
          "return [maybe(1) ?? 'none', maybe(9) ?? 'none', maybe(9) === undefined, maybe(3) || 7, maybe(3) && 8];",
        ),
      ).reply,
    ).toBe('{false,"none",true,true,8}');
  });
});

describe("a record of functions", () => {
  const ring = `
    interface State { text: string }
    interface Ring { at(this: void, s: State, slot: number): number; put(this: void, s: State, slot: number, n: number): void }
    function numberAt(s: State, slot: number): number { if (slot > 2) return redis.call("GETRANGE", slot); return s.text.length + slot; }
    const short: Ring = {
      at: (s, slot) => numberAt(s, slot),
      put: (s, slot, n) => { if (n < 0) return; s.text += slot + n; },
    };
    const far: Ring = { at: (_s, slot) => redis.call("FAR", slot), put: (s, _slot, n) => { s.text = "far" + n; } };
    function sum(s: State, ring: Ring, count: number): number {
      let all = 0;
      for (let i = 0; i < count; i++) { ring.put(s, i, 2 - i); all += ring.at(s, i); }
      return all;
    }`;

  test("that is passed down is called without a table or a closure", () => {
    const {
      reply,
      calls,
      script: lua,
    } = run(script(ring, "const s = { text: 'ab' }; return [sum(s, short, 4), s.text, sum(s, far, 2), s.text];"));
    expect(reply).toBe('{18,"ab222",1,"far1"}');
    expect(calls).toEqual(['"GETRANGE" 3', '"FAR" 0', '"FAR" 1']);
    expect(lua).not.toMatch(/\bshort\b|\bfar\b(?!")|\bring\b/);
  });
});

describe("a record that does not escape", () => {
  test("becomes a local for each field, also when branches make it", () => {
    const { reply, script: lua } = run(
      script(
        divide,
        "const n = tonumber(argv[1]) as number; const full = divide(n, 5); const small = divide(3, n); return [full.quotient, full.remainder, small.remainder];",
      ),
    );
    expect(reply).toBe("{2,2,3}");
    expect(lua).toContain("full_quotient");
    expect(lua).not.toContain("{quotient");
  });

  test("may be changed, copied and rebuilt from its own fields", () => {
    const body = `let p = { a: 1, b: 2 }; p.a += 5; p = { a: p.b, b: p.a }; const q = p; q.b += 1;
      const nested = { inner: { n: p.a }, other: 1 }; nested.inner.n += 1; return [p.a, p.b, nested.inner.n];`;
    expect(run(script("", body)).reply).toBe("{2,7,3}");
  });

  test("stays a table when it escapes into another, an array or a call", () => {
    const body = `const p = { a: 1 }; const q = { a: 2 }; const r = { a: 3 }; const all = [p]; const holder: { it?: { a: number } } = {}; holder.it = q;
      redis.call("R", r); p.a = 10; q.a = 20; r.a = 30; return [all, holder, r.a, p.a];`;
    const { reply, calls } = run(script("", body));
    expect(reply).toBe("{{{a=10}},{it={a=20}},30,10}");
    expect(calls).toEqual(['"R" {a=3}']);
  });

  test("leaves no code for fields that nothing reads", () => {
    const lua = flattened(script("", "const p = { read: argv[0], unread: argv[1] }; return p.read;"));
    expect(lua).toBe("local p_read = ARGV[1]\nreturn p_read\n");
  });
});

describe("a constant known when the script is built", () => {
  const kinds = `
    type Kind = "bucket" | "window";
    declare const KIND: Kind;
    function limitOf(kind: Kind, n: number): { kind: Kind; n: number } {
      return kind === "bucket" ? { kind, n: n * 2 } : { kind, n };
    }
    function charge(limit: { kind: Kind; n: number }): number {
      if (limit.kind === "bucket") return redis.call("BUCKET", limit.n);
      return redis.call("WINDOW", limit.n);
    }`;
  const source = script(kinds, "return charge(limitOf(KIND, tonumber(argv[0]) as number));");

  test("chooses the branches of the script", () => {
    const { reply, script: lua } = run(source, { KIND: "bucket" });
    expect(reply).toBe("14");
    expect(lua).toContain("local n = tonumber(ARGV[1])\nlocal limit_n = n * 2\n");
    expect(lua).toContain('redis.call("BUCKET", limit_n)');
    expect(lua).not.toContain("WINDOW");
    expect(run(source, { KIND: "window" }).reply).toBe("7");
  });

  test("must be read by some module", () => {
    expect(() => flattened(source, { KIND: "bucket", KINT: "bucket" })).toThrow("reads the constant KINT");
  });

  test("is computed: constants of modules, arithmetic, comparisons, not, and, or", () => {
    const lua = flattened(
      script(
        "const base = 64; const place = base * base; const on = true;",
        "const x = place + 1; return on && !(x === 4096) ? x - 2 * base : 0;",
      ),
    );
    expect(lua).toBe("return 3969\n");
  });

  test("is not computed where JavaScript and Lua compute or print differently", () => {
    const { reply } = run(script("const n = -7; const zero = 0;", "return [n % 3, 1 / (zero * n), 2 ** -1];"));
    expect(reply).toBe("{2,-inf,0.5}");
  });
});

test("arithmetic keeps its order of evaluation when an expression takes a parameter's place", () => {
  const functions = `
    function scale(a: number, b: number): number { return a * b; }
    function less(a: number, b: number): number { return a - b; }
    function minus(a: number): number { return -a; }`;
  const body = `const n = tonumber(argv[0]) as number; const m = tonumber(argv[1]) as number;
    return [scale(n + 1, m - 2), less(n, m - n), less(n - m, n), minus(-n), minus(n + m), scale(minus(n), less(1, minus(m))), 2 ** minus(2)];`;
  expect(run(script(functions, body)).reply).toBe("{80,2,-12,7,-19,-91,0.25}");
});

test("only the first value is taken of a library function that returns several", () => {
  const functions = `
    declare namespace string { function match(this: void, s: string, p: string): any; }
    function first(s: string): any { return string.match(s, "^(%d+) (%d+)$"); }`;
  expect(flattened(script(functions, "redis.call('A', first('12 3')); return 0;"))).toContain(
    'redis.call("A", (string.match(',
  );
});

test("a library function that is used more than once is looked up once, and hides no local of its name", () => {
  const body = "const min = argv.length; return [math.min(min, 1), math.min(2, 3), math.max(4, 5)];";
  const math =
    "declare namespace math { function min(this: void, a: number, b: number): number; function max(this: void, a: number, b: number): number; }";
  const { reply, script: lua } = run(script(math, body));
  expect(reply).toBe("{1,2,5}");
  expect(lua.match(/math\.min/g)).toHaveLength(1);
  expect(lua).toContain("math.max(");
});

test("a library function that is used in a loop is looked up once", () => {
  const math = "declare namespace math { function min(this: void, a: number, b: number): number; }";
  const body = "let n = 0; for (let i = 0; i < 3; i++) { n += math.min(i, 1); } return n;";
  const { reply, script: lua } = run(script(math, body));
  expect(reply).toBe("2");
  expect(lua).toContain("local min = math.min\n");
});

test("more locals than Lua allows at once are put in blocks", () => {
  const sums = Array.from({ length: 150 }, (_, i) => `redis.call("S", weigh(n + ${i}));`).join("\n");
  const weigh =
    "function weigh(n: number): number { const a = n * 2; const b = a % 7; if (a > 20) return redis.call('BIG', a, b, a, b); return a + b + a * b; }";
  expect(run(script(weigh, `const n = tonumber(argv[0]) as number;\n${sums}\nreturn n;`)).calls.length).toBeGreaterThan(
    150,
  );
});

test("the comment that opens the entry's file opens the script, line by line", () => {
  const lua = flattened(`// Counts.\n//\n// KEYS   the counter\n\n// Not this.\n${script("", "return keys[0];")}`);
  expect(lua).toBe("-- Counts.\n--\n-- KEYS   the counter\nreturn KEYS[1]\n");
  expect(headerOf("const a = 1;\n// b")).toEqual([]);
});

describe("the build fails, and says where,", () => {
  const cases = [
    {
      what: "at recursion",
      source: script(
        "function down(n: number): number { if (n > 0) return down(n - 1); return 0; }",
        "return down(3);",
      ),
      says: /down cannot be inlined in down\(n - 1\): recursion, .*down → down/,
    },
    {
      what: "at a function that is kept as a value",
      source: script("function one(): number { return 1; }", "const all = [one] as unknown[]; return all.length;"),
      says: "one is a function, and is not called",
    },
    {
      what: "at a record of functions that is not known before the script runs",
      source: script(
        "interface R { f(this: void): number } const a: R = { f: () => 1 }; const b: R = { f: () => 2 };",
        "const r = argv[0] === 'x' ? a : b; return r.f();",
      ),
      says: "a is a function, and is not called",
    },
    {
      what: "at a method, which takes a `this`",
      source: script("interface R { f(): number } const a: R = { f() { return 1; } };", "return a.f();"),
      says: "a:f() passes a `this`",
    },
    {
      what: "at a variable of a module",
      source: script("let n = 0; function next(): number { n += 1; return n; }", "return next();"),
      says: "assigns n",
    },
    {
      what: "at a module that does something when it is loaded",
      source: script("redis.call('LOADED');", "return 0;"),
      says: "does something when it is loaded",
    },
    {
      what: "at what only the compiler's own library has",
      source: script("", "return [3, 4].map((n) => n + 1);"),
      says: /is not called|__TS__/,
    },
    {
      what: "at an entry that is not there",
      source: "export function other(): number { return 1; }",
      says: "exports no script",
    },
  ];
  for (const { what, source, says } of cases) {
    test(what, () => {
      expect(() => flattened(source)).toThrow(says);
    });
  }
});
