-- The algorithms' vectors, played through the Lua that nginx runs and through the script that Redis runs.

local product = require("test.gateway.product")

local inNginx = jit ~= nil

local function eachStep(vector, play)
  local limit = product.limitOf(vector.limit)
  local nowUs = vector.startUs
  for index, step in ipairs(vector.steps) do
    if step.limit then
      limit = product.limitOf(step.limit)
    end
    nowUs = nowUs + (step.afterUs or 0)
    local expected = {
      step = index,
      allowed = step.allowed,
      remaining = step.remaining,
      retryAfterUs = step.retryAfterUs or 0,
      resetAfterUs = step.resetAfterUs,
      atUs = step.state[1],
      count = step.state[2],
    }
    local actual = play(limit, nowUs, step.cost or 1)
    actual.step = index
    assert.same(expected, actual)
  end
end

for _, algorithm in ipairs({ "token-bucket", "fixed-window" }) do
  describe("in nginx, a " .. algorithm .. ":", function()
    for _, vector in ipairs(inNginx and product.vectors(algorithm).vectors or {}) do
      local rates = product.module("limiter.src.algorithms.rate")
      local newCounter = product.module("limiter.src.charge-all").newCounter
      local emptyDecision = product.module("limiter.src.decision").emptyDecision
      it(vector.name, function()
        local counter = newCounter(rates.rateOf(product.limitOf(vector.limit)), 1)
        eachStep(vector, function(limit, nowUs, cost)
          local rate = rates.rateOf(limit)
          local decision = emptyDecision()
          local allowed = rates.charge(rate, counter, nowUs, cost)
          rates.describe(rate, counter, nowUs, cost, allowed, decision)
          assert.equal(limit.burst, decision.limit)
          return {
            allowed = decision.allowed,
            remaining = decision.remaining,
            retryAfterUs = decision.retryAfterUs,
            resetAfterUs = decision.resetAfterUs,
            atUs = counter.atUs,
            count = counter.count,
          }
        end)
      end)
    end
  end)

  describe("in Redis, a " .. algorithm .. ":", function()
    for _, vector in ipairs(product.vectors(algorithm).vectors) do
      it(vector.name, function()
        local redis = product.newRedis()
        eachStep(vector, function(limit, nowUs, cost)
          redis.nowUs = nowUs
          local reply = redis.charge({ "key" }, product.scriptArguments(limit, cost))
          assert.equal(5, #reply)
          assert.equal(reply[1], reply[2])
          local atUs, count = product.storedState(redis, "key")
          return {
            allowed = reply[1] == 1,
            remaining = reply[3],
            retryAfterUs = reply[4],
            resetAfterUs = reply[5],
            atUs = atUs,
            count = count,
          }
        end)
      end)
    end
  end)
end
