-- What the tests in Lua test: the built gateway itself. Its modules without nginx (gateway/dist/sluice.lua up to where
-- it starts the gateway), its Redis scripts as functions, and the vectors.

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
  local us = function(duration)
    return tonumber(duration:match("^%d+")) * unitsUs[duration:match("%a+$")]
  end
  local windowUs = us(limit.window or limit.ttl)
  local precisionUs = 0
  if limit.algorithm == "sliding-window" then
    precisionUs = limit.precision and us(limit.precision) or windowUs / 10
  end
  return {
    name = name or "default",
    algorithm = limit.algorithm,
    quota = limit.quota,
    windowUs = windowUs,
    burst = limit.burst or limit.quota,
    precisionUs = precisionUs,
  }
end

-- Redis' own library for packed numbers, as far as "<", "I4" and "d" go.
local struct = {}
local byte, char, floor = string.byte, string.char, math.floor

local pack = {}
local unpackAt = {}

function pack.I4(number)
  assert(number >= 0 and number < 4294967296 and number % 1 == 0, "not 32 bits: " .. number)
  local rest = floor(number / 256)
  local higher = floor(rest / 256)
  return char(number % 256, rest % 256, higher % 256, floor(higher / 256))
end

function unpackAt.I4(text, position)
  local a, b, c, d = byte(text, position, position + 3)
  return a + b * 256 + c * 65536 + d * 16777216, position + 4
end

-- Of IEEE 754: 52 bits of the fraction, 11 of the exponent, the sign.
function pack.d(number)
  if number == 0 then
    return ("\0"):rep(8)
  end
  local fraction, exponent = math.frexp(math.abs(number))
  local bits = (fraction * 2 - 1) * 4503599627370496
  local high = floor(bits / 4294967296) + (exponent + 1022) * 1048576
  return pack.I4(bits % 4294967296) .. pack.I4(number < 0 and high + 2147483648 or high)
end

function unpackAt.d(text, position)
  local low = unpackAt.I4(text, position)
  local high = unpackAt.I4(text, position + 4)
  local sign = high >= 2147483648 and -1 or 1
  local exponent = floor(high / 1048576) % 2048
  if exponent == 0 then
    return 0, position + 8
  end
  local bits = high % 1048576 * 4294967296 + low
  return sign * math.ldexp(1 + bits / 4503599627370496, exponent - 1023), position + 8
end

local kindsOf = setmetatable({}, {
  __index = function(known, format)
    local kinds = {}
    for kind in format:sub(2):gmatch("%a4?") do
      kinds[#kinds + 1] = kind
    end
    assert(format == "<" .. table.concat(kinds), format)
    known[format] = kinds
    return kinds
  end,
})

function struct.pack(format, ...)
  local packed = {}
  for i, kind in ipairs(kindsOf[format]) do
    packed[i] = pack[kind]((select(i, ...)))
  end
  return table.concat(packed)
end

function struct.unpack(format, text, position)
  local numbers = {}
  position = position or 1
  for i, kind in ipairs(kindsOf[format]) do
    numbers[i], position = unpackAt[kind](text, position)
  end
  numbers[#numbers + 1] = position
  return unpack(numbers)
end

-- A Redis of our scripts: its clock says `nowUs`, its keys are a table. `px` keeps the lifetimes that keys were given.
function product.newRedis()
  local redis = { nowUs = 0, keys = {}, px = {} }
  local commands = {
    TIME = function()
      return { string.format("%.0f", floor(redis.nowUs / 1000000)), string.format("%.0f", redis.nowUs % 1000000) }
    end,
    GET = function(key)
      return redis.keys[key] or false
    end,
    GETRANGE = function(key, first, last)
      return (redis.keys[key] or ""):sub(first + 1, last < 0 and last or last + 1)
    end,
    SET = function(key, value, px, ms)
      assert(px == "PX" and tonumber(ms) > 0)
      redis.keys[key] = value
      redis.px[key] = ms
    end,
    SETRANGE = function(key, offset, value)
      local stored = assert(redis.keys[key], "nothing to write into")
      assert(offset <= #stored)
      redis.keys[key] = stored:sub(1, offset) .. value .. stored:sub(offset + #value + 1)
    end,
    PEXPIRE = function(key, ms)
      assert(redis.keys[key] and tonumber(ms) > 0)
      redis.px[key] = ms
    end,
    DEL = function(key)
      redis.keys[key] = nil
      redis.px[key] = nil
    end,
  }
  function redis.call(command, ...)
    return commands[command](...)
  end

  redis.pcall = redis.call

  -- A script sees what Redis lets it see.
  local seen = { redis = redis, struct = struct, math = math, string = string, table = table }
  seen.tonumber, seen.tostring, seen.unpack, seen.type = tonumber, tostring, unpack, type
  local scripts = {}
  redis.scripts, redis.struct = scripts, struct
  for name, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do
    scripts[name] = setfenv(assert(loadstring(script.source, "@" .. name)), seen)
  end
  function redis.run(name, keys, argv)
    seen.KEYS, seen.ARGV = keys, argv
    return scripts[name]()
  end
  -- Redis truncates the numbers of a reply.
  function redis.charge(keys, argv)
    local reply = redis.run("charge", keys, argv)
    for _, number in ipairs(reply) do
      assert(number == floor(number), "Redis would truncate " .. number)
    end
    return reply
  end
  return redis
end

-- What the gateway passes for a counter: algorithm, quota, window in µs, burst or precision, cost.
function product.scriptArguments(limit, cost)
  local format = function(number)
    return string.format("%.0f", number)
  end
  local size = limit.algorithm == "sliding-window" and limit.precisionUs or limit.burst
  return { limit.algorithm, format(limit.quota), format(limit.windowUs), format(size), format(cost) }
end

return product
