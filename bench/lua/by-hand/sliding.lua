-- A sliding window in memory, with ticks of any length: the newest tick and the sum that counts, and a ring of the earlier
-- ticks in which units were taken, with the running sum before each.

local floor, min, max = math.floor, math.min, math.max

local most_entries = 131072

local _M = {}

function _M.counter()
  return { at = 0, count = 0, first = 0, length = 0, room = 0, start = 0, offset = 0, times = {}, sums = {} }
end

local function grow(counter)
  local times, sums = {}, {}
  for entry = 0, counter.length - 1 do
    local slot = (counter.first + entry) % counter.room
    times[entry], sums[entry] = counter.times[slot], counter.sums[slot]
  end
  counter.first, counter.room, counter.times, counter.sums = 0, max(8, 2 * counter.room), times, sums
end

-- Returns how much sooner the first `units` become free than the units of the newest tick.
local function until_last(counter, units)
  local first, length, room, sums = counter.first, counter.length, counter.room, counter.sums
  if length == 0 then return 0 end
  local wanted = sums[first] + units
  if counter.start < wanted then return 0 end
  -- Finds the last entry before which fewer were taken, which is seldom far.
  local low, high, stride = 0, length, 1
  while high - low > 1 do
    local middle = low + stride
    if middle >= high then middle = floor((low + high) / 2) end
    local slot = first + middle
    if slot >= room then slot = slot - room end
    if sums[slot] < wanted then
      low = middle
      stride = stride * 2
    else
      high = middle
      stride = length
    end
  end
  local slot = first + low
  if slot >= room then slot = slot - room end
  return counter.at + counter.offset - counter.times[slot]
end

-- ticks: for how many ticks a tick still counts. Returns two functions:
--   take, of counter, now (µs) and cost, which returns allowed, remaining, retry after, reset after (µs)
--   give_back, of counter, the moment of the charge and its cost
function _M.new(quota, window, tick, ticks, waits)
  local tolerance = math.max(min(window, 1000000), 50000)
  local reach = ticks * tick
  local whole = reach + tick

  local function take(counter, now, cost)
    local at, count = counter.at, counter.count
    local tick_at = now - now % tick
    if tick_at > at then
      if tick_at - at > reach then
        count = 0
        counter.count, counter.first, counter.length, counter.start, counter.offset = 0, 0, 0, 0, 0
      elseif counter.length > 0 then
        local first, times = counter.first, counter.times
        local oldest = tick_at + counter.offset - reach
        if times[first] < oldest then
          local sums, length, room = counter.sums, counter.length, counter.room
          local before = sums[first]
          repeat
            first = first + 1
            if first == room then first = 0 end
            length = length - 1
          until length == 0 or times[first] >= oldest
          count = count - ((length > 0 and sums[first] or counter.start) - before)
          counter.first, counter.length, counter.count = first, length, count
        end
      end
    elseif tick_at < at then
      -- The clock stepped back: all that counts moves with it, to the end of the tick that it shows.
      local reached = now == tick_at and now or tick_at + tick
      if at - now > tolerance and at > reached then
        counter.offset = counter.offset + at - reached
        at = reached
        counter.at = at
      end
      tick_at = at
    end

    local after = count + cost
    if after <= quota then
      if tick_at ~= at then
        local first, length = counter.first, counter.length
        local sum = (length > 0 and counter.sums[first] or counter.start) + count
        if sum ~= counter.start and length < most_entries then
          if length == counter.room then
            grow(counter)
            first = 0
          end
          local slot = first + length
          if slot >= counter.room then slot = slot - counter.room end
          counter.times[slot], counter.sums[slot] = at + counter.offset, counter.start
          counter.length, counter.start = length + 1, sum
        end
        counter.at = tick_at
      end
      counter.count = after
      return true, quota - after, 0, tick_at + whole - now
    end
    local last = at + whole - now
    local retry = -1
    if cost <= quota then retry = waits and last - until_last(counter, after - quota) or 0 end
    return false, count < quota and quota - count or 0, retry, count > 0 and last or 0
  end

  local function give_back(counter, taken_at, cost)
    local first, length, room, times, sums = counter.first, counter.length, counter.room, counter.times, counter.sums
    if taken_at == counter.at then
      local newest = (length > 0 and sums[first] or counter.start) + counter.count - counter.start
      counter.count = counter.count - min(cost, newest)
      return
    end
    local wanted = taken_at + counter.offset
    for entry = length - 1, max(0, length - 128), -1 do
      local slot = first + entry
      if slot >= room then slot = slot - room end
      if times[slot] == wanted then
        local following = slot + 1 == room and 0 or slot + 1
        local units = (entry + 1 < length and sums[following] or counter.start) - sums[slot]
        local returned = min(cost, units)
        for _ = entry + 1, length - 1 do
          sums[following] = sums[following] - returned
          following = following + 1 == room and 0 or following + 1
        end
        counter.start, counter.count = counter.start - returned, counter.count - returned
        return
      end
    end
  end

  return take, give_back
end

return _M
