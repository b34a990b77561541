-- Runs one algorithm in nginx's shared dict, by the product's node store or by hand, at 100 addresses. The load has its own
-- clock, so that a request's time advances while the worker is measured.

local bundle = require("bundle")
local load = require("limiter_load")

local _M = {}

local counter_count = 100
local checked_decisions = 20000
local steady_decisions = 1000000

local clock = load.start
-- Replaced before the product is loaded, since the product may keep the function.
ngx.now = function()
  return clock / 1000000
end

local keys, decide, give_back
local picks, pauses
local i, sum, admitted = 0, 0, 0
local one

-- Returns the keys that a key part "ip" makes of these addresses.
local function addresses()
  local list = {}
  for i = 1, counter_count do list[i] = "1:203.0." .. math.floor(i / 256) .. "." .. i % 256 end
  return list
end

local sides = {}

function sides.product(directory)
  local module = bundle.open(directory)
  local policy = bundle.policy(directory, module)
  local store = module("gateway.src.stores.node.node-counters")
  store.openNodeStore(1, 1)
  local decide_on_node, refund_on_node = store.decideOnNode, store.refundOnNode
  local merged = module("limiter.src.compiled.merged-decision").newMergedDecision()
  local decision, violated = merged.decision, merged.violated
  local chargedAt = {}

  keys = addresses()
  decide = function(key)
    merged.policy, merged.delayUs, violated[1] = nil, 0, nil
    local allowed = decide_on_node(policy, policy.limits, key, merged, chargedAt)
    return allowed, decision.remaining, decision.retryAfterUs, decision.resetAfterUs, merged.delayUs, chargedAt[1]
  end
  give_back = function(key, _, taken_at)
    chargedAt[1] = taken_at
    refund_on_node(policy, policy.limits, key, chargedAt)
  end
end

sides["by-hand"] = function(_, algorithm, quota, window, size)
  local dict = ngx.shared.sluice_counters
  local cells = { ["token-bucket"] = "token-bucket", ["leaky-bucket"] = "leaky-bucket", ["fixed-window"] = "fixed-window" }
  local by_hand = require("by-hand.dict-" .. (cells[algorithm] or "sliding"))
  local take, back
  -- The function is made more than once for the reason given in limiter_pure.lua.
  for _ = 1, 8 do
    if algorithm == "sliding-window" then
      take = by_hand.new(dict, quota, window, size, math.floor((window + size - 2) / size), true, true)
    elseif algorithm == "sliding-log" then
      local tick = 1
      while window > tick * 2 ^ 30 do tick = tick * 2 end
      take = by_hand.new(dict, quota, window, tick, math.floor((window + tick - 2) / tick), true, false)
    elseif algorithm == "concurrency" then
      take, back = by_hand.new(dict, quota, window, math.floor(window / 10), 9, false, true)
    else
      take = by_hand.new(dict, quota, window, size)
    end
  end

  -- The limit's prefix is 16 characters, as in the product: lookups and memory are those of keys of the same length.
  keys = addresses()
  local family = "by-hand-bucket-:"
  if cells[algorithm] then family = "n" .. family end
  decide = function(key, now)
    local allowed, remaining, retry, reset, delay, moment = take(family .. key, now, 1)
    return allowed, remaining, retry, reset, delay, moment
  end
  give_back = function(key, now, taken_at)
    back(family .. key, now, taken_at, 1)
  end
end

local function take_one()
  i = i < load.length and i + 1 or 1
  clock = clock + pauses[i]
  local allowed, remaining, retry, reset, delay = decide(keys[picks[i]], clock)
  if allowed then admitted = admitted + 1 end
  sum = sum + remaining + retry + reset + (delay or 0)
end

-- Concurrency: see limiter_pure.lua. A slot is released in the log phase, and nginx calls from C for that too.
local most_held
local held_keys, held_moments = {}, {}
local oldest, newest = 1, 0

local function give_back_or_hold(step)
  if step == "g" then
    i = i < load.length and i + 1 or 1
    clock = clock + pauses[i]
    if newest - oldest >= most_held or most_held == math.huge and i % 2 == 0 and newest >= oldest then
      local slot = oldest % 262144
      give_back(held_keys[slot], clock, held_moments[slot])
      oldest = oldest + 1
    end
    return
  end
  local key = keys[picks[i]]
  local allowed, remaining, retry, reset, _, moment = decide(key, clock)
  if allowed then
    admitted = admitted + 1
    newest = newest + 1
    held_keys[newest % 262144], held_moments[newest % 262144] = key, moment
  end
  sum = sum + remaining + retry + reset
end

-- nginx calls from C for each request, and no trace spans two of them. gsub calls from C too; in a loop of Lua, the
-- measurement would show which of the loop's very long traces LuaJIT happens to give up.
local steps
local function run(decisions)
  admitted = 0
  string.gsub(string.rep(steps, decisions), ".", one)
  return admitted
end

function _M.start(side, directory, algorithm, quota, window, size, gap, hold)
  picks, pauses = load.requests(counter_count, gap, 1000)
  sides[side](directory, algorithm, quota, window, size)
  most_held = hold == "half" and quota * counter_count / 2 or math.huge
  if algorithm == "concurrency" then one, steps = give_back_or_hold, "gx" else one, steps = take_one, "x" end
end

local modes = {}

function modes.ready() end

function modes.decisions()
  local decide_one, lines = decide, {}
  decide = function(key, now)
    local allowed, remaining, retry, reset, delay, moment = decide_one(key, now)
    delay = delay or 0
    lines[#lines + 1] = string.format("%s %.0f %.0f %.0f %.0f", allowed, remaining, retry, reset, delay)
    return allowed, remaining, retry, reset, delay, moment
  end
  run(checked_decisions)
  decide = decide_one
  ngx.say(table.concat(lines, "\n"))
end

function modes.time(decisions)
  local begun = os.clock()
  local admitted = run(decisions)
  local seconds = (os.clock() - begun) / decisions
  ngx.say(string.format("%.3f %.4f", seconds * 1e9, admitted / decisions))
end

function modes.traces(directory)
  run(steady_decisions)
  local file = directory .. "/traces.txt"
  require("jit.v").on(file)
  run(steady_decisions)
  require("jit.v").off()
  for line in io.lines(file) do ngx.say(line) end
end

function _M.answer(directory)
  local mode, decisions = ngx.var.arg_mode, tonumber(ngx.var.arg_decisions)
  modes[mode](mode == "time" and decisions or directory)
end

return _M
