-- The requests with which the limiter is measured: a fixed random sequence of counters and pauses, so that every side
-- makes the same decisions.

local _M = {}

-- Returns a generator of numbers 0 … 2^31 - 1, which is the same on every machine.
local function random(seed)
  return function()
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed
  end
end

local length = 65536

-- counters: how many there are. gap: mean µs from one request to the next at the same counter. step: of the clock, in µs.
-- Returns picks (1 … counters) and pauses (µs), 65,536 of each, to be repeated.
function _M.requests(counters, gap, step)
  local next_number = random(20261121)
  local picks, pauses = {}, {}
  local due, reported = 0, 0
  for i = 1, length do
    picks[i] = math.floor(next_number() / 65536) % counters + 1
    due = due + 2 * gap / counters * next_number() / 2147483648
    local now = due - due % step
    pauses[i] = now - reported
    reported = now
  end
  return picks, pauses
end

_M.length = length
_M.start = 1700000000000000

return _M
