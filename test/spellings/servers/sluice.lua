-- What Sluice itself reads of a request, by the code that nginx runs: gateway/dist. Run in the project's directory.
-- A reading is in a list: {} is none, {"false"} is an answer 400, {"=VALUE"} is a value.

local product = dofile("test/gateway/product.lua")
local argument = product.module("limiter.src.key.argument")
local fieldValue = product.module("limiter.src.key.field").fieldValue
local cookieValue = product.module("limiter.src.key.cookie").cookieValue
local formReading = product.module("limiter.src.key.form-type").formReading

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function decoded(text)
  local bits = text:gsub("=", ""):gsub(".", function(digit)
    local value, written = digits:find(digit, 1, true) - 1, {}
    for i = 6, 1, -1 do
      written[i] = value % 2
      value = math.floor(value / 2)
    end
    return table.concat(written)
  end)
  return (bits:gsub("%d%d?%d?%d?%d?%d?%d?%d?", function(byte)
    return #byte == 8 and string.char(tonumber(byte, 2)) or ""
  end))
end

local function encoded(text)
  local bits = text:gsub(".", function(byte)
    local value, written = byte:byte(), {}
    for i = 8, 1, -1 do
      written[i] = value % 2
      value = math.floor(value / 2)
    end
    return table.concat(written)
  end)
  return (bits:gsub("%d%d?%d?%d?%d?%d?", function(digit)
    local value = tonumber(digit .. ("0"):rep(6 - #digit), 2)
    return digits:sub(value + 1, value + 1)
  end))
end

-- Like gateway/src/request/usual-text.ts, whose encoder and decoder are nginx's.
local function readUsual(written)
  local text = written:gsub("+", " "):gsub("%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end)
  local again = text:gsub("[^%w._~-]", function(byte)
    return ("%%%02X"):format(byte:byte())
  end)
  return again == written and not text:find("[^ -~]") and text or nil
end

local function listed(reading)
  if reading == nil then
    return "[]"
  end
  return ('["%s"]'):format(encoded(reading and "=" .. reading or "false"))
end

local function formOf(name, query, body, type, cookie)
  local form = formReading(type ~= "" and type:match("^%s*(.-)%s*$") or nil, nil)
  if form == false then
    return false
  end
  local read = (form or body == "") and body or nil
  return fieldValue(read, query, cookie, name, form or "utf-8", readUsual)
end

for line in io.lines() do
  local fields = {}
  for field in (line .. "\t"):gmatch("(.-)\t") do
    fields[#fields + 1] = decoded(field)
  end
  local name, query, body, type, cookie = unpack(fields)
  io.write(
    ('{"Sluice":{"query":%s,"form":%s,"cookie":%s}}\n'):format(
      listed(argument.argumentValue(query, name, readUsual)),
      listed(formOf(name, query, body, type, cookie)),
      listed(cookieValue(cookie, name))
    )
  )
  io.flush()
end
