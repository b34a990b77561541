-- A sliding window in a shared dict, with ticks of any length. One cell has the newest tick, and in its flags the units
-- that count; other cells, of at most half a page, have the ring of ticks before it, each with the running sum before it,
-- packed in 32 bits. A log does not need the first cell: if `head` is false, tick and sum are stored with the ring.

local ffi = require("ffi")

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local wrap = 4294967296
local most_entries = 131072
local per_cell = 236

local cells, loaded, changed = {}, {}, {}
local cell_count = 0
local current_key

local function make_cells(index)
  for made = cell_count, index do cells[made] = ffi.new("uint32_t[?]", 8 + 2 * per_cell) end
  cell_count = max(cell_count, index + 1)
end
make_cells(0)

local _M = {}

-- ticks: for how many ticks a tick still counts. Returns two functions:
--   take, of key, now (µs) and cost, which returns allowed, remaining, retry after, reset after,
--   delay, moment (µs)
--   give_back, of key, now, the moment of the charge and its cost
function _M.new(dict, quota, window, tick, ticks, waits, head)
  local tolerance = math.max(min(window, 1000000), 50000)
  local reach = ticks * tick
  local whole = reach + tick
  local most = min(ticks + 1, most_entries)

  local at, count, first, length, room, start, offset, has_ring

  -- Returns the cell of a slot and the position of the slot's entry in it.
  local function place(slot)
    if slot < per_cell then return cells[0], 8 + 2 * slot end
    local index = floor(slot / per_cell)
    if not loaded[index] then
      make_cells(index)
      loaded[index] = true
      local stored = dict:get(index .. ":" .. current_key)
      if stored then
        ffi.copy(cells[index], stored, #stored)
      else
        -- It was evicted: its units count as part of the newest.
        for entry = 0, per_cell - 1 do
          cells[index][2 * entry], cells[index][2 * entry + 1] = (at / tick + offset) % wrap, start
        end
      end
    end
    return cells[index], 2 * (slot - index * per_cell)
  end

  local function tick_of(entry)
    local slot = first + entry
    local cell, position = place(slot < room and slot or slot - room)
    return cell[position]
  end

  local function sum_of(entry)
    if entry == length then return start end
    local slot = first + entry
    local cell, position = place(slot < room and slot or slot - room)
    return cell[position + 1]
  end

  local function load_ring()
    has_ring = true
    local stored = dict:get("0:" .. current_key)
    loaded[0] = true
    if not stored then return end
    local numbers = cells[0]
    ffi.copy(numbers, stored, #stored)
    local moment = numbers[0] * wrap + numbers[1]
    if not head then
      at, count = moment, numbers[2]
    elseif moment ~= at then
      return
    end
    first, length, room, start, offset = numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]
    -- The first cell was evicted and recreated in the same tick: these sums are not those of its units.
    if (start - sum_of(0)) % wrap > count then
      first, length, room, start, offset = 0, 0, 0, 0, 0
    end
  end

  local function put(slot, tick_number, sum)
    local cell, position = place(slot)
    cell[position], cell[position + 1] = tick_number, sum
    changed[floor(slot / per_cell)] = true
  end

  local function grow()
    local numbers, sums = {}, {}
    for entry = 0, length - 1 do numbers[entry], sums[entry] = tick_of(entry), sum_of(entry) end
    first, room = 0, min(room + max(8, floor(room / 16)), most)
    for index = 0, floor((room - 1) / per_cell) do
      make_cells(index)
      loaded[index] = true
    end
    for entry = 0, length - 1 do put(entry, numbers[entry], sums[entry]) end
  end

  local function open(key, now, cost)
    current_key = key
    first, length, room, start, offset, has_ring = 0, 0, 0, 0, 0, false
    for index = 0, cell_count - 1 do loaded[index], changed[index] = false, false end
    if not head then
      at, count = 0, 0
      return load_ring()
    end
    at, count = dict:get("n" .. key)
    at, count = at or 0, count or 0
    if count == 0 then return end
    local behind = now - now % tick - at
    if behind <= reach and (behind ~= 0 or count + cost > quota) then load_ring() end
  end

  local function save(now)
    local life = min(ceil((at + whole + tick - now) / 1000) / 1000, 3155760000)
    if has_ring or not head then
      local numbers = cells[0]
      numbers[0], numbers[1], numbers[2] = floor(at / wrap), at % wrap, count
      numbers[3], numbers[4], numbers[5], numbers[6], numbers[7] = first, length, room, start, offset
      dict:set("0:" .. current_key, ffi.string(numbers, 4 * (8 + 2 * min(room, per_cell))), life)
      for index = 1, cell_count - 1 do
        if changed[index] then
          local entries = min(room - index * per_cell, per_cell)
          dict:set(index .. ":" .. current_key, ffi.string(cells[index], 8 * entries), life)
        end
      end
    end
    if head then dict:set("n" .. current_key, at, life, count) end
  end

  -- Returns how much sooner the first `units` become free than the units of the newest tick.
  local function until_last(units)
    if length == 0 then return 0 end
    local oldest = sum_of(0)
    if (start - oldest) % wrap < units then return 0 end
    -- Finds the last entry before which fewer were taken, which is seldom far.
    local low, high, stride = 0, length, 1
    while high - low > 1 do
      local middle = low + stride
      if middle >= high then middle = floor((low + high) / 2) end
      if (sum_of(middle) - oldest) % wrap < units then
        low = middle
        stride = stride * 2
      else
        high = middle
        stride = length
      end
    end
    return (at / tick + offset - tick_of(low)) % wrap * tick
  end

  local function expire(tick_at)
    if tick_at - at > reach then
      count, first, length, start, offset = 0, 0, 0, 0, 0
    elseif length > 0 then
      local newest = tick_at / tick + offset
      if (newest - tick_of(0)) % wrap <= ticks then return end
      local before = sum_of(0)
      repeat
        first = first + 1
        if first == room then first = 0 end
        length = length - 1
      until length == 0 or (newest - tick_of(0)) % wrap <= ticks
      count = count - (sum_of(0) - before) % wrap
    end
  end

  local function take(key, now, cost)
    open(key, now, cost)
    local tick_at = now - now % tick
    local stepped = false
    if tick_at > at then
      expire(tick_at)
    elseif tick_at < at then
      -- The clock stepped back: all that counts moves with it, to the end of the tick that it shows.
      local reached = now == tick_at and now or tick_at + tick
      if at - now > tolerance and at > reached then
        offset = (offset + (at - reached) / tick) % wrap
        at, stepped = reached, true
      end
      tick_at = at
    end

    local after = count + cost
    if after <= quota then
      if tick_at ~= at then
        local sum = (sum_of(0) + count) % wrap
        if sum ~= start and length < most_entries then
          if length == room then grow() end
          local slot = first + length
          put(slot < room and slot or slot - room, (at / tick + offset) % wrap, start)
          length, start = length + 1, sum
        end
        at = tick_at
      end
      count = after
      save(now)
      return true, quota - after, 0, at + whole - now, 0, at
    end
    if stepped then save(now) end
    local last = at + whole - now
    local retry = -1
    if cost <= quota then retry = waits and last - until_last(after - quota) or 0 end
    return false, count < quota and quota - count or 0, retry, count > 0 and last or 0, 0, at
  end

  local function give_back(key, now, taken_at, cost)
    open(key, now, quota + 1)
    if count == 0 then return end
    if not has_ring then load_ring() end
    if taken_at == at then
      count = count - min(cost, (sum_of(0) + count - start) % wrap)
      return save(now)
    end
    local wanted = (taken_at / tick + offset) % wrap
    for entry = length - 1, max(0, length - 128), -1 do
      if tick_of(entry) == wanted then
        local returned = min(cost, (sum_of(entry + 1) - sum_of(entry)) % wrap)
        for later = entry + 1, length - 1 do
          local slot = first + later
          if slot >= room then slot = slot - room end
          put(slot, tick_of(later), (sum_of(later) - returned) % wrap)
        end
        start, count = (start - returned) % wrap, count - returned
        return save(now)
      end
    end
  end

  return take, give_back
end

return _M
