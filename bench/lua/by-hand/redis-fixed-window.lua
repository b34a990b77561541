-- A fixed window in Redis, as two numbers of 64 bits: when it began and the units used in it.
--
-- KEYS   the window
-- ARGV   quota, window (µs), 0, cost
-- reply  [1 if allowed else 0, remaining, retry after (µs, -1 for never), reset after (µs), delay (µs), its moment (µs)]
local key = KEYS[1]
local quota, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local call = redis.call
local time = call("TIME")
local now = time[1] * 1000000 + time[2]

local at, used = 0, 0
local stored = call("GET", key)
if stored and #stored == 16 then
  local moment, units = struct.unpack("<dd", stored)
  if moment >= 0 and units >= 0 then at, used = moment, units end
end

local start = now - now % window
local stored_at, stepped = at, false
if at < start then
  at, used = start, 0
elseif at > start and at - now > math.max(math.min(window, 1000000), 50000) then
  -- The clock stepped back: what was used counts in the window that the clock now shows.
  at, stored_at, stepped = start, start, true
end
local after = used + cost
local reset = at + window - now
local allowed = after <= quota
if allowed then used, stored_at = after, at end
if allowed or stepped then
  call("SET", key, struct.pack("<dd", at, used), "PX", math.min(math.ceil(2 * window / 1000), 3155760000000))
end
local retry = 0
if not allowed then retry = cost > quota and -1 or reset end
return { allowed and 1 or 0, used < quota and quota - used or 0, retry, reset, 0, stored_at }
