-- luajit limiter_pure.lua SIDE MODE BUNDLE COUNTERS ALGORITHM QUOTA WINDOW SIZE GAP HELD
--
-- Runs one algorithm in memory, by the product's modules or by hand. Prints what MODE asks for:
--   decisions   20,000 decisions, a line each
--   time        ns of CPU per decision and the share that was admitted, a line for each of several slices
--   traces      what LuaJIT compiled and gave up in the steady state, as reported by jit.v

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path

jit.opt.start("maxirconst=2000") -- as the gateway does

local load = require("limiter_load")

local side, mode, directory, counter_count, algorithm = arg[1], arg[2], arg[3], tonumber(arg[4]), arg[5]
local quota, window, size, gap, hold = tonumber(arg[6]), tonumber(arg[7]), tonumber(arg[8]), tonumber(arg[9]), arg[10]

local slices = 3
local slice_decisions = 200000
local checked_decisions = 20000
local steady_decisions = 2000000

local picks, pauses = load.requests(counter_count, gap, 1)

local keeps_entries = algorithm:find("^sliding") or algorithm == "concurrency"

local sides = {}

function sides.product()
  local bundle = require("bundle")
  local module = bundle.open(directory)
  local ring_module = bundle.memory_ring(directory, module)
  local rates = module("limiter.src.algorithms.rate")
  local admits, charge, describe, refund = rates.admits, rates.charge, rates.describe, rates.refund
  local decision = module("limiter.src.algorithms.decision").emptyDecision()
  local ring = ring_module.memoryRing
  local rate = rates.rateOf({
    algorithm = algorithm,
    quota = quota,
    windowUs = window,
    burst = size,
    precisionUs = size,
  })
  local counters = {}
  for i = 1, counter_count do counters[i] = ring_module.memoryCounter() end

  local function decide(counter, now)
    local allowed = admits(rate, counter, ring, now, 1)
    if allowed then charge(rate, counter, ring) end
    describe(rate, counter, ring, now, 1, allowed, decision)
    return allowed, decision.remaining, decision.retryAfterUs, decision.resetAfterUs, decision.delayUs
  end
  local function give_back(counter, now, taken_at)
    refund(rate, counter, ring, now, taken_at, 1)
  end
  local function moment(counter)
    return counter.atUs
  end
  return counters, decide, give_back, moment
end

sides["by-hand"] = function()
  local counters = {}
  local by_hand = require("by-hand." .. (keeps_entries and "sliding" or algorithm))
  local decide, give_back
  -- A gateway has many limits. If the function were made only once, LuaJIT would compile the limit's numbers in as constants.
  for _ = 1, 8 do
    if algorithm == "sliding-window" then
      decide = by_hand.new(quota, window, size, math.floor((window + size - 2) / size), true)
    elseif algorithm == "sliding-log" then
      local tick = 1
      while window > tick * 2 ^ 30 do tick = tick * 2 end
      decide = by_hand.new(quota, window, tick, math.floor((window + tick - 2) / tick), true)
    elseif algorithm == "concurrency" then
      decide, give_back = by_hand.new(quota, window, math.floor(window / 10), 9, false)
    else
      decide = by_hand.new(quota, window, size)
    end
  end
  for i = 1, counter_count do counters[i] = by_hand.counter() end
  local function decide_one(counter, now)
    local allowed, remaining, retry, reset, delay = decide(counter, now, 1)
    return allowed, remaining, retry, reset, delay or 0
  end
  local function give_one_back(counter, _, taken_at)
    give_back(counter, taken_at, 1)
  end
  local function moment(counter)
    return counter.at
  end
  return counters, decide_one, give_one_back, moment
end

local counters, decide, give_back, moment = sides[side]()


local clock, i = load.start, 0
local sum, admitted = 0, 0

local function take_one()
  i = i < load.length and i + 1 or 1
  clock = clock + pauses[i]
  local allowed, remaining, retry, reset, delay = decide(counters[picks[i]], clock)
  if allowed then admitted = admitted + 1 end
  sum = sum + remaining + retry + reset + delay
end

-- Concurrency: the slot that has been held longest is released, as requests end. HELD "half" releases once half of all slots
-- are held, so that few requests are refused; "full" releases before every other request, so that half are refused.
local most_held = hold == "half" and quota * counter_count / 2 or math.huge
local held_counters, held_moments = {}, {}
local oldest, newest = 1, 0

local function give_back_or_hold(step)
  if step == "g" then
    i = i < load.length and i + 1 or 1
    clock = clock + pauses[i]
    if newest - oldest >= most_held or most_held == math.huge and i % 2 == 0 and newest >= oldest then
      local slot = oldest % 65536
      give_back(held_counters[slot], clock, held_moments[slot])
      oldest = oldest + 1
    end
    return
  end
  local counter = counters[picks[i]]
  local allowed, remaining, retry, reset = decide(counter, clock)
  if allowed then
    admitted = admitted + 1
    newest = newest + 1
    held_counters[newest % 65536], held_moments[newest % 65536] = counter, moment(counter)
  end
  sum = sum + remaining + retry + reset
end

local one, steps = take_one, "x"
if algorithm == "concurrency" then one, steps = give_back_or_hold, "gx" end

-- nginx calls from C for each request. In a loop of Lua, LuaJIT would read a limit's numbers once for all iterations, and
-- would never leave a trace that takes both branches of an if.
local function run(decisions)
  admitted = 0
  string.gsub(string.rep(steps, decisions), ".", one)
  return admitted
end

local modes = {}

function modes.decisions()
  local decide_one = decide
  decide = function(counter, now)
    local allowed, remaining, retry, reset, delay = decide_one(counter, now)
    io.write(string.format("%s %.0f %.0f %.0f %.0f\n", allowed, remaining, retry, reset, delay or 0))
    return allowed, remaining, retry, reset, delay or 0
  end
  run(checked_decisions)
end

function modes.time()
  run(2 * slice_decisions)
  for _ = 1, slices do
    local begun = os.clock()
    local admitted = run(slice_decisions)
    print(string.format("%.3f %.4f", (os.clock() - begun) / slice_decisions * 1e9, admitted / slice_decisions))
  end
end

function modes.traces()
  run(steady_decisions)
  require("jit.v").on("-")
  run(steady_decisions)
  require("jit.v").off()
end

modes[mode]()
