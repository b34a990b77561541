-- Plays a random trace, lines on standard input, and answers each request on standard output as random-trace.ts does.
--
--   luajit  test/parity/play-trace.lua nginx    by the modules that run in nginx
--   lua5.1  test/parity/play-trace.lua redis    by the script that runs in Redis

local product = require("test.gateway.product")

local function whole(number)
  return string.format("%.0f", number)
end

local players = {}

function players.nginx()
  local rates = product.module("limiter.src.algorithms.rate")
  local decision = product.module("limiter.src.decision").emptyDecision()
  local state, rate
  return {
    begin = function()
      state = product.module("limiter.src.algorithms.counter-state").emptyState()
    end,
    edit = function(limit)
      rate = rates.rateOf(limit)
    end,
    ask = function(nowUs, cost)
      local allowed = rates.charge(rate, state, nowUs, cost)
      rates.describe(rate, state, nowUs, cost, allowed, decision)
      assert(decision.allowed == allowed)
      return allowed, decision.remaining, decision.retryAfterUs, decision.resetAfterUs, state.atUs, state.count
    end,
    refund = function(cost)
      rates.refund(rate, state, cost)
      return state.atUs, state.count
    end,
  }
end

function players.redis()
  local redis, limit
  return {
    begin = function()
      redis = product.newRedis()
    end,
    edit = function(newLimit)
      limit = newLimit
    end,
    ask = function(nowUs, cost)
      redis.nowUs = nowUs
      local reply = redis.charge({ "key" }, product.scriptArguments(limit, cost))
      return reply[1] == 1, reply[3], reply[4], reply[5], product.storedState(redis, "key")
    end,
  }
end

local player = players[arg[1]]()
local answers = {}
for line in io.lines() do
  local kind, rest = line:match("^(%S+) (.*)$")
  if kind == "ask" then
    local nowUs, cost = rest:match("^(%d+) (%d+)$")
    local allowed, remaining, retryAfterUs, resetAfterUs, atUs, count = player.ask(tonumber(nowUs), tonumber(cost))
    local numbers = { whole(remaining), whole(retryAfterUs), whole(resetAfterUs), whole(atUs), whole(count) }
    answers[#answers + 1] = (allowed and "allowed " or "refused ") .. table.concat(numbers, " ")
  elseif kind == "refund" then
    local atUs, count = player.refund(tonumber(rest))
    answers[#answers + 1] = "refund " .. whole(atUs) .. " " .. whole(count)
  else
    local algorithm, quota, windowUs, burst = rest:match("^(%S+) (%d+) (%d+) (%d+)$")
    if kind == "limit" then
      player.begin()
    end
    player.edit({
      name = "x",
      algorithm = algorithm,
      quota = tonumber(quota),
      windowUs = tonumber(windowUs),
      burst = tonumber(burst),
    })
  end
end
io.write(table.concat(answers, "\n"), "\n")
