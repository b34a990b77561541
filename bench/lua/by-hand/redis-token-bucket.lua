-- A token bucket in Redis, as text: the moment when it is full again, in whole µs and quota-ths of a µs.
--
-- KEYS   the bucket
-- ARGV   quota, window (µs), burst, cost
-- reply  [1 if allowed else 0, remaining, retry after (µs, -1 for never), reset after (µs), delay (µs), its moment (µs)]
local key = KEYS[1]
local quota, window, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local call, floor, ceil = redis.call, math.floor, math.ceil
local exact = 9007199254740992
local time = call("TIME")
local now = time[1] * 1000000 + time[2]

-- Returns floor(a × b ÷ divisor) and the rest; used if a × b may exceed 2^53.
local wide
local unit_rest = window % quota
local unit = (window - unit_rest) / quota
if burst * window >= exact or cost * unit_rest + quota >= exact or burst * quota >= exact then
  wide = function(a, b, divisor)
    local quotient, rest, place = 0, 0, 1073741824
    while place >= 1 do
      local digit = floor(a / place)
      a = a - digit * place
      local partial = rest * 64 + digit * b
      rest = partial % divisor
      quotient = quotient * 64 + (partial - rest) / divisor
      place = place / 64
    end
    return quotient, rest
  end
end
local full, full_rest
if burst * window < exact then
  full_rest = burst * window % quota
  full = (burst * window - full_rest) / quota
else
  full, full_rest = wide(burst, window, quota)
end

local at, rest = 0, 0
local stored = call("GET", key)
if stored and #stored == 16 then
  local moment, parts = struct.unpack("<dd", stored)
  if moment >= 0 and parts >= 0 then at, rest = moment, parts end
end

local tolerance = math.max(math.min(window, 1000000), 50000)
local stepped = false
if at < now then
  at, rest = now, 0
elseif at - now > full + tolerance then
  at, rest, stepped = now + full, full_rest, true
elseif rest >= quota then
  rest = 0
end

local next_at, next_rest = at + cost * unit, rest + cost * unit_rest
if next_rest < exact then
  local left = next_rest % quota
  next_at, next_rest = next_at + (next_rest - left) / quota, left
else
  local carried, left = wide(cost, unit_rest, quota)
  next_at, next_rest = next_at + carried, rest + left
  if next_rest >= quota then next_at, next_rest = next_at + 1, next_rest - quota end
end

local owed = next_at - now
local allowed = not stepped and (owed < full or owed == full and next_rest <= full_rest)
local retry = 0
if allowed then
  at, rest = next_at, next_rest
elseif cost > burst then
  retry = -1
else
  retry = owed - full + ceil((next_rest - full_rest) / quota)
  if retry > exact then retry = exact end
end
owed = at - now
if allowed or stepped then
  local life = ceil((owed + 1) / 1000)
  if life > 3155760000000 then life = 3155760000000 end
  call("SET", key, struct.pack("<dd", at, rest), "PX", life)
end

local us, parts = full - owed, full_rest - rest
local remaining = us * quota + parts
if remaining < 0 then
  remaining = 0
elseif remaining < exact then
  remaining = floor(remaining / window)
else
  local windows = floor(us / window)
  local units, left = wide(quota, us - windows * window, window)
  remaining = windows * quota + units + floor((left + parts) / window)
end
local reset = rest > 0 and owed + 1 or owed
if reset > exact then reset = exact end
return { allowed and 1 or 0, remaining, retry, reset, 0, at }
