-- Slots in Redis: a slot that is not renewed is free again after its time to live.
--
-- KEYS   the counter: tick and units that count, 64 bits each; then, where earlier ticks count, first, length, room,
--        start and offset of a ring, and its entries: tick, running sum before it, 32 bits each
-- ARGV   quota, time to live (µs), 0, cost
-- reply  [1 if allowed else 0, remaining, retry after (µs, -1 for never), reset after (µs), delay (µs), its moment (µs)]
local key = KEYS[1]
local quota, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local call, pack, unpack_numbers = redis.call, struct.pack, struct.unpack
local sub, floor = string.sub, math.floor
local wrap = 4294967296
local tick, ticks = floor(window / 10), 9
local time = call("TIME")
local now = time[1] * 1000000 + time[2]

-- A short counter is read and written whole. Of a long one, only the head and the first 16 entries are; the others are read
-- and written in place.
local at, count, first, length, room, start, offset, entries = 0, 0, 0, 0, 0, 0, 0, ""
local stored = call("GETRANGE", key, 0, 163)
if #stored >= 16 then
  at, count = unpack_numbers("<dd", stored)
  if #stored > 36 then
    first, length, room, start, offset = unpack_numbers("<I4I4I4I4I4", stored, 17)
    entries = sub(stored, 37)
  end
end

-- Returns tick and sum of an entry.
local function entry_at(entry)
  local slot = first + entry
  if slot >= room then slot = slot - room end
  if slot < 16 then return unpack_numbers("<I4I4", entries, slot * 8 + 1) end
  return unpack_numbers("<I4I4", call("GETRANGE", key, 36 + slot * 8, 43 + slot * 8))
end

local tick_at = now - now % tick
local stepped = false
if tick_at > at then
  if tick_at - at > ticks * tick then
    count, first, length, start, offset = 0, 0, 0, 0, 0
  elseif length > 0 then
    local newest = tick_at / tick + offset
    local oldest, before = entry_at(0)
    if (newest - oldest) % wrap > ticks then
      -- Seldom more than one has expired, but many after a pause: the search doubles its stride, then halves.
      local expired, live, stride, sum = 0, length, 1, start
      while live - expired > 1 do
        local middle = expired + stride
        if middle >= live then middle = floor((expired + live) / 2) end
        local middle_tick, middle_sum = entry_at(middle)
        if (newest - middle_tick) % wrap > ticks then
          expired = middle
          stride = stride * 2
        else
          live, sum = middle, middle_sum
          stride = length
        end
      end
      count = count - (sum - before) % wrap
      first = first + live
      if first >= room then first = first - room end
      length = length - live
    end
  end
elseif tick_at < at then
  -- The clock stepped back: all that counts moves with it, to the end of the tick that it shows.
  local reached = now == tick_at and now or tick_at + tick
  if at - now > math.max(math.min(window, 1000000), 50000) and at > reached then
    offset = (offset + (at - reached) / tick) % wrap
    at, stepped = reached, true
  end
  tick_at = at
end

local after = count + cost
local allowed = after <= quota
if allowed then
  if tick_at ~= at then
    local sum = start
    if length > 0 then
      local _, before = entry_at(0)
      sum = before
    end
    sum = (sum + count) % wrap
    if sum ~= start and length < 131072 then
      if length == room then
        local wider = room + math.max(8, floor(room / 16))
        -- As many entries as fill a size class of Redis' allocator.
        local bytes, step = 46 + wider * 8, 16
        while step * 8 < bytes do step = step * 2 end
        wider = floor((math.ceil(bytes / step) * step - 46) / 8)
        wider = math.min(wider, ticks + 1, 131072)
        if room > 16 then entries = call("GETRANGE", key, 36, -1) end
        local moved = sub(entries, first * 8 + 1, (first + length) * 8)
        moved = moved .. sub(entries, 1, length * 8 - #moved) .. string.rep("\0", (wider - length) * 8)
        if wider > 16 then call("SET", key, string.rep("0", 36) .. moved, "PX", 1000) end
        entries = sub(moved, 1, 128)
        first, room = 0, wider
      end
      local slot = first + length
      if slot >= room then slot = slot - room end
      local entry = pack("<I4I4", (at / tick + offset) % wrap, start)
      if slot < 16 then
        entries = sub(entries, 1, slot * 8) .. entry .. sub(entries, slot * 8 + 9)
      else
        call("SETRANGE", key, 36 + slot * 8, entry)
      end
      length, start = length + 1, sum
    end
    at = tick_at
  end
  count = after
end

if allowed or stepped then
  local life = math.min(math.ceil((at + (ticks + 2) * tick - now) / 1000), 3155760000000)
  local head = pack("<dd", at, count)
  if length == 0 then
    call("SET", key, head, "PX", life)
  else
    head = head .. pack("<I4I4I4I4I4", first, length, room, start, offset) .. entries
    if room > 16 then
      call("SETRANGE", key, 0, head)
      call("PEXPIRE", key, life)
    else
      call("SET", key, head, "PX", life)
    end
  end
end

local last = at + (ticks + 1) * tick - now
local retry = 0
if not allowed then
  if cost > quota then retry = -1 end
end
return { allowed and 1 or 0, count < quota and quota - count or 0, retry, count > 0 and last or 0, 0, at }
