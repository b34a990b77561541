-- What the tests in Lua test: the built gateway itself. Its modules without nginx (gateway/dist/sluice.lua up to where
-- it starts the gateway), its Redis script as a function, and the vectors.

local cjson = require("cjson")

local product = {}

local function read(path)
  local file = assert(io.open(path, "rb"), path .. " cannot be read: run from the project's directory, after npm run build")
  local text = file:read("*a")
  file:close()
  return text
end

-- Every module of the bundle by its name: product.module("limiter.src.verdict"). Under LuaJIT alone: the bundle has
-- `goto`, which Lua 5.1 does not know.
local startsGateway = "\nlocal ____entry = require%(\"gateway%.src%.sluice\", %.%.%.%)\nreturn ____entry%s*$"
local load
function product.module(name)
  if not load then
    local modules, found = read("gateway/dist/sluice.lua"):gsub(startsGateway, "\nreturn require\n")
    assert(found == 1, "gateway/dist/sluice.lua does not end as a bundle does")
    load = assert(loadstring(modules, "@gateway/dist/sluice.lua"))()
  end
  return load(name)
end

local unitsUs = { ms = 1000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000 }

function product.vectors(name)
  return cjson.decode(read("test/vectors/" .. name .. ".json"))
end

-- A limit of a vector as a policy's limit.
function product.limitOf(limit, name)
  return {
    name = name or "default",
    algorithm = limit.algorithm,
    quota = limit.quota,
    windowUs = tonumber(limit.window:match("^%d+")) * unitsUs[limit.window:match("%a+$")],
    burst = limit.burst or limit.quota,
  }
end

-- A Redis of one script: its clock says `nowUs`, its keys are a table. `px` keeps the lifetimes that SET was given.
function product.newRedis()
  local redis = { nowUs = 0, keys = {}, px = {} }
  local commands = {
    TIME = function()
      return { string.format("%.0f", math.floor(redis.nowUs / 1000000)), string.format("%.0f", redis.nowUs % 1000000) }
    end,
    GET = function(key)
      return redis.keys[key] or false
    end,
    SET = function(key, value, px, ms)
      assert(px == "PX")
      redis.keys[key] = value
      redis.px[key] = ms
    end,
  }
  function redis.call(command, ...)
    return commands[command](...)
  end

  local script = assert(loadstring(dofile("gateway/dist/sluice_redis_scripts.lua").charge.source, "@charge"))
  -- Redis truncates the numbers of a reply.
  function redis.charge(keys, argv)
    setfenv(script, setmetatable({ redis = redis, KEYS = keys, ARGV = argv }, { __index = _G }))
    local reply = script()
    for i, number in ipairs(reply) do
      assert(number == math.floor(number), "Redis would truncate " .. number)
    end
    return reply
  end
  return redis
end

-- What the gateway passes for a counter: algorithm, quota, window in µs, burst, cost.
function product.scriptArguments(limit, cost)
  local format = function(number)
    return string.format("%.0f", number)
  end
  return { limit.algorithm, format(limit.quota), format(limit.windowUs), format(limit.burst), format(cost) }
end

-- The two numbers that the script stores of a counter; of one that it has never stored, zeros.
function product.storedState(redis, key)
  local atUs, count = (redis.keys[key] or "0 0"):match("^(%d+) (%d+)$")
  return tonumber(atUs), tonumber(count)
end

return product
