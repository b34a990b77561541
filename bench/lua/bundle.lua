-- Loads the built gateway's modules, as nginx runs them: gateway/dist/sluice.lua up to where it starts the gateway, and in
-- addition limiter/src/algorithms/memory-ring, which nginx does not use.

local _M = {}

local starts_gateway = "\nlocal ____entry = require%(\"gateway%.src%.sluice\", %.%.%.%)\nreturn ____entry%s*$"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

-- Returns a function that returns a module by its name, such as "limiter.src.algorithms.rate".
function _M.open(directory)
  local modules, found = read(directory .. "/sluice.lua"):gsub(starts_gateway, "\nreturn require\n")
  assert(found == 1, "sluice.lua does not end as a bundle does")
  return assert(loadstring(modules, "@sluice.lua"))()
end

function _M.memory_ring(directory, module)
  local chunk = assert(loadstring(read(directory .. "/memory_ring.lua"), "@memory_ring.lua"))
  local function of_limiter(path)
    return module("limiter.src.algorithms." .. path:match("([%w-]+)[^/]*$"))
  end
  setfenv(chunk, setmetatable({ require = of_limiter }, { __index = _G }))
  return chunk()
end

-- Returns the first policy of the directory's snapshot, compiled.
function _M.policy(directory, module)
  local snapshot = require("cjson.safe").decode(read(directory .. "/snapshot.json"))
  local entry = snapshot.policies[1]
  local validation = module("limiter.src.document.validate").validatePolicy(entry.document)
  assert(#validation.problems == 0, "the policy is not valid")
  return module("limiter.src.compiled.compile").compilePolicy(entry.app, validation.policy)
end

return _M
