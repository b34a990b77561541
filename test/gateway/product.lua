-- Gives tests in Lua the built gateway: its modules without nginx (gateway/dist/sluice.lua up to where it starts the
-- gateway), its Redis scripts as functions, and the vectors.

local cjson = require("cjson")

local product = {}

local function read(path)
  local file = assert(io.open(path, "rb"), path .. " cannot be read: run from the project's directory, after npm run build")
  local text = file:read("*a")
  file:close()
  return text
end

-- Returns a module of the bundle by its name: product.module("limiter.src.compiled.merged-decision"). This needs LuaJIT: the
-- bundle has `goto`, which Lua 5.1 does not know.
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

-- Returns a vector's limit as a policy's limit.
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

-- Stands in for Redis' own library for packed numbers, as far as "<", "I4" and "d" go. Each format becomes a function that
-- needs no table, because millions of decisions use it.
local struct = {}
local floor = math.floor

-- IEEE 754 has 52 bits of fraction, 11 of exponent, and a sign. This maps the exponent's bits to their value.
local powers = {}
for exponent = 1, 2046 do
  powers[exponent] = math.ldexp(1, exponent - 1023)
end

local function halvesOf(number)
  if number == 0 then
    return 0, 0
  end
  local fraction, exponent = math.frexp(math.abs(number))
  local bits = (fraction * 2 - 1) * 4503599627370496
  local low = bits % 4294967296
  local high = (bits - low) / 4294967296 + (exponent + 1022) * 1048576
  return low, number < 0 and high + 2147483648 or high
end

local function numberOf(low, high)
  local sign = 1
  if high >= 2147483648 then
    sign, high = -1, high - 2147483648
  end
  local rest = high % 1048576
  local exponent = (high - rest) / 1048576
  if exponent == 0 then
    return 0
  end
  return sign * (1 + (rest * 4294967296 + low) / 4503599627370496) * powers[exponent]
end

local function checked(number)
  assert(number >= 0 and number < 4294967296 and number % 1 == 0, "not 32 bits")
  return number
end

local function kindsOf(format)
  local kinds = {}
  for kind in format:sub(2):gmatch("%a4?") do
    assert(kind == "I4" or kind == "d", format)
    kinds[#kinds + 1] = kind
  end
  assert(format == "<" .. table.concat(kinds), format)
  return kinds
end

-- Returns source that splits numbers n1, n2, … into 32 bits at a time, and each of those into four bytes.
local function packing(format)
  local parameters, lines, bytes = {}, {}, {}
  local function takeApart(word)
    local names = {}
    for i = 1, 4 do
      names[i] = word .. "_" .. i
      bytes[#bytes + 1] = names[i]
    end
    lines[#lines + 1] = ([[local W_1 = W % 256 local r = (W - W_1) / 256 local W_2 = r % 256
      r = (r - W_2) / 256 local W_3 = r % 256 local W_4 = (r - W_3) / 256]]):gsub("W", word)
  end
  for i, kind in ipairs(kindsOf(format)) do
    local number = "n" .. i
    parameters[i] = number
    if kind == "d" then
      lines[#lines + 1] = ("local lN, hN = halvesOf(N)"):gsub("N", number)
      takeApart("l" .. number)
      takeApart("h" .. number)
    else
      lines[#lines + 1] = ("checked(N)"):gsub("N", number)
      takeApart(number)
    end
  end
  return ([[local char, halvesOf, checked = string.char, ...
    return function(%s) %s return char(%s) end]]):format(
    table.concat(parameters, ", "),
    table.concat(lines, " "),
    table.concat(bytes, ", ")
  )
end

-- Returns source that reads bytes b1, b2, … from a text, and joins them to numbers.
local function unpacking(format)
  local bytes, numbers = {}, {}
  local function putTogether()
    local at = #bytes
    for i = 1, 4 do
      bytes[at + i] = "b" .. at + i
    end
    return ("b%d + b%d * 256 + b%d * 65536 + b%d * 16777216"):format(at + 1, at + 2, at + 3, at + 4)
  end
  for i, kind in ipairs(kindsOf(format)) do
    numbers[i] = kind == "d" and ("numberOf(%s, %s)"):format(putTogether(), putTogether()) or putTogether()
  end
  return ([[local byte, numberOf = string.byte, ...
    return function(text, position)
      position = position or 1
      local %s = byte(text, position, position + %d)
      return %s, position + %d
    end]]):format(table.concat(bytes, ", "), #bytes - 1, table.concat(numbers, ", "), #bytes)
end

local function byFormat(source, one, other)
  return setmetatable({}, {
    __index = function(known, format)
      known[format] = assert(loadstring(source(format)))(one, other)
      return known[format]
    end,
  })
end

local packed, unpacked = byFormat(packing, halvesOf, checked), byFormat(unpacking, numberOf)

function struct.pack(format, ...)
  return packed[format](...)
end

function struct.unpack(format, text, position)
  return unpacked[format](text, position)
end

-- Returns a Redis with our scripts: its clock shows `nowUs`, its keys are a table, and `px` has the lifetimes of keys.
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
      assert(px == nil or (px == "PX" and tonumber(ms) > 0))
      redis.keys[key] = value
      redis.px[key] = ms
    end,
    SETRANGE = function(key, offset, value)
      if value == "" then return #(redis.keys[key] or "") end
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

  -- A script has only the globals that Redis gives it.
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
  -- Redis truncates the numbers of a reply, so they must be whole.
  function redis.charge(keys, argv)
    local reply = redis.run("charge", keys, argv)
    for _, number in ipairs(reply) do
      assert(number == floor(number), "Redis would truncate " .. number)
    end
    return reply
  end
  return redis
end

-- Returns what the gateway passes for a counter: algorithm, quota, window in µs, burst or precision, cost.
function product.scriptArguments(limit, cost)
  local format = function(number)
    return string.format("%.0f", number)
  end
  local size = limit.algorithm == "sliding-window" and limit.precisionUs or limit.burst
  return { limit.algorithm, format(limit.quota), format(limit.windowUs), format(size), format(cost) }
end

return product
