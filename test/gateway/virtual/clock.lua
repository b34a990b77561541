-- The virtual time of a world, in whole µs, and what is to happen in it. Time moves only from one event to the next, so an
-- hour takes as long as what happens in it. Events of the same moment come in an order that the seed chooses.

local clock = {}

-- Numbers from a seed, the same on every machine: the generator of Park and Miller.
function clock.randomFrom(seed)
  local state = seed % 2147483646 + 1
  local function next()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  -- Seeds that lie close together begin alike.
  for _ = 1, 8 do
    next()
  end
  -- As math.random: a fraction, or a whole number up to `first`, or from `first` to `last`.
  return function(first, last)
    if not first then
      return next()
    end
    if not last then
      first, last = 1, first
    end
    return first + math.floor(next() * (last - first + 1))
  end
end

local function before(one, other)
  if one.dueUs ~= other.dueUs then
    return one.dueUs < other.dueUs
  end
  if one.order ~= other.order then
    return one.order < other.order
  end
  return one.number < other.number
end

local function push(heap, event)
  local at = #heap + 1
  heap[at] = event
  while at > 1 do
    local above = (at - at % 2) / 2
    if not before(event, heap[above]) then
      break
    end
    heap[at], heap[above] = heap[above], event
    at = above
  end
end

local function pop(heap)
  local first, count = heap[1], #heap
  local last = heap[count]
  heap[count] = nil
  count = count - 1
  if count > 0 then
    local at = 1
    while true do
      local below = at * 2
      if below > count then
        break
      end
      if below < count and before(heap[below + 1], heap[below]) then
        below = below + 1
      end
      if not before(heap[below], last) then
        break
      end
      heap[at] = heap[below]
      at = below
    end
    heap[at] = last
  end
  return first
end

-- `nowUs` counts from the beginning of the world.
function clock.new(seed)
  local self = { nowUs = 0, events = 0, random = clock.randomFrom(seed) }
  local heap, number = {}, 0

  -- Calls `happen` at this moment, or now where that is over. Returns the event, whose `cancelled` may be set.
  function self.at(dueUs, happen)
    number = number + 1
    local event = { dueUs = math.max(dueUs, self.nowUs), order = self.random(), number = number, happen = happen }
    push(heap, event)
    return event
  end

  -- Lets happen what is due until then, and leaves the clock there.
  function self.runUntil(untilUs)
    local sinceUs, atOnce = self.nowUs, 0
    while heap[1] and heap[1].dueUs <= untilUs do
      local event = pop(heap)
      if not event.cancelled then
        self.nowUs = event.dueUs
        atOnce = event.dueUs - sinceUs < 100 and atOnce + 1 or 0
        sinceUs = atOnce == 0 and event.dueUs or sinceUs
        assert(atOnce < 1000000, "time does not go on")
        self.events = self.events + 1
        event.happen()
      end
    end
    self.nowUs = math.max(self.nowUs, untilUs)
  end

  return self
end

return clock
