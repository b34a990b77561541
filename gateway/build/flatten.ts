// Redis runs a script's whole body at every call, and lets it require nothing. So the Lua that TypeScriptToLua makes of
// each module is laid end to end as plain local functions: no module tables, no loader.

const exportsTable = "local ____exports = {}";
const exportsReturn = "return ____exports";

/**
 * @param modules Lua of each module as TypeScriptToLua emits it, every module behind those it imports
 * @param entry name of the exported function that is called with KEYS and ARGV
 * @throws when two modules define one name, or something of a module is left that only a loader could resolve
 */
export function flatten(modules: readonly string[], entry: string): string {
  const definedIn = new Map<string, number>();
  const parts = modules.map((lua, index) => {
    for (const [, name] of lua.matchAll(/^(?:local )?(?:function )?____exports\.(\w+)/gm)) {
      const earlier = definedIn.get(name as string);
      if (earlier !== undefined && earlier !== index) throw new Error(`two modules of a Redis script define ${name}`);
      definedIn.set(name as string, index);
    }
    return flattenModule(lua);
  });
  const script = `${parts.join("\n")}\nreturn ${entry}(KEYS, ARGV)\n`;
  const left = script.match(/.*(____exports|require\(|__TS__).*/);
  if (left) throw new Error(`a Redis script must be flat, but holds: ${left[0].trim()}`);
  return script;
}

function flattenModule(lua: string): string {
  return lua
    .split("\n")
    .filter((line) => line !== exportsTable && line !== exportsReturn)
    .filter((line) => !/^local \w+ = require\(/.test(line) && !/^local \w+ = ____\w+\.\w+$/.test(line))
    .filter((line) => !/^\s*--/.test(line) && line.trim() !== "")
    .map((line) =>
      line
        .replace(/^function ____exports\.(\w+)/, "local function $1")
        .replace(/^____exports\.(\w+) =/, "local $1 =")
        .replaceAll("____exports.", ""),
    )
    .join("\n");
}
